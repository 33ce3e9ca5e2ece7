package limithttp_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
)

// during calls f with the context of a request that a route has let pass.
func during(t *testing.T, route *limithttp.Route, f func(context.Context)) {
	t.Helper()
	passed := false
	serve(route.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		passed = true
		f(r.Context())
	})))
	require.True(t, passed)
}

func TestSettle(t *testing.T) {
	w := newWorld()
	h := limithttp.New(w.limiter, limithttp.Options{})
	tokens := w.limiter.Limit(&runtime.Policy{Name: "tokens", Kind: runtime.FixedWindow, Rate: 100, Period: time.Hour, Capacity: 100}, ada)
	calls := w.limiter.Limit(with(bucket(), same), ada)
	for _, row := range []struct {
		name  string
		items []limiter.Item
		// limit is that of SettleLimit, or "" for Settle.
		limit      string
		used       int64
		err        error
		tokensLeft int64
	}{
		{"less used", []limiter.Item{tokens.N(40)}, "", 10, nil, 90},
		{"nothing used", []limiter.Item{tokens.N(40)}, "", 0, nil, 100},
		{"as much used", []limiter.Item{tokens.N(40)}, "", 40, nil, 60},
		{"more used", []limiter.Item{tokens.N(40)}, "", 70, nil, 30},
		{"more used than there are", []limiter.Item{tokens.N(40)}, "", 170, nil, 0},
		{"all of it afterwards", []limiter.Item{tokens.N(0)}, "", 70, nil, 30},
		{"less than 0", []limiter.Item{tokens.N(40)}, "", -1, runtime.ErrInvalidCount, 60},
		{"checked limits do not count", []limiter.Item{calls.Checked(), tokens.N(40)}, "", 10, nil, 90},
		{"only checked", []limiter.Item{tokens.Checked()}, "", 10, limithttp.ErrNotTaken, 100},
		{"one of two is not named", []limiter.Item{calls, tokens.N(40)}, "", 10, limithttp.ErrNotTaken, 60},
		{"one of two is named", []limiter.Item{calls, tokens.N(40)}, "tokens", 10, nil, 90},
		{"another name", []limiter.Item{calls, tokens.N(40)}, "token", 10, limithttp.ErrNotTaken, 60},
		{"two counts of a key", []limiter.Item{tokens.N(20), tokens.N(20)}, "tokens", 10, limithttp.ErrNotTaken, 60},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.NoError(t, tokens.Reset(t.Context()))
			require.NoError(t, calls.Reset(t.Context()))
			during(t, h.All(taking(row.items...)), func(ctx context.Context) {
				var err error
				if row.limit == "" {
					err = limithttp.Settle(ctx, row.used)
				} else {
					err = limithttp.SettleLimit(ctx, row.limit, row.used)
				}
				require.ErrorIs(t, err, row.err)
			})
			require.Equal(t, row.tokensLeft, left(t, tokens))
		})
	}
}

// pages is the usage of a limit with prices: a page costs 2.5 tokens.
type pages int64

func (p pages) Cost() (int64, error) {
	return runtime.Prices{{Name: "pages", Millionths: 2_500_000}}.Cost(int64(p))
}

// A route takes the cost of an estimate, and its handler settles for what was used.
func TestSettleUsage(t *testing.T) {
	w := newWorld()
	h := limithttp.New(w.limiter, limithttp.Options{})
	plain := w.limiter.Limit(&runtime.Policy{Name: "pages", Kind: runtime.FixedWindow, Rate: 100, Period: time.Hour, Capacity: 100}, ada)
	calls := w.limiter.Limit(with(bucket(), same), ada)
	for _, row := range []struct {
		used pages
		name string
		err  error
		left int64
	}{
		{3, "pages", nil, 92},
		{30, "pages", nil, 25},
		{-1, "pages", runtime.ErrInvalidCount, 50},
		{3, "page", limithttp.ErrNotTaken, 50},
	} {
		require.NoError(t, plain.Reset(t.Context()))
		during(t, h.All(taking(calls, limiter.Priced[pages](plain).Of(20))), func(ctx context.Context) {
			require.ErrorIs(t, limithttp.SettleUsage(ctx, row.name, row.used), row.err)
		})
		require.Equal(t, row.left, left(t, plain), "%+v", row)
	}
	denied := serve(h.Limit(func(*http.Request) (limiter.Item, error) { return limiter.Priced[pages](plain).Of(-1), nil }).Wrap(http.NotFoundHandler()))
	require.Equal(t, http.StatusBadRequest, denied.Code, "as for a negative count")
}

func TestSettleAfterTheRequestAndOnce(t *testing.T) {
	w := newWorld()
	h := limithttp.New(w.limiter, limithttp.Options{})
	limit := w.limiter.Limit(with(window(), same), ada)
	during(t, h.All(taking(limit.N(4))), func(ctx context.Context) {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		require.ErrorIs(t, limithttp.Settle(ended, -1), runtime.ErrInvalidCount, "it can be called again")
		require.NoError(t, limithttp.Settle(ended, 1))
		require.ErrorIs(t, limithttp.Settle(ctx, 1), runtime.ErrNotReserved)
		require.ErrorIs(t, limithttp.SettleLimit(ctx, "signUp", 1), runtime.ErrNotReserved)
	})
	require.EqualValues(t, 4, left(t, limit))
	require.ErrorIs(t, limithttp.Settle(t.Context(), 1), limithttp.ErrNotTaken)
	require.ErrorIs(t, limithttp.SettleLimit(t.Context(), "signUp", 1), limithttp.ErrNotTaken)
}

func TestSettleOfRoutesInsideOfEachOther(t *testing.T) {
	w := newWorld()
	h := limithttp.New(w.limiter, limithttp.Options{})
	outer, inner := w.limiter.Limit(with(bucket(), same), ada), w.limiter.Limit(with(window(), same), ada)
	serve(h.All(taking(outer.N(5))).Wrap(h.All(taking(inner.N(4))).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, limithttp.Settle(r.Context(), 1))
		require.NoError(t, limithttp.SettleLimit(r.Context(), "sendMessage", 2))
		ds, ok := limithttp.Decisions(r.Context())
		require.True(t, ok)
		require.Equal(t, "signUp", ds.Each[0].Limit)
	}))))
	require.EqualValues(t, 18, left(t, outer))
	require.EqualValues(t, 4, left(t, inner))
	_, ok := limithttp.Decisions(t.Context())
	require.False(t, ok)
}

// Modes and failures that have counted nothing have nothing to refund; what the store would have counted is charged.
func TestSettleWhatWasNotCounted(t *testing.T) {
	w := newWorld()
	h := limithttp.New(w.limiter, limithttp.Options{})
	for mode, want := range map[runtime.Mode]int64{runtime.ModeOff: 20, runtime.ModeShadow: 17} {
		limit := w.limiter.Limit(with(bucket(), func(p *runtime.Policy) { p.Mode = mode }), runtime.KeyOf(runtime.String(mode.String())))
		during(t, h.All(taking(limit.N(10))), func(ctx context.Context) { require.NoError(t, limithttp.Settle(ctx, 3)) })
		require.Equal(t, want, left(t, w.limiter.Limit(with(bucket(), same), runtime.KeyOf(runtime.String(mode.String())))))
	}
	group := h.Group(func(*http.Request) (limithttp.Take, error) {
		limit := w.limiter.Limit(with(window(), same), ada)
		return w.limiter.Group(limit.N(5)).Allow, nil
	})
	during(t, group, func(ctx context.Context) { require.NoError(t, limithttp.Settle(ctx, 1)) })
	require.EqualValues(t, 4, left(t, w.limiter.Limit(with(window(), same), ada)))
}
