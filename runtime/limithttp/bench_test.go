package limithttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
)

// header is a response of which only the fields are kept.
type header http.Header

func (h header) Header() http.Header       { return http.Header(h) }
func (header) Write(b []byte) (int, error) { return len(b), nil }
func (header) WriteHeader(int)             {}

// routed returns a decision in memory on a token bucket of which enough is left, and a route that makes it for a request.
func routed() (decide func(context.Context) (limiter.Decisions, error), route func()) {
	limits := newWorld().limiter
	p := with(bucket(), func(p *runtime.Policy) { p.Rate, p.Capacity = 1_000_000_000, 1_000_000_000 })
	decide = func(ctx context.Context) (limiter.Decisions, error) { return limits.All(ctx, limits.Limit(p, ada)) }
	handler := limithttp.New(limits, limithttp.Options{}).Limit(func(*http.Request) (limiter.Item, error) {
		return limits.Limit(p, ada), nil
	}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r, w := httptest.NewRequest(http.MethodGet, "/", nil), header{}
	return decide, func() {
		clear(w)
		handler.ServeHTTP(w, r)
	}
}

// A route costs what its decision does not: the difference between the two.
func BenchmarkRoute(b *testing.B) {
	decide, route := routed()
	b.Run("decision", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := decide(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("route", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			route()
		}
	})
}

func TestRouteAddsFewAllocations(t *testing.T) {
	decide, route := routed()
	decided := testing.AllocsPerRun(100, func() { decide(context.Background()) })
	served := testing.AllocsPerRun(100, route)
	require.LessOrEqual(t, served-decided, 9.0, "a route makes %v allocations, and its decision %v", served, decided)
}
