package agree

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Guilty is the key that the table of [Innocents] refuses.
const Guilty = "guilty"

// Innocents makes 300 calls at once, of which some concern the key that the table refuses: the others take.
func Innocents(t *testing.T, store runtime.Store) {
	t.Helper()
	const calls = 300
	for _, kind := range []runtime.Kind{runtime.TokenBucket, runtime.SlidingWindow} {
		for _, guilty := range [][]int{{0}, {137}, {5, 6, 299}} {
			p := &runtime.Policy{
				Name: fmt.Sprint("limit", kind, guilty), Kind: kind, Rate: 2, Capacity: 2, Period: runtime.MaxPeriod,
			}
			all := make([]runtime.Call, calls)
			for i := range all {
				all[i].Requests = []runtime.Request{{Policy: p, Key: fmt.Sprint(i), Count: 1}}
			}
			for _, i := range guilty {
				all[i].Requests[0].Key = Guilty
			}
			answers, err := store.Do(context.Background(), all)
			require.Error(t, err)
			require.Len(t, answers, calls)
			passed := 0
			for i, a := range answers {
				if a.Allowed() {
					passed++
				}
				assert.Equal(t, all[i].Requests[0].Key != Guilty, a.Given(), "call %d", i)
			}
			assert.Equal(t, calls-len(guilty), passed)
		}
	}
}
