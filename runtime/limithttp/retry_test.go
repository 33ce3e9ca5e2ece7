package limithttp_test

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
)

// randomPolicy returns a valid policy, and a key for it. Each of the shapes gets its share, by i.
func randomPolicy(d *rand.Rand, i int) (*runtime.Policy, runtime.Key) {
	for {
		p := &runtime.Policy{Name: "limit" + strconv.Itoa(i), Rate: 1 + d.Int64N(50), Period: randomPeriod(d)}
		p.Capacity = p.Rate
		key := runtime.KeyOf(runtime.Int(d.IntN(100)))
		switch i % 6 {
		case 0, 1:
			p.Kind, p.Capacity = runtime.TokenBucket, 1+d.Int64N(100)
		case 2:
			p.Kind, p.Capacity = runtime.FixedWindow, 1+d.Int64N(100)
			p.Start = []runtime.Start{{}, runtime.StartOffset(time.Duration(d.Int64N(1e15))), runtime.StartFirstUse()}[d.IntN(3)]
		case 3:
			p.Kind = runtime.FixedWindow
			key = addCalendar(d, p, key)
		case 4:
			p.Kind = runtime.SlidingWindow
		case 5:
			p.Kind, p.Precise = runtime.SlidingWindow, true
		}
		if d.IntN(2) == 0 {
			p.Jitter = time.Duration(d.Int64N(int64(p.Period) + 1))
		}
		if p.Kind.Linear() && d.IntN(3) == 0 {
			p.MaxReserved = 1 + d.Int64N(100)
		}
		if !p.Precise && d.IntN(3) == 0 {
			p.Shards = 1 + d.IntN(5)
		}
		if p.Validate() == nil {
			return p, key
		}
	}
}

// randomPeriod returns a period from a millisecond to a year, most of them no whole number of seconds.
func randomPeriod(d *rand.Rand) time.Duration {
	unit := []time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour}[d.IntN(5)]
	period := time.Duration(1+d.IntN(365)) * unit
	if d.IntN(2) == 0 {
		period += time.Duration(d.Int64N(int64(unit)))
	}
	return period
}

func addCalendar(d *rand.Rand, p *runtime.Policy, key runtime.Key) runtime.Key {
	zones := []string{"UTC", "Europe/Berlin", "America/Santiago", "Asia/Kathmandu", "Australia/Lord_Howe"}
	zone := zones[d.IntN(len(zones))]
	c := runtime.Calendar{Unit: runtime.CalendarUnits()[d.IntN(4)], Count: d.IntN(4), At: time.Duration(d.IntN(86400)) * time.Second}
	if d.IntN(2) == 0 {
		location, err := time.LoadLocation(zone)
		if err != nil {
			panic(err)
		}
		c.ZonePerKey, key = true, key.In(location)
	} else {
		c.Zone = zone
	}
	if c.Unit != runtime.Day && d.IntN(2) == 0 {
		c.Anniversary, key = true, key.Since(instant.AddDate(0, 0, -d.IntN(5000)))
	}
	p.Calendar, p.Period = c, c.Period()
	return key
}

// TestClientThatWaitsRetryAfterPasses lets a client be denied by one to three random limits, and come back after as many
// seconds as it was told.
func TestClientThatWaitsRetryAfterPasses(t *testing.T) {
	seed := rand.Uint64()
	d := rand.New(rand.NewPCG(seed, 0))
	kinds := map[string]int{}
	for i := range 10_000 {
		w := newWorld()
		w.now = w.now.Add(time.Duration(d.Int64N(int64(365 * 24 * time.Hour))))
		var items []limiter.Item
		for j := range 1 + d.IntN(3) {
			p, key := randomPolicy(d, i+j)
			count := 1 + d.Int64N(p.Capacity)
			if p.Shards > 1 {
				// A shard must be able to hold all of a count.
				count = 1 + d.Int64N(max(1, p.Capacity/int64(p.Shards)))
			}
			if p.Reserves() {
				items = append(items, w.limiter.Reservable(p, key).N(count))
			} else {
				items = append(items, w.limiter.Limit(p, key).N(count))
			}
			kinds[p.Kind.String()+map[bool]string{true: " precise"}[p.Precise]+map[bool]string{true: " calendar"}[p.Calendar.Unit > 0]]++
		}
		handler := limithttp.New(w.limiter, limithttp.Options{}).All(func(*http.Request) ([]limiter.Item, error) { return items, nil }).
			Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }))
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		serve := func() *httptest.ResponseRecorder {
			response := httptest.NewRecorder()
			handler.ServeHTTP(response, request)
			return response
		}
		response := serve()
		for tries := 0; response.Code == http.StatusOK; tries++ {
			require.Less(t, tries, 1000, "seed %d, case %d", seed, i)
			response = serve()
		}
		require.Equal(t, http.StatusTooManyRequests, response.Code, "seed %d, case %d", seed, i)
		wait, err := strconv.Atoi(response.Header().Get("Retry-After"))
		require.NoError(t, err)
		require.Positive(t, wait)
		w.now = w.now.Add(time.Duration(wait) * time.Second)
		require.Equal(t, http.StatusOK, serve().Code, "seed %d, case %d: after %d s of %v", seed, i, wait, items)
	}
	require.Len(t, kinds, 5)
	t.Log(kinds)
}

// TestWaitForResetPasses checks the parameter t: if no token is left, there is one after t.
func TestWaitForResetPasses(t *testing.T) {
	seed := rand.Uint64()
	d := rand.New(rand.NewPCG(seed, 0))
	for i := range 3000 {
		w := newWorld()
		w.now = w.now.Add(time.Duration(d.Int64N(int64(365 * 24 * time.Hour))))
		p, key := randomPolicy(d, i)
		p.Shards = 0
		limit := w.limiter.Limit(p, key)
		h := limithttp.New(w.limiter, limithttp.Options{})
		route := func(item limiter.Item) (int, limithttp.Quota) {
			response := httptest.NewRecorder()
			h.Limit(func(*http.Request) (limiter.Item, error) { return item, nil }).
				Wrap(http.NotFoundHandler()).ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/", nil))
			return response.Code, limithttp.QuotaIn(response.Header())
		}
		if d.IntN(3) == 0 {
			_, err := limit.Charge(t.Context(), 1+d.Int64N(3*p.Capacity))
			require.NoError(t, err)
		}
		_, before := route(limit.N(0))
		_, q := route(limit.N(before.Remaining))
		require.Zero(t, q.Remaining, "seed %d, case %d", seed, i)
		require.Positive(t, q.Reset, "seed %d, case %d: %+v", seed, i, p)
		w.now = w.now.Add(time.Duration(q.Reset) * time.Second)
		code, _ := route(limit)
		require.Equal(t, http.StatusNotFound, code, "seed %d, case %d: after %d s of %+v", seed, i, q.Reset, p)
	}
}
