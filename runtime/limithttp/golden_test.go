package limithttp_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

var update = flag.Bool("update", false, "write the golden file")

// instant is in the middle of a day, and of no window.
var instant = time.Date(2026, 3, 10, 12, 0, 3, 500_000_000, time.UTC)

// world is a store with a clock.
type world struct {
	now     time.Time
	limiter *limiter.Limiter
}

func newWorld() *world {
	w := &world{now: instant}
	w.limiter = limiter.New(&memstore.Store{Clock: func() time.Time { return w.now }})
	return w
}

var errDown = errors.New("the database is down: password=secret")

type downStore struct{}

func (downStore) Do(context.Context, []runtime.Call) ([]runtime.Answer, error) { return nil, errDown }

func bucket() runtime.Policy {
	return runtime.Policy{Name: "sendMessage", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 20}
}

func window() runtime.Policy {
	return runtime.Policy{Name: "signUp", Kind: runtime.FixedWindow, Rate: 5, Period: time.Hour, Capacity: 5, Start: runtime.StartOffset(0)}
}

func sliding() runtime.Policy {
	return runtime.Policy{Name: "search", Kind: runtime.SlidingWindow, Rate: 5, Period: time.Minute, Capacity: 5, Start: runtime.StartOffset(0)}
}

var ada = runtime.KeyOf(runtime.String("ada"))

// with returns a policy with changes.
func with(p runtime.Policy, change func(*runtime.Policy)) *runtime.Policy {
	change(&p)
	return &p
}

func same(*runtime.Policy) {}

// countsOnly is the rate unlimited with count: true.
func countsOnly(p *runtime.Policy) { p.Rate, p.Capacity = runtime.MaxTokens, runtime.MaxTokens }

// goldenCase is requests to one route, of which the golden file has the last response.
type goldenCase struct {
	name     string
	requests int
	method   string
	options  limithttp.Options
	// limits are taken by each request, one token each unless n is set.
	limits []*runtime.Policy
	keys   []runtime.Key
	n      int64
	// from, store and route replace the function, the store and the whole route.
	from  func(*http.Request) ([]limiter.Item, error)
	store runtime.Store
	route func(*world, *limithttp.Binder) http.Handler
}

func goldenCases() []goldenCase {
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello\n") })
	fails := func(err error) func(*http.Request) ([]limiter.Item, error) {
		return func(*http.Request) ([]limiter.Item, error) { return nil, err }
	}
	quarter := func(p *runtime.Policy) {
		p.Name, p.Calendar = "reports", runtime.Calendar{Unit: runtime.Month, Count: 3, Zone: "Europe/Berlin"}
		p.Period, p.Start = p.Calendar.Period(), runtime.Start{}
	}
	mode := func(m runtime.Mode) func(*runtime.Policy) { return func(p *runtime.Policy) { p.Mode = m } }
	// blocked is a key that an operator has blocked for an hour and a half, beside a window that is used up.
	blocked := func(w *world, jitter time.Duration) []limiter.Item {
		p := with(bucket(), func(p *runtime.Policy) {
			p.Overrides, p.Jitter = runtime.OverrideBounds{Rate: 10, Capacity: 20}, jitter
		})
		_, err := w.limiter.Overrides(p, ada).Block(context.Background(), runtime.Block{Until: w.now.Add(90 * time.Minute), Reason: "abuse", Author: "me"})
		if err != nil {
			panic(err)
		}
		return []limiter.Item{w.limiter.Limit(p, ada), w.limiter.Limit(with(window(), same), ada)}
	}
	// overridden is a key to which an operator has given another capacity.
	overridden := func(w *world, capacity int64) limiter.Limit {
		p := with(bucket(), func(p *runtime.Policy) { p.Overrides = runtime.OverrideBounds{Rate: 10, Capacity: 30} })
		_, err := w.limiter.Overrides(p, ada).Set(context.Background(), runtime.Override{
			Rate: 10, Capacity: capacity, Until: runtime.ForGood(), Reason: "a migration", Author: "me"})
		if err != nil {
			panic(err)
		}
		return w.limiter.Limit(p, ada)
	}
	one := func(p *runtime.Policy) []*runtime.Policy { return []*runtime.Policy{p} }
	return []goldenCase{
		{name: "token bucket: allowed", limits: one(with(bucket(), same))},
		{name: "token bucket: the last token", requests: 20, limits: one(with(bucket(), same))},
		{name: "token bucket: denied", requests: 21, limits: one(with(bucket(), same))},
		{name: "token bucket: some left, but not enough", requests: 3, n: 7, limits: one(with(bucket(), same))},
		{name: "token bucket: w and t are rounded up", limits: one(with(bucket(), func(p *runtime.Policy) { p.Rate, p.Capacity = 7, 9 }))},
		{name: "token bucket: the largest numbers", limits: one(with(bucket(), func(p *runtime.Policy) {
			p.Rate, p.Capacity, p.Period = 1, runtime.MaxTokens, runtime.MaxPeriod
		}))},
		{name: "token bucket: shards", limits: one(with(bucket(), func(p *runtime.Policy) { p.Shards = 2 }))},
		{name: "token bucket: leases", limits: []*runtime.Policy{
			with(bucket(), func(p *runtime.Policy) { p.Lease = runtime.Lease{Tokens: 10, For: time.Second} }), with(window(), same)}},
		{name: "token bucket: leases, denied", requests: 21, options: limithttp.Options{Legacy: limithttp.LegacySeconds},
			limits: one(with(bucket(), func(p *runtime.Policy) { p.Lease = runtime.Lease{Tokens: 10, For: time.Second} }))},
		{name: "token bucket: in debt", requests: 1, limits: one(with(bucket(), same)), route: func(w *world, b *limithttp.Binder) http.Handler {
			limit := w.limiter.Limit(with(bucket(), same), ada)
			return b.Group(func(r *http.Request) (limithttp.Take, error) {
				if _, err := limit.Charge(r.Context(), 60); err != nil {
					return nil, err
				}
				return func(ctx context.Context) (limiter.Decisions, error) { return w.limiter.All(ctx, limit) }, nil
			}).Wrap(hello)
		}},
		{name: "fixed window: allowed", limits: one(with(window(), same))},
		{name: "fixed window: denied until it ends", requests: 6, limits: one(with(window(), same))},
		{name: "fixed window: no whole number of seconds", limits: one(with(window(), func(p *runtime.Policy) { p.Period = 2500 * time.Millisecond }))},
		{name: "fixed window: tokens are kept beyond it", limits: one(with(window(), func(p *runtime.Policy) { p.Capacity = 8 }))},
		{name: "fixed window: from the first use", requests: 2, limits: one(with(window(), func(p *runtime.Policy) { p.Start = runtime.StartFirstUse() }))},
		{name: "fixed window: from the first use, which has not been", n: -1, limits: one(with(window(), func(p *runtime.Policy) { p.Start = runtime.StartFirstUse() }))},
		{name: "fixed window: jitter", requests: 6, limits: one(with(window(), func(p *runtime.Policy) { p.Jitter = 10 * time.Minute }))},
		{name: "calendar: allowed", limits: one(with(window(), quarter))},
		{name: "calendar: denied", requests: 6, limits: one(with(window(), quarter))},
		{name: "sliding window: allowed", limits: one(with(sliding(), same))},
		{name: "sliding window: the last token", requests: 5, limits: one(with(sliding(), same))},
		{name: "sliding window: denied", requests: 6, limits: one(with(sliding(), same))},
		{name: "precise: the last token", requests: 5, limits: one(with(sliding(), func(p *runtime.Policy) { p.Precise, p.Start = true, runtime.Start{} }))},
		{name: "precise: denied", requests: 6, limits: one(with(sliding(), func(p *runtime.Policy) { p.Precise, p.Start = true, runtime.Start{} }))},
		{name: "unlimited plan", limits: one(&runtime.Policy{Name: "apiCalls", Kind: runtime.TokenBucket, Mode: runtime.ModeUnlimited})},
		{name: "unlimited and counted", options: limithttp.Options{Legacy: limithttp.LegacyGitHub}, limits: one(with(window(), countsOnly))},
		{name: "unlimited and counted, blocked", limits: one(with(*with(window(), countsOnly), mode(runtime.ModeBlock)))},
		{name: "off", limits: one(with(bucket(), mode(runtime.ModeOff)))},
		{name: "shadow: would be denied", requests: 21, limits: one(with(bucket(), mode(runtime.ModeShadow)))},
		{name: "zero", options: limithttp.Options{Legacy: limithttp.LegacyGitHub}, limits: []*runtime.Policy{{Name: "calls", Kind: runtime.TokenBucket}}},
		{name: "block", limits: one(with(bucket(), mode(runtime.ModeBlock)))},
		{name: "block with an end", requests: 2, route: func(w *world, b *limithttp.Binder) http.Handler {
			items := blocked(w, 0)
			return b.All(func(*http.Request) ([]limiter.Item, error) { return items[:1], nil }).Wrap(hello)
		}},
		{name: "block with an end: a request of no tokens", route: func(w *world, b *limithttp.Binder) http.Handler {
			items := blocked(w, 0)
			return b.All(func(*http.Request) ([]limiter.Item, error) { return []limiter.Item{items[0].(limiter.Limit).N(0)}, nil }).Wrap(hello)
		}},
		{name: "penalty: a request of no tokens", route: func(w *world, b *limithttp.Binder) http.Handler {
			limit := w.limiter.Limit(with(bucket(), func(p *runtime.Policy) { p.Penalty = runtime.PenaltyOf(0, time.Hour) }), ada)
			if _, err := limit.AllowN(context.Background(), 15); err != nil {
				panic(err)
			}
			if _, err := limit.AllowN(context.Background(), 6); err != nil {
				panic(err)
			}
			return b.Limit(func(*http.Request) (limiter.Item, error) { return limit.N(0), nil }).Wrap(hello)
		}},
		{name: "penalty: denied", route: func(w *world, b *limithttp.Binder) http.Handler {
			limit := w.limiter.Limit(with(bucket(), func(p *runtime.Policy) { p.Penalty = runtime.PenaltyOf(0, time.Hour) }), ada)
			return b.Limit(func(*http.Request) (limiter.Item, error) { return limit.N(15), nil }).Wrap(hello)
		}, requests: 2},
		{name: "an override that lowers the limit: denied", requests: 3, route: func(w *world, b *limithttp.Binder) http.Handler {
			limit := overridden(w, 2)
			return b.Limit(func(*http.Request) (limiter.Item, error) { return limit, nil }).Wrap(hello)
		}},
		{name: "an override that raises the limit: denied", requests: 31, route: func(w *world, b *limithttp.Binder) http.Handler {
			limit := overridden(w, 30)
			return b.Limit(func(*http.Request) (limiter.Item, error) { return limit, nil }).Wrap(hello)
		}},
		{name: "in flight: denied", route: func(w *world, b *limithttp.Binder) http.Handler {
			limit := w.limiter.Slots(&runtime.Policy{Name: "exports", Kind: runtime.InFlight, Slots: 1, Hold: time.Minute}, ada)
			if _, err := limit.Acquire(context.Background()); err != nil {
				panic(err)
			}
			return b.InFlight(func(*http.Request) (limiter.SlotLimit, error) { return limit, nil }).Wrap(hello)
		}},
		{name: "block: a request of no tokens", n: -1, options: limithttp.Options{Legacy: limithttp.LegacyGitHub}, limits: one(with(bucket(), mode(runtime.ModeBlock)))},
		{name: "block: legacy", options: limithttp.Options{Legacy: limithttp.LegacyGitHub}, limits: one(with(bucket(), mode(runtime.ModeBlock)))},
		{name: "block: legacy, and a limit that denies for less", options: limithttp.Options{Legacy: limithttp.LegacySeconds},
			route: func(w *world, b *limithttp.Binder) http.Handler {
				used := w.limiter.Limit(with(window(), same), ada)
				if _, err := used.AllowN(context.Background(), 5); err != nil {
					panic(err)
				}
				items := []limiter.Item{used, w.limiter.Limit(with(bucket(), mode(runtime.ModeBlock)), ada)}
				return b.All(func(*http.Request) ([]limiter.Item, error) { return items, nil }).Wrap(hello)
			}},
		{name: "two keys of a limit: one is blocked for good", route: func(w *world, b *limithttp.Binder) http.Handler {
			p := with(bucket(), func(p *runtime.Policy) { p.Overrides = runtime.OverrideBounds{Rate: 10, Capacity: 20} })
			grace := runtime.KeyOf(runtime.String("grace"))
			if _, err := w.limiter.Overrides(p, grace).Block(context.Background(), runtime.Block{Until: runtime.ForGood(), Reason: "abuse", Author: "me"}); err != nil {
				panic(err)
			}
			if _, err := w.limiter.Limit(p, ada).AllowN(context.Background(), 20); err != nil {
				panic(err)
			}
			items := []limiter.Item{w.limiter.Limit(p, ada), w.limiter.Limit(p, grace)}
			return b.All(func(*http.Request) ([]limiter.Item, error) { return items, nil }).Wrap(hello)
		}},
		{name: "block with an end: jitter", route: func(w *world, b *limithttp.Binder) http.Handler {
			items := blocked(w, 10*time.Minute)
			return b.All(func(*http.Request) ([]limiter.Item, error) { return items[:1], nil }).Wrap(hello)
		}},
		{name: "block with an end, and a limit that denies for less", route: func(w *world, b *limithttp.Binder) http.Handler {
			items := blocked(w, 0)
			if _, err := w.limiter.Limit(with(window(), same), ada).AllowN(context.Background(), 5); err != nil {
				panic(err)
			}
			return b.All(func(*http.Request) ([]limiter.Item, error) { return items, nil }).Wrap(hello)
		}},
		{name: "several limits", limits: []*runtime.Policy{with(bucket(), same), with(window(), same), with(sliding(), same)}},
		{name: "several limits: one denies", requests: 6, limits: []*runtime.Policy{with(bucket(), same), with(window(), same)}},
		{name: "several limits: two deny, the longest wait counts", requests: 6, limits: []*runtime.Policy{with(sliding(), same), with(bucket(), same), with(window(), same)}},
		{name: "several limits: one of them is blocked", requests: 6, limits: []*runtime.Policy{with(window(), same), with(bucket(), mode(runtime.ModeBlock))}},
		{name: "two keys of a limit", requests: 1, limits: []*runtime.Policy{with(bucket(), same), with(bucket(), same)}, keys: []runtime.Key{ada, runtime.KeyOf(runtime.String("grace"))}},
		{name: "two keys of a limit, told apart", requests: 1, options: limithttp.Options{PartitionSecret: []byte("secret")},
			limits: []*runtime.Policy{with(bucket(), same), with(bucket(), same)}, keys: []runtime.Key{ada, runtime.KeyOf(runtime.String("grace"))}},
		{name: "no key", limits: one(with(bucket(), same)), keys: []runtime.Key{{}}},
		{name: "no key: denied", requests: 21, limits: one(with(bucket(), same)), keys: []runtime.Key{{}}},
		{name: "no key: advertised", options: limithttp.Options{AdvertiseShared: true}, limits: one(with(bucket(), same)), keys: []runtime.Key{{}}},
		{name: "a name with quotes", limits: one(with(bucket(), func(p *runtime.Policy) { p.Name = `a "b" \c` }))},
		{name: "a name that no String can hold", requests: 21, limits: one(with(bucket(), func(p *runtime.Policy) { p.Name = "größe" }))},
		{name: "a count that never fits", n: 21, limits: one(with(bucket(), same))},
		{name: "a count below 0", n: -7, limits: one(with(bucket(), same))},
		{name: "the function fails", from: fails(errors.New("no such user: secret"))},
		{name: "the function fails with a status", from: fails(fmt.Errorf("session: %w", limithttp.Error(http.StatusUnauthorized, errors.New("secret"))))},
		{name: "the function fails with a status of no failure", from: fails(limithttp.Error(http.StatusOK, errors.New("secret")))},
		{name: "no address", from: func(r *http.Request) ([]limiter.Item, error) {
			_, err := limithttp.ClientIP{}.Of(r)
			return nil, err
		}},
		{name: "an invalid key", limits: one(with(bucket(), same)), keys: []runtime.Key{runtime.KeyOf(runtime.Text(nil))}},
		{name: "no limit", from: fails(nil)},
		{name: "store fails: closed", store: downStore{}, limits: one(with(bucket(), same))},
		{name: "store fails: open", store: downStore{}, limits: one(with(bucket(), func(p *runtime.Policy) { p.OnError = runtime.FailOpen }))},
		{name: "store fails: local, denied", requests: 21, store: downStore{}, limits: one(with(bucket(), func(p *runtime.Policy) { p.OnError = runtime.FailLocal; p.Rate = 1; p.Period = runtime.MaxPeriod }))},
		{name: "HEAD: denied", method: http.MethodHead, requests: 21, limits: one(with(bucket(), same))},
		{name: "OPTIONS", method: http.MethodOptions, limits: one(with(bucket(), same))},
		{name: "legacy: GitHub", options: limithttp.Options{Legacy: limithttp.LegacyGitHub}, limits: []*runtime.Policy{with(bucket(), same), with(window(), same)}},
		{name: "legacy: seconds, denied", requests: 6, options: limithttp.Options{Legacy: limithttp.LegacySeconds}, limits: []*runtime.Policy{with(bucket(), same), with(window(), same)}},
		{name: "own denial", requests: 21, limits: one(with(bucket(), same)), options: limithttp.Options{Deny: func(w http.ResponseWriter, r *http.Request, d *limithttp.Denial) {
			http.Error(w, fmt.Sprintf("wait %v for %v", d.RetryAfter, d.Decisions.DeniedBy()), d.Status)
		}}},
		{name: "a route inside of another one", requests: 6, route: func(w *world, b *limithttp.Binder) http.Handler {
			limit := func(p runtime.Policy) *limithttp.Route {
				return b.Limit(func(*http.Request) (limiter.Item, error) { return w.limiter.Limit(&p, ada), nil })
			}
			return limit(bucket()).Wrap(limit(window()).Wrap(hello))
		}},
		{name: "hints", requests: 2, route: func(w *world, b *limithttp.Binder) http.Handler {
			used, free := with(bucket(), same), with(window(), same)
			_, err := w.limiter.Limit(used, ada).AllowN(context.Background(), 3)
			if err != nil {
				panic(err)
			}
			return b.Hints(func(*http.Request) ([]limiter.Item, error) {
				return []limiter.Item{w.limiter.Limit(used, ada), w.limiter.Limit(free, ada), w.limiter.Limit(used, runtime.Key{})}, nil
			})
		}},
		{name: "hints: blocked, with and without an end", route: func(w *world, b *limithttp.Binder) http.Handler {
			items := append(blocked(w, 0), w.limiter.Limit(with(sliding(), mode(runtime.ModeBlock)), ada))
			return b.Hints(func(*http.Request) ([]limiter.Item, error) { return items, nil })
		}},
		{name: "hints: a calendar, used up and more", route: func(w *world, b *limithttp.Binder) http.Handler {
			reports := with(window(), quarter)
			if _, err := w.limiter.Limit(reports, ada).Charge(context.Background(), 7); err != nil {
				panic(err)
			}
			return b.Hints(func(*http.Request) ([]limiter.Item, error) { return []limiter.Item{w.limiter.Limit(reports, ada)}, nil })
		}},
		{name: "hints: unlimited and counted", route: func(w *world, b *limithttp.Binder) http.Handler {
			counted := with(window(), countsOnly)
			if _, err := w.limiter.Limit(counted, ada).AllowN(context.Background(), 7); err != nil {
				panic(err)
			}
			return b.Hints(func(*http.Request) ([]limiter.Item, error) { return []limiter.Item{w.limiter.Limit(counted, ada)}, nil })
		}},
		{name: "hints: POST", method: http.MethodPost, route: func(w *world, b *limithttp.Binder) http.Handler { return b.Hints(fails(nil)) }},
		{name: "hints: whatever the items take", route: func(w *world, b *limithttp.Binder) http.Handler {
			limit := w.limiter.Limit(with(bucket(), same), ada)
			return b.Hints(func(*http.Request) ([]limiter.Item, error) {
				return []limiter.Item{limit.N(1_000), limit.Checked(), limiter.Priced[pages](limit).Of(1_000)}, nil
			})
		}},
		{name: "hints: no limit", route: func(w *world, b *limithttp.Binder) http.Handler {
			return b.Hints(func(*http.Request) ([]limiter.Item, error) { return []limiter.Item{nil}, nil })
		}},
	}
}

// handler returns the route of a case.
func (c *goldenCase) handler() http.Handler {
	w := newWorld()
	if c.store != nil {
		w.limiter = limiter.New(c.store)
	}
	if c.options.OnError == nil {
		c.options.OnError = func(*http.Request, error) {}
	}
	b := limithttp.New(w.limiter, c.options)
	b.SetClock(func() time.Time { return w.now })
	switch {
	case c.route != nil:
		return c.route(w, b)
	case c.from == nil:
		c.from = func(*http.Request) ([]limiter.Item, error) { return c.items(w), nil }
	}
	return b.All(c.from).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello\n") }))
}

func (c *goldenCase) items(w *world) (items []limiter.Item) {
	for i, p := range c.limits {
		key := ada
		if i < len(c.keys) {
			key = c.keys[i]
		}
		n := c.n
		switch n {
		case 0:
			n = 1
		case -1:
			n = 0
		}
		items = append(items, w.limiter.Limit(p, key).N(n))
	}
	return items
}

// exchange sends a request, and returns the bytes of the response without the field Date.
func exchange(t *testing.T, addr, method string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "%s / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n", method)
	require.NoError(t, err)
	var response strings.Builder
	for lines := bufio.NewReader(conn); ; {
		line, err := lines.ReadString('\n')
		if !strings.HasPrefix(line, "Date: ") {
			response.WriteString(strings.ReplaceAll(line, "\r\n", "\n"))
		}
		if err == io.EOF {
			return response.String()
		}
		require.NoError(t, err)
	}
}

// TestResponses compares the responses of a server with the golden file: status, fields and body.
func TestResponses(t *testing.T) {
	var all strings.Builder
	for _, c := range goldenCases() {
		server := httptest.NewUnstartedServer(c.handler())
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.Start()
		response := ""
		for range max(1, c.requests) {
			response = exchange(t, server.Listener.Addr().String(), cmp.Or(c.method, http.MethodGet))
		}
		server.Close()
		require.NotContains(t, response, "secret", "the text of an error is not for clients")
		fmt.Fprintf(&all, "== %s\n%s\n\n", c.name, strings.TrimRight(response, "\n"))
	}
	const file = "testdata/responses.txt"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(all.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), all.String(), "look at the difference, and run with -update")
}

// The end of a window is an instant of the store's clock, whatever the clock of this process shows.
func TestHintsGoByTheClockOfTheStore(t *testing.T) {
	w := newWorld()
	h := limithttp.New(w.limiter, limithttp.Options{})
	got := httptest.NewRecorder()
	h.Hints(func(*http.Request) ([]limiter.Item, error) {
		return []limiter.Item{w.limiter.Limit(with(window(), same), ada)}, nil
	}).ServeHTTP(got, httptest.NewRequest(http.MethodGet, "/", nil))
	require.Contains(t, got.Body.String(), `"resetAt":"2026-03-10T13:00:00Z"`)
}
