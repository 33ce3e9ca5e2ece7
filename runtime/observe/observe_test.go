package observe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/observe"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

func bucket(name string, n int64) *runtime.Policy {
	return &runtime.Policy{Name: name, Kind: runtime.TokenBucket, Rate: 1, Period: time.Second, Capacity: n}
}

// faulty is a store that fails while err is set.
type faulty struct {
	runtime.Store
	err atomic.Pointer[error]
}

func (f *faulty) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if err := f.err.Load(); err != nil {
		return nil, *err
	}
	return f.Store.Do(ctx, calls)
}

func (f *faulty) fail(err error) { f.err.Store(&err) }

// leasing keeps the leases of the store within.
type leasing struct {
	*faulty
	taker *sqlite.Store
}

func (l leasing) TakeLocal(p *runtime.Policy, key string, n int64) (runtime.Decision, bool) {
	return l.taker.TakeLocal(p, key, n)
}

// A call is timed by the first of its limits, also if that one needs no counts; a call of such limits alone is not timed.
func TestCallsWhoseFirstLimitIsUnlimitedAreTimed(t *testing.T) {
	c := observe.NewCounters(observe.Options{})
	l := limiter.New(&memstore.Store{}, limiter.Observe(c))
	unlimited := &runtime.Policy{Name: "unlimited", Kind: runtime.TokenBucket, Mode: runtime.ModeUnlimited}
	lifted, counted := l.Limit(unlimited, runtime.KeyOf()), l.Limit(bucket("counted", 10), runtime.KeyOf())
	for _, items := range [][]limiter.Item{{lifted, counted}, {counted, lifted}, {lifted}} {
		_, err := l.All(t.Context(), items...)
		require.NoError(t, err)
	}
	var page bytes.Buffer
	require.NoError(t, c.WriteText(&page))
	require.True(t, strings.Contains(page.String(), "ratelimitgen_store_duration_seconds_count{operation=\"take\"} 2\n"))
}

// More limits than the counters have slots, each with its own number of requests, from several goroutines at once.
func TestManyLimitsAreCountedApart(t *testing.T) {
	c := observe.NewCounters(observe.Options{})
	limits := limiter.New(&memstore.Store{}, limiter.Observe(c))
	var group sync.WaitGroup
	policies := make([]runtime.Policy, 300)
	for i := range policies {
		policies[i] = *bucket(fmt.Sprint("limit", i%200), 1000)
	}
	for range 3 {
		group.Go(func() {
			for i := range policies {
				for n := range int64(i%200%7 + 2) {
					_, err := limits.Limit(&policies[i], runtime.KeyOf()).AllowN(t.Context(), n)
					assert.NoError(t, err)
				}
			}
		})
	}
	group.Wait()
	all := c.Snapshot()
	require.Len(t, all, 200)
	for _, n := range all {
		var i int64
		fmt.Sscanf(n.Limit, "limit%d", &i)
		turns, requests := int64(3), i%7+2
		if i < 100 {
			turns = 6
		}
		require.Equal(t, turns*requests, n.Requests[runtime.OutcomeAllowed], n.Limit)
		require.Equal(t, turns*requests*(requests-1)/2, n.Tokens[runtime.OutcomeAllowed], n.Limit)
	}
}

// text returns what a Prometheus reads.
func text(t *testing.T, c *observe.Counters) string {
	t.Helper()
	recorder := httptest.NewRecorder()
	c.ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, "text/plain; version=0.0.4; charset=utf-8", recorder.Header().Get("Content-Type"))
	return recorder.Body.String()
}

func TestSeriesExistFromTheStart(t *testing.T) {
	c := observe.NewCounters(observe.Options{Policies: []*runtime.Policy{bucket("send", 1), bucket("calls", 1), bucket("calls", 2)}})
	page := text(t, c)
	for _, limit := range []string{"send", "calls"} {
		for _, outcome := range runtime.Outcomes() {
			require.Contains(t, page, fmt.Sprintf("ratelimitgen_requests_total{limit=%q,outcome=%q} 0\n", limit, outcome))
			require.Contains(t, page, fmt.Sprintf("ratelimitgen_tokens_total{limit=%q,outcome=%q} 0\n", limit, outcome))
		}
		require.Contains(t, page, fmt.Sprintf("ratelimitgen_near_total{limit=%q} 0\n", limit))
		require.Contains(t, page, fmt.Sprintf("ratelimitgen_denied_keys{limit=%q} 0\n", limit))
	}
	for _, operation := range []string{"take", "take_up_to", "check", "charge", "refund", "reset", "renew", "release"} {
		require.Contains(t, page, fmt.Sprintf("ratelimitgen_store_duration_seconds_bucket{operation=%q,le=\"0.0001\"} 0\n", operation))
		require.Contains(t, page, fmt.Sprintf("ratelimitgen_store_duration_seconds_bucket{operation=%q,le=\"+Inf\"} 0\n", operation))
		require.Contains(t, page, fmt.Sprintf("ratelimitgen_store_duration_seconds_sum{operation=%q} 0\n", operation))
		require.Contains(t, page, fmt.Sprintf("ratelimitgen_store_duration_seconds_count{operation=%q} 0\n", operation))
	}
	require.NotContains(t, page, "peek")

	// The series are those of the first scrape, whatever happens.
	before := strings.Count(page, "\n")
	require.Equal(t, 2*39+152, before-strings.Count(page, "\n#")-1, "as documented")
	limits := limiter.New(&memstore.Store{}, limiter.Observe(c))
	for i := range 1000 {
		_, err := limits.Limit(bucket("send", 1), runtime.KeyOf(runtime.Int(i%7))).Allow(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, before, strings.Count(text(t, c), "\n"))
}

// Each class of a limit has a count of its denials, and other limits have no series.
func TestDenialsAreCountedByPriority(t *testing.T) {
	c := observe.NewCounters(observe.Options{})
	l := limiter.New(&memstore.Store{}, limiter.Observe(c))
	p := &runtime.Policy{Name: "completions", Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 10}
	batch, key := runtime.Priority{Name: "batch", Leaves: 30}.For(p, runtime.Key{})
	interactive, _ := runtime.Priority{Name: "interactive"}.For(p, key)
	for _, take := range []struct {
		of *runtime.Policy
		n  int64
	}{{batch, 7}, {batch, 1}, {batch, 1}, {interactive, 3}, {interactive, 1}, {&runtime.Policy{Name: "other", Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 1, Mode: runtime.ModeBlock}, 1}} {
		_, err := l.Limit(take.of, key).AllowN(t.Context(), take.n)
		require.NoError(t, err)
	}
	all := c.Snapshot()
	require.Equal(t, map[string]int64{"batch": 2, "interactive": 1}, all[0].DeniedPriorities)
	require.Empty(t, all[1].DeniedPriorities)
	var page strings.Builder
	require.NoError(t, c.WriteText(&page))
	require.Contains(t, page.String(), `ratelimitgen_denied_priorities_total{limit="completions",priority="batch"} 2`)
}

func TestWarningsAreCountedByThreshold(t *testing.T) {
	p := bucket("send", 10)
	p.Warn = runtime.Thresholds{50, 80, 100}
	c := observe.NewCounters(observe.Options{Policies: []*runtime.Policy{p, bucket("calls", 1)}})
	page := text(t, c)
	for _, percent := range []int{50, 80, 100} {
		require.Contains(t, page, fmt.Sprintf("ratelimitgen_warnings_total{limit=\"send\",threshold=\"%d\"} 0\n", percent), "it exists from the start")
	}
	require.NotContains(t, page, `ratelimitgen_warnings_total{limit="calls"`)
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	limits := limiter.New(&memstore.Store{Clock: func() time.Time { return now }}, limiter.Observe(c))
	for _, counts := range [][]int64{{8, 2, 1}, {10}, {5, 4, 1, 1}} {
		l := limits.Limit(p, runtime.KeyOf(runtime.Int(len(counts))))
		for _, n := range counts {
			_, err := l.AllowN(t.Context(), n)
			require.NoError(t, err)
		}
	}
	page = text(t, c)
	for percent, times := range map[int]int{50: 1, 80: 2, 100: 3} {
		require.Contains(t, page, fmt.Sprintf("ratelimitgen_warnings_total{limit=\"send\",threshold=\"%d\"} %d\n", percent, times))
	}
	// A limit that was not given has the thresholds that were crossed.
	other := bucket("other", 10)
	other.Warn = runtime.Thresholds{20}
	_, err := limits.Limit(other, runtime.Key{}).AllowN(t.Context(), 2)
	require.NoError(t, err)
	require.Contains(t, text(t, c), `ratelimitgen_warnings_total{limit="other",threshold="20"} 1`)
}

func TestLabelsAreEscaped(t *testing.T) {
	c := observe.NewCounters(observe.Options{Policies: []*runtime.Policy{bucket(`a"b\c`, 1)}})
	require.Contains(t, text(t, c), `ratelimitgen_near_total{limit="a\"b\\c"} 0`)
}

func TestCountsAndDurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := observe.NewCounters(observe.Options{})
		limits := limiter.New(slow{&memstore.Store{}}, limiter.Observe(c))
		send, book := limits.Limit(bucket("send", 20), runtime.Key{}), limits.Limit(bucket("book", 20), runtime.Key{})
		_, err := send.AllowN(t.Context(), 19)
		require.NoError(t, err)
		_, err = send.AllowN(t.Context(), 7)
		require.NoError(t, err)
		_, err = limits.All(t.Context(), send, book)
		require.NoError(t, err)
		_, err = book.Check(t.Context())
		require.NoError(t, err)
		page := text(t, c)
		for _, line := range []string{
			`ratelimitgen_requests_total{limit="send",outcome="allowed"} 2`,
			`ratelimitgen_tokens_total{limit="send",outcome="allowed"} 20`,
			`ratelimitgen_tokens_total{limit="send",outcome="denied"} 7`,
			`ratelimitgen_near_total{limit="send"} 2`,
			`ratelimitgen_near_total{limit="book"} 0`,
			`ratelimitgen_denied_keys{limit="send"} 1`,
			// A call of two limits is one call of the store.
			`ratelimitgen_store_duration_seconds_bucket{operation="take",le="0.001"} 0`,
			`ratelimitgen_store_duration_seconds_bucket{operation="take",le="0.0025"} 3`,
			`ratelimitgen_store_duration_seconds_sum{operation="take"} 0.006`,
			`ratelimitgen_store_duration_seconds_count{operation="take"} 3`,
			`ratelimitgen_store_duration_seconds_count{operation="check"} 1`,
		} {
			require.Contains(t, page, line+"\n")
		}
	})
}

// slow is a store that takes 2 ms.
type slow struct{ *memstore.Store }

func (s slow) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	time.Sleep(2 * time.Millisecond)
	return s.Store.Do(ctx, calls)
}

// tally counts what callers get, to compare it with what observers see.
type tally struct {
	mu   sync.Mutex
	of   map[string]map[runtime.Outcome]int64
	took map[string]int64
}

func (t *tally) add(limit string, outcome runtime.Outcome, tokens int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[limit] == nil {
		t.of[limit] = map[runtime.Outcome]int64{}
	}
	t.of[limit][outcome]++
	t.took[limit] += tokens
}

// outcome derives the outcome of a take from what its caller gets.
func outcome(d runtime.Decision, err error) runtime.Outcome {
	switch {
	case err != nil:
		return runtime.OutcomeError
	case d.FailedOpen != nil:
		return runtime.OutcomeFailedOpen
	case !d.Allowed:
		return runtime.OutcomeDenied
	case d.FailedLocal != nil:
		return runtime.OutcomeFailedLocal
	case d.Shadowed:
		return runtime.OutcomeShadowDenied
	}
	return runtime.OutcomeAllowed
}

// In a race of callers, with leases, cached denials, failures and shadow mode, each decision is counted once, with its
// outcome.
func TestCountsAreThoseOfTheDecisions(t *testing.T) {
	store, err := sqlite.Open(filepath.Join(t.TempDir(), "limits.db"))
	require.NoError(t, err)
	defer store.Close()

	plain, cached, leased, shadow := bucket("plain", 300), bucket("cached", 20), bucket("leased", 500), bucket("shadow", 30)
	open, local := bucket("open", 1000), bucket("local", 15)
	cached.DenyCache, leased.Lease = time.Second, runtime.Lease{Tokens: 50, For: time.Minute}
	shadow.Mode, open.OnError, local.OnError = runtime.ModeShadow, runtime.FailOpen, runtime.FailLocal
	policies := []*runtime.Policy{plain, cached, leased, shadow, open, local}

	sound := observe.NewCounters(observe.Options{Policies: policies})
	seen := &bySource{counts: map[runtime.Source]int{}}
	failing := &faulty{Store: store}
	failing.fail(errors.New("down"))
	limiters := []*limiter.Limiter{
		limiter.New(store, limiter.Observe(nil), limiter.Observe(sound), limiter.Observe(seen)),
		limiter.New(leasing{failing, store}, limiter.Observe(sound), limiter.Observe(seen)),
	}
	want := &tally{of: map[string]map[runtime.Outcome]int64{}, took: map[string]int64{}}
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for i := range 400 {
				p := policies[rand.IntN(len(policies))]
				limits := limiters[0]
				if i%10 == 9 || p == local {
					limits = limiters[1]
				}
				d, err := limits.Limit(p, runtime.KeyOf(runtime.Int(rand.IntN(2)))).Allow(t.Context())
				want.add(p.Name, outcome(d, err), d.Taken)
			}
		})
	}
	callers.Wait()
	for _, n := range sound.Snapshot() {
		var took int64
		for _, o := range runtime.Outcomes() {
			assert.Equal(t, want.of[n.Limit][o], n.Requests[o], "%s, %v", n.Limit, o)
			if o != runtime.OutcomeDenied && o != runtime.OutcomeShadowDenied {
				took += n.Tokens[o]
			}
		}
		assert.Equal(t, want.took[n.Limit], took, n.Limit)
		var denied int64
		for _, key := range n.TopDenied {
			denied += key.Denied
		}
		assert.Equal(t, n.Requests[runtime.OutcomeDenied]+n.Requests[runtime.OutcomeShadowDenied], denied, "%s: two keys are counted exactly", n.Limit)
	}
	for _, source := range []runtime.Source{runtime.SourceStore, runtime.SourceLease, runtime.SourceDenyCache, runtime.SourceMemory} {
		assert.Positive(t, seen.counts[source], source)
	}
	for _, o := range []runtime.Outcome{runtime.OutcomeAllowed, runtime.OutcomeDenied, runtime.OutcomeShadowDenied, runtime.OutcomeFailedOpen,
		runtime.OutcomeFailedLocal, runtime.OutcomeError} {
		total := int64(0)
		for _, of := range want.of {
			total += of[o]
		}
		assert.Positive(t, total, o)
	}
}

// bySource counts observations by their source.
type bySource struct {
	mu     sync.Mutex
	counts map[runtime.Source]int
}

func (b *bySource) Decided(_ context.Context, o runtime.Observation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts[o.Source]++
}

// denyAll denies requests of some keys of a limit.
func denyAll(t *testing.T, o runtime.Observer, limit string, keys ...string) {
	t.Helper()
	p := bucket(limit, 1)
	p.Mode = runtime.ModeBlock
	limits := limiter.New(&memstore.Store{}, limiter.Observe(o))
	for _, key := range keys {
		_, err := limits.Limit(p, runtime.KeyOf(runtime.String(key))).Allow(t.Context())
		require.NoError(t, err)
	}
}

// Every key with more than a 64th of all denials is in the list, with a count that is too large by at most Excess.
func TestTopKeysAreFoundAmongMany(t *testing.T) {
	secret := []byte("secret")
	d := observe.NewDenials(observe.Options{Secret: secret})
	random := rand.New(rand.NewPCG(1, 2))
	real, keys := map[string]int64{}, []string{}
	for i := range 20_000 {
		key := fmt.Sprint("rare", random.IntN(5000))
		if i%4 == 0 {
			key = fmt.Sprint("often", random.IntN(8))
		}
		keys = append(keys, key)
		real[runtime.Fingerprint(secret, key)]++
	}
	denyAll(t, d, "send", keys...)
	top := d.Top("send")
	require.Len(t, top, 64)
	require.True(t, slices.IsSortedFunc(top, func(a, b observe.DeniedKey) int { return int(b.Denied - a.Denied) }))
	for _, k := range top {
		require.GreaterOrEqual(t, k.Denied, real[k.Fingerprint])
		require.LessOrEqual(t, k.Denied-k.Excess, real[k.Fingerprint])
	}
	var first []string
	for _, k := range top[:8] {
		first = append(first, k.Fingerprint)
	}
	for i := range 8 {
		require.Contains(t, first, runtime.Fingerprint(secret, fmt.Sprint("often", i)))
	}
	require.Empty(t, d.Top("another"))
}

func TestDeniedKeysAreEstimated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := observe.NewDenials(observe.Options{})
		require.Zero(t, d.Keys("send"))
		for _, n := range []int{1, 10, 100, 1000, 10_000, 100_000} {
			limit, keys := fmt.Sprint("send", n), make([]string, 0, n+n/2)
			for i := range n + n/2 {
				keys = append(keys, fmt.Sprint(i%n)) // half of them twice
			}
			denyAll(t, d, limit, keys...)
			require.InEpsilon(t, n, d.Keys(limit), 0.15, "%d keys, a standard error of 3.3 %%", n)
		}
		time.Sleep(59 * time.Second)
		require.Positive(t, d.Keys("send1"))
		time.Sleep(17 * time.Second)
		require.Zero(t, d.Keys("send1"), "after 76 s")
		denyAll(t, d, "send1", "1", "2")
		require.EqualValues(t, 2, d.Keys("send1"))
	})
}

// buffer is a buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// lines are the lines of a log, as JSON.
func lines(t *testing.T, out *buffer) (all []map[string]any) {
	t.Helper()
	out.mu.Lock()
	defer out.mu.Unlock()
	for line := range strings.Lines(out.String()) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		all = append(all, fields)
	}
	out.Reset()
	return all
}

func TestLogWritesOneLinePerLimitAndSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out buffer
		logs := observe.NewLog(slog.New(slog.NewJSONHandler(&out, nil)), observe.LogOptions{Secret: []byte("s")})
		store := &faulty{Store: &memstore.Store{}}
		limits := limiter.New(store, limiter.Observe(logs))
		key := runtime.KeyOf(runtime.String("user-77"))
		blocked := func(name string) limiter.Limit {
			p := bucket(name, 1)
			p.Mode = runtime.ModeBlock
			return limits.Limit(p, key)
		}
		send := limits.Limit(bucket("send", 5), key)
		require.NoError(t, send.Require(t.Context()))
		require.Empty(t, lines(t, &out), "what is allowed is not logged")

		// The first denial of each limit is logged at once, and the others a second later, as one line.
		for range 10 {
			_, _ = blocked("a").Allow(t.Context())
			_, _ = blocked("b").Allow(t.Context())
		}
		got := lines(t, &out)
		require.Len(t, got, 2)
		require.Equal(t, "a", got[0]["limit"])
		require.Equal(t, "denied", got[0]["outcome"])
		require.Equal(t, "INFO", got[0]["level"])
		require.Equal(t, runtime.Fingerprint([]byte("s"), key.String()), got[0]["key"])
		require.Equal(t, map[string]any{"denied": 1.0}, got[0]["requests"])
		time.Sleep(999 * time.Millisecond)
		require.Empty(t, lines(t, &out))
		time.Sleep(time.Millisecond)
		synctest.Wait()
		got = lines(t, &out)
		require.Len(t, got, 2)
		require.Equal(t, map[string]any{"denied": 9.0}, got[0]["requests"])
		time.Sleep(time.Hour)
		require.Empty(t, lines(t, &out))

		// A failure is the example of a second, although denials came first.
		_, _ = send.AllowN(t.Context(), 6)
		got = lines(t, &out)
		require.Equal(t, "invalid", got[0]["outcome"])
		require.Equal(t, "INFO", got[0]["level"], "a mistake of the sender")
		time.Sleep(time.Second)
		store.fail(fmt.Errorf("tenant 7: %w", runtime.ErrNoOverrides))
		_, _ = send.Allow(t.Context())
		got = lines(t, &out)
		require.Equal(t, "invalid", got[0]["outcome"])
		require.Equal(t, "ERROR", got[0]["level"], "a mistake of the program")
		store.err.Store(nil)
		require.NoError(t, limits.Limit(bucket("send", 1), key).Reset(t.Context()))
		require.NoError(t, send.RequireN(t.Context(), 5))
		_, _ = send.Allow(t.Context())
		store.fail(errors.New("server of user-77 is down"))
		_, _ = send.Allow(t.Context())
		store.err.Store(nil)
		_, _ = send.Allow(t.Context())
		require.Empty(t, lines(t, &out))
		logs.Flush()
		got = lines(t, &out)
		require.Len(t, got, 1)
		require.Equal(t, "error", got[0]["outcome"])
		require.Equal(t, "ERROR", got[0]["level"])
		require.Equal(t, `limit "send": server of [key] is down`, got[0]["error"])
		require.Equal(t, map[string]any{"denied": 2.0, "error": 1.0}, got[0]["requests"])
		time.Sleep(time.Hour)
		require.Empty(t, lines(t, &out), "the timer was stopped")
	})
}

func TestLogNamesTheOverride(t *testing.T) {
	var out buffer
	logs := observe.NewLog(slog.New(slog.NewJSONHandler(&out, nil)), observe.LogOptions{})
	p := bucket("send", 5)
	p.Overrides = runtime.OverrideBounds{Rate: 5, Capacity: 5}
	limits, key := limiter.New(&memstore.Store{}, limiter.Observe(logs)), runtime.KeyOf(runtime.String("a"))
	e, err := limits.Overrides(p, key).Block(t.Context(), runtime.Block{Until: runtime.ForGood(), Reason: "abuse", Author: "me"})
	require.NoError(t, err)
	_, err = limits.Limit(p, key).Allow(t.Context())
	require.NoError(t, err)
	got := lines(t, &out)
	require.Len(t, got, 1)
	require.Equal(t, "denied", got[0]["outcome"])
	require.EqualValues(t, e.ID, got[0]["override"])
	require.Equal(t, "block", got[0]["reason"])
}

func TestLogSaysWhyARequestIsDenied(t *testing.T) {
	penalized := bucket("penalty", 5)
	penalized.Penalty = runtime.PenaltyOf(0, time.Hour)
	for _, p := range []*runtime.Policy{bucket("rate", 5), penalized} {
		var out buffer
		limits := limiter.New(&memstore.Store{}, limiter.Observe(observe.NewLog(slog.New(slog.NewJSONHandler(&out, nil)), observe.LogOptions{})))
		require.NoError(t, limits.Limit(p, runtime.Key{}).RequireN(t.Context(), 5))
		require.Error(t, limits.Limit(p, runtime.Key{}).Require(t.Context()))
		require.Equal(t, p.Name, lines(t, &out)[0]["reason"])
	}
}

func TestOutageIsLoggedWithItsEnd(t *testing.T) {
	var out buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewJSONHandler(&out, nil)))
	defer slog.SetDefault(before)
	observe.LogOutage(errors.New("down"))
	observe.LogOutage(nil)
	got := lines(t, &out)
	require.Equal(t, "down", got[0]["error"])
	require.Equal(t, "WARN", got[0]["level"])
	require.NotContains(t, got[1], "error")
	require.Equal(t, "INFO", got[1]["level"])
}

// canary is a key that must be printed nowhere.
const canary = "canary-4711"

func TestKeysAreInNoOutput(t *testing.T) {
	var out buffer
	counters := observe.NewCounters(observe.Options{})
	logs := observe.NewLog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), observe.LogOptions{Interval: time.Nanosecond})
	store := &faulty{Store: &memstore.Store{}}
	limits := limiter.New(store, limiter.Observe(counters), limiter.Observe(logs),
		limiter.Observe(plainLog{slog.New(slog.NewJSONHandler(&out, nil))}))
	key := runtime.KeyOf(runtime.String(canary))
	var returned []error
	for _, mode := range runtime.Modes() {
		for _, failure := range []error{nil, fmt.Errorf("no row (send,%s)", canary)} {
			store.err.Store(nil)
			if failure != nil {
				store.fail(failure)
			}
			for _, onError := range runtime.OnErrors() {
				p := bucket("send", 1)
				p.Mode, p.OnError, p.MaxReserved = mode, onError, 1
				l := limits.Reservable(p, key)
				for range 3 {
					_, err := l.Allow(t.Context())
					if failure == nil {
						returned = append(returned, err, l.Require(t.Context()))
					}
					_, _ = l.AllowN(t.Context(), 9)
					_, _ = l.AllowUpTo(t.Context(), 3)
					_, _ = l.Charge(t.Context(), 1)
					_, _ = limits.All(t.Context(), l, l.Checked())
					if r, err := l.Reserve(t.Context()); err == nil {
						_ = r.Cancel(t.Context())
					}
				}
			}
		}
	}
	logs.Flush()
	printed := out.String() + text(t, counters) + fmt.Sprintf("%+v %v", counters.Snapshot(), returned)
	require.Contains(t, printed, "no row (send,[key])")
	require.NotContains(t, printed, canary)
}

// plainLog is an observer of a user who logs the whole observation.
type plainLog struct{ logger *slog.Logger }

func (l plainLog) Decided(ctx context.Context, o runtime.Observation) {
	l.logger.InfoContext(ctx, "decided", "value", o, "pointer", &o)
}

// That limiter.Mode is in force shows in the metrics of each limit, whatever it decides.
func TestRequestsWithAModeAreCounted(t *testing.T) {
	for mode, want := range map[runtime.Mode]int64{runtime.ModeEnforce: 0, runtime.ModeShadow: 3, runtime.ModeOff: 3} {
		c := observe.NewCounters(observe.Options{})
		send := limiter.New(&memstore.Store{}, limiter.Observe(c), limiter.Mode(mode)).Limit(bucket("send", 1), runtime.Key{})
		for range 3 {
			_, err := send.Allow(t.Context())
			require.NoError(t, err)
		}
		require.Equal(t, want, c.Snapshot()[0].Relaxed, "%v", mode)
		require.Contains(t, text(t, c), fmt.Sprintf("ratelimitgen_relaxed_total{limit=\"send\"} %d\n", want))
	}
}

func TestMetricNames(t *testing.T) {
	var names []string
	for _, m := range observe.Metrics() {
		names = append(names, m.Name+" "+m.Unit+" "+m.Prometheus())
	}
	require.Equal(t, []string{
		"ratelimitgen.requests {request} ratelimitgen_requests_total",
		"ratelimitgen.tokens {token} ratelimitgen_tokens_total",
		"ratelimitgen.near {request} ratelimitgen_near_total",
		"ratelimitgen.warnings {request} ratelimitgen_warnings_total",
		"ratelimitgen.denied_priorities {request} ratelimitgen_denied_priorities_total",
		"ratelimitgen.relaxed {request} ratelimitgen_relaxed_total",
		"ratelimitgen.denied_keys {key} ratelimitgen_denied_keys",
		"ratelimitgen.store.duration s ratelimitgen_store_duration_seconds",
	}, names)
}

// Wait takes leased tokens too, and is observed once.
func TestWaitOnALeasedLimitIsObservedOnce(t *testing.T) {
	store, err := sqlite.Open(filepath.Join(t.TempDir(), "limits.db"))
	require.NoError(t, err)
	defer store.Close()
	p := bucket("leased", 100)
	p.Lease = runtime.Lease{Tokens: 10, For: time.Minute}
	counters, seen := observe.NewCounters(observe.Options{}), &bySource{counts: map[runtime.Source]int{}}
	l := limiter.New(store, limiter.Observe(counters), limiter.Observe(seen)).Limit(p, runtime.Key{})
	for range 5 {
		require.NoError(t, l.Wait(t.Context()))
	}
	require.Equal(t, map[runtime.Source]int{runtime.SourceLease: 5}, seen.counts)
	n := counters.Snapshot()[0]
	require.EqualValues(t, 5, n.Requests[runtime.OutcomeAllowed])
	require.EqualValues(t, 5, n.Tokens[runtime.OutcomeAllowed])
}
