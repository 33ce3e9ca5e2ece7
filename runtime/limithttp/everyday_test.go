package limithttp_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

var served = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

// codes returns the codes of some requests from an address.
func codes(h http.Handler, requests int, addr, path string) (list []int) {
	for range requests {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.RemoteAddr = addr + ":4711"
		response := httptest.NewRecorder()
		h.ServeHTTP(response, r)
		list = append(list, response.Code)
	}
	return list
}

// A list of networks, the path and the method are Go: a request for which the function returns no limit is exempt, and
// counts nothing.
func TestAllowList(t *testing.T) {
	w := newWorld()
	policy := with(window(), func(p *runtime.Policy) { p.Rate, p.Capacity = 1, 1 })
	ours := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
	clients := limithttp.ClientIP{Direct: true}
	perAddress := limithttp.New(w.limiter, limithttp.Options{}).Limit(func(r *http.Request) (limiter.Item, error) {
		addr, err := clients.Of(r)
		for _, network := range ours {
			if err == nil && network.Contains(addr) || r.URL.Path == "/healthz" {
				return nil, nil
			}
		}
		return w.limiter.Limit(policy, runtime.KeyOf(runtime.Addr(addr))), err
	}).Wrap(served)
	for _, row := range []struct {
		addr, path string
		want       []int
	}{
		{"192.0.2.1", "/healthz", []int{200, 200, 200}},
		{"192.0.2.1", "/", []int{200, 429, 429}},
		{"10.1.2.3", "/", []int{200, 200, 200}},
		{"[2001:db8::1]", "/", []int{200, 200, 200}},
		{"[2001:db9::1]", "/", []int{200, 429, 429}},
	} {
		require.Equal(t, row.want, codes(perAddress, 3, row.addr, row.path), row)
	}
}

// An environment can relax all limits of a program by one option: the same routes count or do nothing, and deny nothing.
func TestRoutesInEnvironments(t *testing.T) {
	for _, row := range []struct {
		environment string
		mode        runtime.Mode
		want        []int
		fields      bool
		used        int64
	}{
		{"production", runtime.ModeEnforce, []int{200, 200, 429}, true, 2},
		{"before the launch", runtime.ModeShadow, []int{200, 200, 200}, false, 2},
		{"tests", runtime.ModeOff, []int{200, 200, 200}, false, 0},
	} {
		t.Run(row.environment, func(t *testing.T) {
			store := &memstore.Store{Clock: func() time.Time { return instant }}
			policy := with(window(), func(p *runtime.Policy) { p.Rate, p.Capacity = 2, 2 })
			l := limiter.New(store, limiter.Mode(row.mode))
			h := limithttp.New(l, limithttp.Options{}).All(taking(l.Limit(policy, ada))).Wrap(served)
			require.Equal(t, row.want, codes(h, 3, "192.0.2.1", "/"))
			require.Equal(t, row.fields, serve(h).Header().Get("RateLimit") != "")
			b, err := limiter.New(store).Limit(policy, ada).Peek(t.Context())
			require.NoError(t, err)
			require.Equal(t, row.used, b.Used)
		})
	}
}

// A plan or a contract of 0 gets 429 without Retry-After, because no retry passes.
func TestNothingIsGivenToZero(t *testing.T) {
	w := newWorld()
	h := limithttp.New(w.limiter, limithttp.Options{})
	callers := runtime.Policy{Name: "contract", Kind: runtime.FixedWindow, Rate: 100, Capacity: 100, Period: window().Period, AtMost: runtime.Numbers{Rate: 100, Capacity: 100}}
	plans := runtime.PlanPolicies{1: {Name: "apiCalls", Kind: runtime.FixedWindow}, 2: window()}
	for name, item := range map[string]limiter.Item{
		"a plan":     w.limiter.Limit(plans.For(1, ada)),
		"a contract": w.limiter.Limit(runtime.Numbers{}.For(&callers, ada)),
	} {
		response := serve(h.All(taking(item)).Wrap(served))
		require.Equal(t, http.StatusTooManyRequests, response.Code, name)
		require.Empty(t, response.Header().Values("Retry-After"), name)
		require.Contains(t, response.Body.String(), `"reason":"zero"`, name)
	}
	require.Equal(t, http.StatusOK, serve(h.All(taking(w.limiter.Limit(plans.For(2, ada)))).Wrap(served)).Code)
}

// The fields of each response tell a client how much is left, so that it can slow down before it is denied.
func TestClientSeesFourFifths(t *testing.T) {
	w := newWorld()
	h := limithttp.New(w.limiter, limithttp.Options{}).All(taking(w.limiter.Limit(with(window(), same), ada))).Wrap(served)
	var list []string
	for range 5 {
		response := serve(h)
		require.Equal(t, `"signUp";q=5;w=3600`, response.Header().Get("RateLimit-Policy"))
		list = append(list, response.Header().Get("RateLimit"))
	}
	require.Equal(t, []string{`"signUp";r=4;t=3597`, `"signUp";r=3;t=3597`, `"signUp";r=2;t=3597`, `"signUp";r=1;t=3597`, `"signUp";r=0;t=3597`}, list)
}

// A usage page shows when a quota comes back to people: in the zone of the limit or of the customer, also while the key is
// blocked, when there is no instant.
func TestHintsHaveTheZoneOfTheQuota(t *testing.T) {
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	require.NoError(t, err)
	now := time.Date(2026, time.March, 12, 12, 0, 0, 0, time.UTC)
	limits := limiter.New(&memstore.Store{Clock: func() time.Time { return now }})
	month := func(name string, c runtime.Calendar, mode runtime.Mode) *runtime.Policy {
		return &runtime.Policy{Name: name, Kind: runtime.FixedWindow, Rate: 10, Capacity: 10, Period: c.Period(), Calendar: c, Mode: mode}
	}
	berlin := runtime.Calendar{Unit: runtime.Month, Zone: "Europe/Berlin"}
	own := runtime.Calendar{Unit: runtime.Month, ZonePerKey: true}
	key := runtime.KeyOf(runtime.Int(7))
	h := limithttp.New(limits, limithttp.Options{})
	hints := h.Hints(func(*http.Request) ([]limiter.Item, error) {
		return []limiter.Item{
			limits.Limit(month("limit", berlin, runtime.ModeEnforce), key),
			limits.Limit(month("key", own, runtime.ModeEnforce), key.In(tokyo)),
			limits.Limit(month("blocked", berlin, runtime.ModeBlock), key),
		}, nil
	})
	w := httptest.NewRecorder()
	hints.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	var got struct {
		Limits []struct{ Limit, Zone, ResetAt string }
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	require.Equal(t, []struct{ Limit, Zone, ResetAt string }{
		{"limit", "Europe/Berlin", "2026-04-01T00:00:00+02:00"},
		{"key", "Asia/Tokyo", "2026-04-01T00:00:00+09:00"},
		{"blocked", "Europe/Berlin", ""},
	}, got.Limits)
}
