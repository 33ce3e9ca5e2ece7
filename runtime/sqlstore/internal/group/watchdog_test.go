package group

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// The processor is so busy that the caller goes on only after the watchdog has abandoned its flight.
func TestLoneCallThatBeginsAfterItWasAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inline := func(ctx context.Context, _ []runtime.Call) ([]runtime.Answer, bool, error) {
			return nil, true, ctx.Err()
		}
		q := newQueue(&memstore.Store{}, Options{Inline: inline})
		ctx, cancel := context.WithCancel(t.Context())
		f := q.beginAlone(ctx, make([]runtime.Call, 1), 0)
		cancel()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, q.flights)
		_, ok, err := q.runAlone(ctx, f, nil)
		require.True(t, ok)
		require.ErrorIs(t, err, context.Canceled)
	})
}
