package limiter_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
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

// It settles as if it had been kept, too, if it was made under an override that has ended since, or that has given its key
// a plan with a limit.
func TestResumedReservationOfAnOverride(t *testing.T) {
	p := *overridable()
	p.MaxReserved, p.Overrides.MaxReserved = 10, 10
	plans := lifted(p)
	for name, row := range map[string]struct {
		plan       int
		by         runtime.Override
		used, left int64
	}{
		"made while the limit was off":       {free, runtime.Override{Mode: runtime.ModeOff}, 5, 10},
		"made by the plan of an override":    {enterprise, runtime.Override{Plan: override.PlanName("free")}, 0, 10},
		"made by the plan, and used":         {enterprise, runtime.Override{Plan: override.PlanName("free")}, 5, 5},
		"made by a plan without a limit":     {free, runtime.Override{Plan: override.PlanName("enterprise")}, 5, 10},
		"made while the limit was shadow":    {free, runtime.Override{Mode: runtime.ModeShadow}, 2, 8},
		"made by the numbers of an operator": {free, runtime.Override{Capacity: 50}, 2, 8},
	} {
		for _, resumed := range []bool{false, true} {
			o := newOverriding(t, &plans[free])
			l := o.limiter.Reservable(plans.For(row.plan, runtime.KeyOf(runtime.String("a"))))
			o.override(o.overrides("a"), row.by)
			r := must(l.ReserveN(t.Context(), 5))
			if resumed {
				r = must(l.Resume(must(r.MarshalText())))
			}
			if row.plan == free {
				must(o.overrides("a").End(t.Context(), overrideEnd))
			}
			require.NoError(t, r.Settle(t.Context(), row.used))
			require.Equal(t, row.left, must(l.Peek(t.Context())).Remaining, "%s, resumed %v", name, resumed)
		}
	}
}

// The tokens of a reservation that the memory of this process has decided have a delay, and so its instant has one.
func TestReservationAtWhileTheStoreFails(t *testing.T) {
	failing(t, func(t *testing.T, limits *limiter.Limiter, _ *faulty) {
		l := limits.Reservable(onError(runtime.FailLocal), runtime.Key{})
		require.Zero(t, must(l.ReserveN(t.Context(), 3)).At())
		r := must(l.ReserveN(t.Context(), 2))
		require.Equal(t, 2*time.Second, r.Delay())
		want, text := time.Now().Add(2*time.Second), must(r.MarshalText())
		time.Sleep(time.Second)
		require.True(t, want.Equal(r.At()), "%v", r.At())
		require.True(t, want.Equal(must(l.Resume(text)).At()))
	})
}
