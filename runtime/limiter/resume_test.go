package limiter_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// A reservation that is stored as text settles as if it had been kept, whatever the kind, the shards and the mode.
func TestResumedReservationSettles(t *testing.T) {
	window := runtime.Policy{Name: "limit", Kind: runtime.FixedWindow, Rate: 10, Capacity: 10, MaxReserved: 20, Period: time.Hour}
	sharded, shadow, only := window, window, window
	sharded.Shards, shadow.Mode, only.Capacity = 4, runtime.ModeShadow, 0
	bucket := window
	bucket.Kind, bucket.Jitter = runtime.TokenBucket, time.Minute
	for name, p := range map[string]runtime.Policy{"window": window, "bucket": bucket, "shards": sharded, "shadow": shadow, "reserve only": only} {
		for _, used := range []int64{0, 3, 8, 15} {
			left := func(resumed bool) int64 {
				now := noon
				limits := limiter.New(&memstore.Store{Clock: func() time.Time { return now }})
				l := limits.ReserveOnly(&p, runtime.KeyOf(runtime.Int(7)))
				must(l.ReserveN(t.Context(), 6))
				r := must(l.ReserveN(t.Context(), 8))
				require.True(t, r.Allowed)
				if resumed {
					text := must(r.MarshalText())
					assert.NotContains(t, string(text), `"7"`)
					again := must(limits.ReserveOnly(&p, runtime.KeyOf(runtime.Int(7))).Resume(text))
					assert.Equal(t, r.Delay(), again.Delay())
					assert.True(t, r.At().Equal(again.At()), "%v, want %v", again.At(), r.At())
					r = again
				}
				now = now.Add(time.Minute)
				require.NoError(t, r.Settle(t.Context(), used))
				require.ErrorIs(t, r.Settle(t.Context(), used), runtime.ErrNotReserved)
				_, err := r.MarshalText()
				require.ErrorIs(t, err, runtime.ErrNotReserved)
				return must(l.Peek(t.Context())).Used
			}
			assert.Equal(t, left(false), left(true), "%s, %d used", name, used)
		}
	}
}

// Tokens can be used at the instant of At, which a job queue takes.
func TestReservationAt(t *testing.T) {
	p := runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 1, Capacity: 1, MaxReserved: 1, Period: time.Minute}
	l := limiter.New(atNoon()).Reservable(&p, runtime.Key{})
	for _, want := range []time.Time{noon, noon.Add(time.Minute), {}} {
		r := must(l.Reserve(t.Context()))
		assert.True(t, r.At().Equal(want), "%v, want %v", r.At(), want)
	}
}

// A text that is none of the key's reservations is refused, and settles nothing.
func TestResumeRefuses(t *testing.T) {
	p := runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 1, Capacity: 10, MaxReserved: 10, Period: time.Minute}
	other := p
	other.Name = "other"
	limits := limiter.New(atNoon())
	key := runtime.KeyOf(runtime.String("ada"))
	r := must(limits.Reservable(&p, key).ReserveN(t.Context(), 5))
	text := must(r.MarshalText())
	for name, resume := range map[string]func() (*limiter.Reservation, error){
		"another key": func() (*limiter.Reservation, error) {
			return limits.Reservable(&p, runtime.KeyOf(runtime.String("eve"))).Resume(text)
		},
		"another limit": func() (*limiter.Reservation, error) { return limits.Reservable(&other, key).Resume(text) },
		"no text":       func() (*limiter.Reservation, error) { return limits.Reservable(&p, key).Resume(nil) },
		"other JSON":    func() (*limiter.Reservation, error) { return limits.Reservable(&p, key).Resume([]byte(`{}`)) },
		"a newer form": func() (*limiter.Reservation, error) {
			return limits.Reservable(&p, key).Resume([]byte(strings.Replace(string(text), `"version":1`, `"version":2`, 1)))
		},
		"a negative count": func() (*limiter.Reservation, error) {
			return limits.Reservable(&p, key).Resume([]byte(strings.Replace(string(text), `"count":5`, `"count":-5`, 1)))
		},
	} {
		_, err := resume()
		assert.ErrorIs(t, err, runtime.ErrInvalidCall, name)
		assert.ErrorContains(t, err, "limit", name)
	}
	_, err := limits.Reservable(&p, runtime.KeyOf(runtime.String(""))).Resume(text)
	require.ErrorIs(t, err, runtime.ErrEmptyKey)

	must(limits.Reservable(&p, key).ReserveN(t.Context(), 15))
	denied := must(limits.Reservable(&p, key).Reserve(t.Context()))
	_, err = denied.MarshalText()
	require.ErrorIs(t, err, runtime.ErrNotReserved)
}
