package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// heard collects warnings.
type heard struct{ list []runtime.Warning }

func (h *heard) hear(_ context.Context, w runtime.Warning) { h.list = append(h.list, w) }

// take returns the warnings since the last call: "a 80%", or with "tx" in a transaction of the caller.
func (h *heard) take() (texts []string) {
	for _, w := range h.list {
		text := fmt.Sprintf("%s %d%%", w.Key(), w.Crossed)
		if w.InTx {
			text += " tx"
		}
		texts = append(texts, text)
	}
	h.list = nil
	return texts
}

// warning grants 10 tokens an hour, of which 5 more can be reserved, and warns at 80% and 100%.
func warning() *runtime.Policy {
	return &runtime.Policy{
		Name: "warning", Kind: runtime.TokenBucket, Rate: 10, Period: time.Hour, Capacity: 10, MaxReserved: 5, Warn: runtime.Thresholds{80, 100},
	}
}

func keyOf(name string) runtime.Key { return runtime.KeyOf(runtime.String(name)) }

// Each row goes on with the key that those before it have left.
func TestOnWarnHearsTheTakeThatCrosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, store := t.Context(), &memstore.Store{}
		var h heard
		limits := limiter.New(store, limiter.OnWarn(h.hear), limiter.OnWarn(nil))
		a, b := limits.Reservable(warning(), keyOf("a")), limits.Reservable(warning(), keyOf("b"))
		var last runtime.Decision
		var reserved *limiter.Reservation
		for _, row := range []struct {
			name string
			call func() error
			want []string
		}{
			{"8 of 10 are used", func() error { _, err := a.AllowN(ctx, 8); return err }, []string{"a 80%"}},
			{"9", func() (err error) { last, err = a.Allow(ctx); return err }, nil},
			{"9, after a denial", func() error { _, err := a.AllowN(ctx, 2); return err }, nil},
			{"9, after a check", func() error { _, err := a.Check(ctx); return err }, nil},
			{"10, by as many as there are", func() error { _, err := a.AllowUpTo(ctx, 5); return err }, []string{"a 100%"}},
			{"10, denied", func() error { _, err := a.Allow(ctx); return err }, nil},
			{"9 again, after a refund", func() error { _, err := a.Refund(ctx, last); return err }, nil},
			{"10 again", func() error { return a.Require(ctx) }, []string{"a 100%"}},
			{"11, reserved", func() (err error) { reserved, err = a.Reserve(ctx); return err }, nil},
			{"13, charged for what was used beyond it", func() error { return reserved.Settle(ctx, 3) }, nil},
			{"full", func() error { return a.Reset(ctx) }, nil},
			{"6, reserved", func() (err error) { reserved, err = a.ReserveN(ctx, 6); return err }, nil},
			{"9, settled", func() error { return reserved.Settle(ctx, 9) }, []string{"a 80%"}},
			{"12, whether there are as many or not", func() error { _, err := a.Charge(ctx, 3); return err }, []string{"a 100%"}},
			{"9, when 3 tokens are back", func() error { time.Sleep(18 * time.Minute); return nil }, nil},
			{"10, taken by a Wait", func() error { return a.Wait(ctx) }, []string{"a 100%"}},
			{"11, reserved by a Wait, which has had to wait", func() error { return a.Wait(ctx) }, nil},
			{"full", func() error { return a.Reset(ctx) }, nil},
			{"8 of each key", func() error { _, err := limits.All(ctx, a.N(8), b.N(8)); return err }, []string{"a 80%", "b 80%"}},
			{"denied for one key", func() error { _, err := limits.All(ctx, a.N(2), b.N(3)); return err }, nil},
			{"10 of one key, by two items", func() error { _, err := limits.All(ctx, a, a, b); return err }, []string{"a 100%"}},
		} {
			require.NoError(t, row.call(), row.name)
			require.Equal(t, row.want, h.take(), row.name)
		}
	})
}

func TestWarningsInATransaction(t *testing.T) {
	var h heard
	store := still()
	limits := limiter.New(store, limiter.OnWarn(h.hear))
	tx := store.Begin()
	l := limits.WithTx(tx).Reservable(warning(), keyOf("a"))
	d, err := l.AllowN(t.Context(), 9)
	require.NoError(t, err)
	require.EqualValues(t, 80, d.Crossed, "for a row in the same transaction")
	require.Equal(t, []string{"a 80% tx"}, h.take())
	require.NoError(t, tx.Rollback())
	d, err = limits.Reservable(warning(), keyOf("a")).AllowN(t.Context(), 9)
	require.NoError(t, err)
	require.EqualValues(t, 80, d.Crossed, "what was rolled back was not used")
	require.Equal(t, []string{"a 80%"}, h.take())
}

// A window ends at one instant for all of its takes: what is written once a window is written by that.
func TestWarningsOfAWindow(t *testing.T) {
	now := epoch
	var h heard
	p := &runtime.Policy{Name: "daily", Kind: runtime.FixedWindow, Rate: 10, Period: 24 * time.Hour, Capacity: 10, Start: runtime.StartOffset(0), Warn: runtime.Thresholds{50}}
	l := limiter.New(clocked(&now), limiter.OnWarn(h.hear)).Limit(p, keyOf("ann@example.com"))
	ends := map[time.Time]int{}
	for range 3 {
		for range 10 {
			d := must(l.Allow(t.Context()))
			now = now.Add(time.Hour)
			if d.Crossed > 0 {
				ends[d.TakenAt.Add(d.ResetAfter)]++
				must(l.Refund(t.Context(), d))
			}
		}
		now = now.Add(14 * time.Hour)
	}
	require.Len(t, ends, 3)
	for _, w := range h.list {
		require.Positive(t, ends[w.ResetAt])
		require.Equal(t, "daily: 50% of 10 used", w.String())
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", w, &w, w), "example.com", "only Key has the key")
	}
}

// What the store has not counted crosses nothing: each process would say so.
func TestNoWarningsWhileTheStoreFails(t *testing.T) {
	for _, onError := range []runtime.OnError{runtime.FailOpen, runtime.FailLocal} {
		var h heard
		p := warning()
		p.OnError = onError
		l := limiter.New(broken{errors.New("down")}, limiter.OnWarn(h.hear)).Reservable(p, keyOf("a"))
		d, err := l.AllowN(t.Context(), 10)
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.Zero(t, d.Crossed, onError)
		require.Empty(t, h.take(), onError)
	}
}

// broken is a store that fails.
type broken struct{ err error }

func (b broken) Do(context.Context, []runtime.Call) ([]runtime.Answer, error) { return nil, b.err }

func TestWarningsCostNothingWithoutThresholds(t *testing.T) {
	ctx := t.Context()
	allocated := func(options ...limiter.Option) float64 {
		plain := warning()
		plain.Rate, plain.Capacity, plain.Warn = 1_000_000, 1_000_000, runtime.Thresholds{}
		l := limiter.New(still(), options...).Reservable(plain, keyOf("a"))
		return testing.AllocsPerRun(100, func() {
			must(l.Allow(ctx))
			if err := l.Wait(ctx); err != nil {
				t.Error(err)
			}
			r := must(l.Reserve(ctx))
			if err := r.Cancel(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	require.Equal(t, allocated(), allocated(limiter.OnWarn(func(context.Context, runtime.Warning) {})))
}

// A function for warnings may use the limiter, because no lock is held.
func TestOnWarnMayUseTheLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limits *limiter.Limiter
		calls := 0
		limits = limiter.New(&memstore.Store{}, limiter.OnWarn(func(ctx context.Context, w runtime.Warning) {
			if calls++; calls < 3 {
				p := warning()
				p.MaxReserved = 0
				require.NoError(t, limits.Limit(p, keyOf("a")).Wait(ctx))
			}
		}))
		p := warning()
		p.MaxReserved = 0
		l := limits.Limit(p, keyOf("a"))
		must(l.AllowN(t.Context(), 9))
		require.NoError(t, l.Wait(t.Context()))
		require.Greater(t, calls, 1)
	})
}
