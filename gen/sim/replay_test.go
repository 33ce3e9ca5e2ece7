package sim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// limitOf returns a limit with the types of the parts of its key.
func limitOf(p runtime.Policy, key ...string) *spec.Limit {
	var said spec.Limit
	for i, typ := range key {
		said.Key = append(said.Key, spec.KeyPart{Name: fmt.Sprintf("part%d", i), Type: typ})
	}
	l, err := spec.NewLimit(p, said)
	if err != nil {
		panic(err)
	}
	return l
}

// fileOf returns a file of limits.
func fileOf(limits ...*spec.Limit) *spec.File { return &spec.File{Limits: limits} }

// limitsForTest returns limits of every kind, with keys of every type.
func limitsForTest() *spec.File {
	return fileOf(
		limitOf(runtime.Policy{
			Name: "bucket", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 20, MaxReserved: 30}, "string"),
		limitOf(runtime.Policy{
			Name: "window", Kind: runtime.FixedWindow, Rate: 10, Period: time.Minute, Capacity: 15}, "int64", "string"),
		limitOf(runtime.Policy{
			Name: "sliding", Kind: runtime.SlidingWindow, Rate: 5, Period: time.Minute, Capacity: 5}, "netip.Addr"),
		limitOf(runtime.Policy{
			Name: "shared", Kind: runtime.FixedWindow, Rate: 30, Period: time.Hour, Capacity: 30, Start: runtime.StartFirstUse()}),
		limitOf(runtime.Policy{
			Name: "halves", Kind: runtime.TokenBucket, Rate: 20, Period: time.Minute, Capacity: 20, MaxReserved: 9, Shards: 2}, "bool"),
		limitOf(runtime.Policy{
			Name: "eighths", Kind: runtime.TokenBucket, Rate: 80, Period: time.Minute, Capacity: 40, MaxReserved: 80, Shards: 8}, "uint64"),
		limitOf(runtime.Policy{
			Name: "slots", Kind: runtime.InFlight, Slots: 5, Hold: time.Minute}, "string"),
	)
}

// replayText replays a trace, and returns the output of JSONL and the faults.
func replayText(t *testing.T, file *spec.File, in *trace.Reader) (out string, faults []string) {
	t.Helper()
	var buffer bytes.Buffer
	replay, jsonl := NewReplay(file), NewJSONL(&buffer)
	err := in.Replay(func(l *trace.Line) error {
		a, err := replay.Decide(l)
		if err != nil {
			return err
		}
		return jsonl.Write(l, Answer{}, a)
	}, func(f *trace.Fault) error {
		faults = append(faults, f.Error())
		return nil
	})
	require.NoError(t, err)
	return buffer.String(), faults
}

func traceOf(lines ...string) *trace.Reader {
	return trace.NewReader(strings.NewReader(strings.Join(lines, "\n")))
}

// The limit bucket has 20 tokens, gets 10 per minute and allows reservations of 30.
func TestReplayOfATokenBucket(t *testing.T) {
	requests := []string{
		`{"at":0,"limit":"bucket","key":"ann","count":20}`,
		`{"at":0,"limit":"bucket","key":"ann"}`,
		`{"at":0,"limit":"bucket","key":["bob"]}`,
		`{"at":"1970-01-01T00:00:01.5Z","limit":"bucket","key":"ann"}`,
		`{"at":1500,"limit":"bucket","key":"ann","count":1,"reserve":true}`,
		`{"at":1500,"limit":"bucket","key":"ann","count":50,"reserve":true}`,
		`{"at":6000,"limit":"bucket","key":"ann"}`,
		`{"at":12000,"limit":"bucket","key":"\u0061nn"}`,
	}
	want := []string{
		`"allowed":true,"remaining":0,"value":0}`,
		`"allowed":false,"retryAfterMs":6000,"remaining":0,"value":0}`,
		`"allowed":true,"remaining":19,"value":19}`,
		`"allowed":false,"retryAfterMs":4500,"remaining":0,"value":0.25}`,
		`"allowed":true,"retryAfterMs":4500,"remaining":0,"value":-0.75}`,
		`"allowed":false,"retryAfterMs":124500,"remaining":0,"value":-0.75}`,
		`"allowed":false,"retryAfterMs":6000,"remaining":0,"value":0}`,
		`"allowed":true,"remaining":0,"value":0}`,
	}
	for i := range want {
		want[i] = strings.TrimSuffix(requests[i], "}") + "," + want[i]
	}
	out, faults := replayText(t, limitsForTest(), traceOf(requests...))
	assert.Empty(t, faults)
	assert.Equal(t, want, strings.Split(strings.TrimSpace(out), "\n"))

	again, faults := replayText(t, limitsForTest(), traceOf(out))
	assert.Empty(t, faults, "an answer is a trace again")
	assert.Equal(t, out, again)
}

// JSONL writes the fields of a request with their spelling, in one order, without other fields.
func TestJSONLKeepsTheFieldsOfTheRequest(t *testing.T) {
	out, faults := replayText(t, limitsForTest(), traceOf(
		` { "value" : 9, "count" : 2 , "key" : [ "a\tb" ] , "limit" : "b\u0075cket" , "at" : "1970-01-01T02:00:00+01:00", "allowed":false } `+"\r"))
	assert.Empty(t, faults)
	assert.Equal(t, `{"at":"1970-01-01T02:00:00+01:00","limit":"b\u0075cket","key":[ "a\tb" ],"count":2,"allowed":true,"remaining":18,"value":18}`+"\n", out)
}

// request is a random request.
type request struct {
	limit   *spec.Limit
	key     []string
	encoded runtime.Key
	request runtime.Request
	at      time.Duration
}

func (q request) String() string {
	key, _ := json.Marshal(q.key)
	verb := "allow"
	if name := trace.VerbOf(q.request.Op); name != "" {
		verb = name
	}
	return fmt.Sprintf(`{"at":"%s","limit":"%s","key":%s,"count":%d,"reserve":%t,"verb":"%s"}`,
		time.Unix(0, int64(q.at)).UTC().Format(time.RFC3339Nano), q.limit.Policy.Name, key, q.request.Count, q.request.Reserve, verb)
}

// randomRequests returns requests to limits, in order of time.
func randomRequests(random *rand.Rand, n int, limits []*spec.Limit) []request {
	var requests []request
	at := time.Duration(0)
	for range n {
		at += time.Duration(random.Int64N(int64(3 * time.Second)))
		l := limits[random.IntN(len(limits))]
		q := request{limit: l, key: []string{}, at: at}
		var parts []runtime.Part
		for _, part := range l.Key {
			typ := part.Type
			text := map[string]string{"bool": strconv.FormatBool(random.IntN(2) == 0), "netip.Addr": fmt.Sprintf("10.0.0.%d", random.IntN(2))}[typ]
			if text == "" {
				text = strconv.Itoa(random.IntN(2))
			}
			q.key, parts = append(q.key, text), append(parts, runtime.String(text))
		}
		if len(parts) > 0 {
			q.encoded = runtime.KeyOf(parts...)
		}
		q.request = runtime.Request{Count: 1 + random.Int64N(4), Reserve: random.IntN(3) == 0}
		if !q.request.Reserve {
			q.request.Op = []runtime.Op{runtime.Take, runtime.Take, runtime.TakeUpTo, runtime.Charge}[random.IntN(4)]
		}
		if l.Policy.Kind == runtime.InFlight {
			q.request.Op, q.request.Reserve = runtime.Take, false
		}
		requests = append(requests, q)
	}
	return requests
}

func linesOf(requests []request) []string {
	var lines []string
	for _, q := range requests {
		lines = append(lines, q.String())
	}
	return lines
}

// The decisions are those of memstore.Store. Its values are estimates for sharded limits, whose shards it picks at random.
func TestReplayDecidesAsMemStore(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	limits := append(limitsForTest().Limits[:5], limitOf(runtime.Policy{
		Name: "precise", Kind: runtime.SlidingWindow, Rate: 25, Period: time.Minute, Capacity: 25, Precise: true}, "string"))
	requests := randomRequests(random, 5000, limits)
	now := time.Duration(0)
	store := &memstore.Store{Clock: func() time.Time { return time.Unix(0, int64(now)) }}
	i, denied := 0, 0
	replay := NewReplay(fileOf(limits...))
	err := traceOf(linesOf(requests)...).Replay(func(l *trace.Line) error {
		q := requests[i]
		now = q.at
		request := q.request
		request.Policy, request.Key = &q.limit.Policy, q.encoded.String()
		call := runtime.Call{Requests: []runtime.Request{request}}
		want, err := store.Do(context.Background(), []runtime.Call{call})
		require.NoError(t, err)
		require.NoError(t, want[0].Err)
		got, err := replay.Decide(l)
		require.NoError(t, err, q)
		got.Limit, got.Policy = q.limit.Policy.Name, &q.limit.Policy
		if q.limit.Policy.Shards > 1 {
			require.InDelta(t, want[0].Decisions[0].Value, got.Value, 1e-9, "line %d: %v", i+1, q)
			got.Value = want[0].Decisions[0].Value
		}
		require.Equal(t, want[0].Decisions[0], got.Decision, "line %d: %v", i+1, q)
		if !got.Allowed {
			denied++
		}
		i++
		return nil
	}, func(f *trace.Fault) error { return f })
	require.NoError(t, err)
	assert.Equal(t, len(requests), i)
	assert.Greater(t, denied, 500)
}

// The decisions for a sharded limit do not depend on the requests to other limits.
func TestReplayOfShardsIsDeterministic(t *testing.T) {
	limits := limitsForTest()
	requests := randomRequests(rand.New(rand.NewPCG(3, 4)), 5000, limits.Limits)
	all, faults := replayText(t, limits, traceOf(linesOf(requests)...))
	require.Empty(t, faults)
	alone := traceOf(linesOf(requests)...)
	alone.Only = "eighths"
	some, faults := replayText(t, limits, alone)
	require.Empty(t, faults)
	var want strings.Builder
	for line := range strings.Lines(all) {
		if strings.Contains(line, `"eighths"`) {
			want.WriteString(line)
		}
	}
	assert.True(t, want.String() == some, "the shards of a key depend on other limits")
	assert.EqualValues(t, strings.Count(all, "\n")-strings.Count(some, "\n"), alone.LeftOut)
}

func TestReplayOfShardsAdmitsTheCapacity(t *testing.T) {
	lines := make([]string, 60)
	for i := range lines {
		lines[i] = `{"at":1000,"limit":"eighths","key":"7"}`
	}
	out, faults := replayText(t, limitsForTest(), traceOf(lines...))
	require.Empty(t, faults)
	for i, line := range strings.Split(strings.TrimSpace(out), "\n") {
		answer := fmt.Sprintf(`"allowed":true,"remaining":%d,"value":%[1]d}`, 39-i)
		if i >= 40 {
			answer = `"allowed":false,"retryAfterMs":750,"remaining":0,"value":0}`
		}
		assert.Equal(t, lines[i][:len(lines[i])-1]+","+answer, line)
	}
}

// Different spellings of a value are the same key.
func TestKeysAreThoseOfTheGeneratedCode(t *testing.T) {
	for _, test := range []struct {
		typ, text string
		want      runtime.Key
	}{
		{"string", "a|b%\x00", runtime.KeyOf(runtime.String("a|b%\x00"))},
		{"example.com/ids.User", "u-1", runtime.KeyOf(runtime.String("u-1"))},
		{"bool", "true", runtime.KeyOf(runtime.Bool(true))},
		{"int", "007", runtime.KeyOf(runtime.Int(7))},
		{"int64", "-42", runtime.KeyOf(runtime.Int64(-42))},
		{"uint64", "18446744073709551615", runtime.KeyOf(runtime.Uint64(1<<64 - 1))},
		{"netip.Addr/64", "2001:DB8::0:1", runtime.KeyOf(runtime.String("2001:db8::/64"))},
		{"netip.Addr/64", "10.0.0.1", runtime.KeyOf(runtime.String("10.0.0.1"))},
		{"hashed string", "ann@example.com", runtime.KeyOf(runtime.Hashed("ann@example.com"))},
		{"folded string", "Ann@Example.com", runtime.KeyOf(runtime.String("ann@example.com"))},
		{"hashed folded string", "Ann@Example.com", runtime.KeyOf(runtime.Hashed("ann@example.com"))},
		{"[userID: int64, addr: netip.Addr/64]", "userID:007", runtime.KeyOf(runtime.Int64(7).As("userID"))},
		{"[userID: int64, addr: netip.Addr/64]", "addr:2001:DB8::1", runtime.KeyOf(runtime.String("2001:db8::/64").As("addr"))},
		{"[userID: int64, addr: netip.Addr/64]", "10.0.0.1", runtime.KeyOf(runtime.String("10.0.0.1").As("addr"))},
		{"[userID: int64, mail: hashed folded string]", "mail:Ann@X", runtime.KeyOf(runtime.Hashed("ann@x").As("mail"))},
		{"netip.Addr", "2001:DB8::0:1", runtime.KeyOf(runtime.String("2001:db8::1"))},
		{"netip.Addr", "FE80::1%eth0", runtime.KeyOf(runtime.Addr(netip.MustParseAddr("fe80::1%eth0")))},
		{"netip.Addr", "::ffff:10.0.0.1", runtime.KeyOf(runtime.String("10.0.0.1"))},
	} {
		key, err := newLimitState("limit", []spec.KeyPart{{Type: test.typ}}).encodeKey(&trace.Line{Key: []string{test.text}})
		require.NoError(t, err)
		assert.Equal(t, test.want.String(), key, test.typ)
	}
}

func TestTextsOfNoAlternativeAreRefused(t *testing.T) {
	for _, text := range []string{"7", "userID", "userID:x", "UserID:7", "mail:x", ""} {
		_, err := newLimitState("limit", []spec.KeyPart{{Type: "[userID: int64, addr: netip.Addr/64]"}}).encodeKey(&trace.Line{Key: []string{text}})
		assert.ErrorContains(t, err, "part 1 of the key of limit is not a valid [userID: int64, addr: netip.Addr/64]", "%q", text)
	}
}

// A decision allocates the key, and nothing else.
func TestReplayAllocatesOnlyKeys(t *testing.T) {
	line := []byte(`{"at":1767225600000,"limit":"bucket","key":"ann","count":1,"reserve":true}`)
	var l trace.Line
	replay := NewReplay(limitsForTest())
	report := NewReport(replay)
	require.NoError(t, l.Parse(line))
	allocations := testing.AllocsPerRun(1000, func() {
		a, err := replay.Decide(&l)
		if err != nil {
			t.Fatal(err)
		}
		if err := report.Write(&l, a); err != nil {
			t.Fatal(err)
		}
	})
	if allocations > 2 {
		t.Fatalf("%v allocations per decision", allocations)
	}
}

// Sim replays what a file says: it needs no store, and nothing of the packages that show its decisions.
func TestSimNeedsNoStore(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	require.NoError(t, err)
	const module = "github.com/ratelimitgen/ratelimitgen/"
	for _, path := range strings.Fields(string(out)) {
		path, ours := strings.CutPrefix(path, module)
		require.True(t, ours || path == "gopkg.in/yaml.v3" || strings.HasPrefix(path, "golang.org/x/text/"), "%s is of another module", path)
		for _, above := range []string{"runtime/limiter", "runtime/memstore", "runtime/sqlstore", "gen/page", "gen/explain", "gen/review"} {
			require.False(t, strings.HasPrefix(path, above), "sim imports %s", path)
		}
	}
}

func TestFixturesHaveEveryKind(t *testing.T) {
	for _, kind := range runtime.Kinds() {
		assert.True(t, slices.ContainsFunc(limitsForTest().Limits, func(l *spec.Limit) bool { return l.Policy.Kind == kind }),
			"add a limit of kind %v to limitsForTest", kind)
	}
}

// A kind without an algorithm of its own would get the decisions of another kind.
func TestEachKindDecidesDifferently(t *testing.T) {
	kindOf := map[string]runtime.Kind{}
	for _, kind := range runtime.Kinds() {
		policy := runtime.Policy{Name: "send", Kind: kind, Rate: 4, Period: time.Minute, Capacity: 4}
		if kind == runtime.InFlight {
			policy = runtime.Policy{Name: "send", Kind: kind, Slots: 4, Hold: time.Minute}
		}
		if kind.Windowed() {
			policy.Start = runtime.StartOffset(0)
		}
		var lines []string
		for at := 30; at < 200; at += 5 {
			lines = append(lines, fmt.Sprintf(`{"at":%d000,"limit":"send"}`, at))
		}
		out, faults := replayText(t, fileOf(limitOf(policy)), traceOf(lines...))
		require.Empty(t, faults[:min(len(faults), 1)], "%v is not decided: give it an algorithm in package runtime", kind)
		other, same := kindOf[out]
		assert.False(t, same, "%v decides as %v: give it an algorithm in package runtime", kind, other)
		kindOf[out] = kind
	}
}

// Requests that say how long they run renew and release their slots as the holders of a store do: with the same decisions.
func TestReplayReleasesSlotsAsTheirHoldersDo(t *testing.T) {
	policy := &runtime.Policy{Name: "slots", Kind: runtime.InFlight, Slots: 5, Hold: time.Minute}
	random := rand.New(rand.NewPCG(4, 2))
	now := int64(0)
	store := &memstore.Store{Clock: func() time.Time { return time.Unix(0, now) }}
	do := func(q runtime.Request) (runtime.Decision, error) {
		q.Policy = policy
		answers, err := store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{q}}})
		require.NoError(t, err)
		if answers[0].Err != nil {
			return runtime.Decision{}, answers[0].Err
		}
		return answers[0].Decisions[0], nil
	}
	type job struct{ fence, next, end int64 }
	var jobs []job
	replay, denied, renewed := NewReplay(fileOf(limitOf(*policy))), 0, 0
	for at := int64(0); at < int64(5*time.Hour); at += random.Int64N(int64(40 * time.Second)) {
		for len(jobs) > 0 {
			slices.SortFunc(jobs, func(a, b job) int { return cmp.Compare(a.next, b.next) })
			if jobs[0].next > at {
				break
			}
			j := &jobs[0]
			now = j.next
			if j.next == j.end {
				_, err := do(runtime.Request{Op: runtime.Release, Fence: j.fence})
				require.NoError(t, err)
				jobs = jobs[1:]
				continue
			}
			_, err := do(runtime.Request{Op: runtime.Renew, Fence: j.fence})
			require.NoError(t, err)
			renewed++
			j.next = min(j.end, j.next+int64(20*time.Second))
		}
		now = at
		running := time.Duration(random.Int64N(int64(4 * time.Minute)))
		if random.IntN(5) == 0 {
			running = 0 // it crashes
		}
		want, err := do(runtime.Request{Count: 1})
		require.NoError(t, err)
		got, err := replay.Decide(&trace.Line{At: at, Limit: "slots", Count: 1, Running: running})
		require.NoError(t, err)
		require.Equal(t, want.Allowed, got.Allowed)
		require.Equal(t, want.Remaining, got.Remaining)
		require.Equal(t, want.RetryAfter, got.RetryAfter)
		require.Equal(t, want.Fence, got.Fence)
		if !want.Allowed {
			denied++
		} else if running > 0 {
			end := at + int64(running)
			jobs = append(jobs, job{want.Fence, min(end, at+int64(20*time.Second)), end})
		}
	}
	assert.Greater(t, denied, 100)
	assert.Greater(t, renewed, 300)
}

// A replay decides in every mode as a store does.
func TestReplayEqualsAStoreInEveryMode(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 1))
	for _, mode := range append(runtime.Modes(), runtime.ModeUnlimited) {
		for _, l := range limitsForTest().Limits {
			policy := l.Policy
			if policy.Mode = mode; policy.Shards > 0 {
				continue // a store estimates Value
			}
			now := time.Unix(0, 0)
			store := &memstore.Store{Clock: func() time.Time { return now }}
			replay := NewReplay(fileOf(limitOf(policy)))
			for range 200 {
				now = now.Add(time.Duration(random.Int64N(int64(20 * time.Second))))
				q := runtime.Request{Policy: &policy, Count: 1 + random.Int64N(12), Reserve: policy.Reserves() && random.IntN(2) == 0}
				if !q.Reserve {
					q.Op = []runtime.Op{runtime.Take, runtime.TakeUpTo, runtime.Charge}[random.IntN(3)]
				}
				answers, err := store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{q}}})
				require.NoError(t, err)
				got, err := replay.Decide(&trace.Line{At: now.UnixNano(), Limit: policy.Name, Count: q.Count, Reserve: q.Reserve, Op: q.Op})
				if want := answers[0]; want.Err != nil {
					require.Error(t, err)
				} else {
					require.NoError(t, err)
					want.Decisions[0].Limit, got.Limit = "", ""
					want.Decisions[0].Policy, got.Policy = nil, nil
					require.Equal(t, want.Decisions[0], got.Decision, "%v, %v: %+v", mode, policy.Kind, q)
				}
			}
		}
	}
}

func TestReportShowsWhatShadowModeLetsPass(t *testing.T) {
	limits := fileOf(limitsForTest().Limits[0])
	limits.Limits[0].Policy.Mode = runtime.ModeShadow
	out := reportOf(t, limits, false,
		`{"at":0,"limit":"bucket","key":"ann","count":20}`,
		`{"at":0,"limit":"bucket","key":"ann"}`,
		`{"at":0,"limit":"bucket","key":"ann","count":51}`,
		`{"at":0,"limit":"bucket","key":"bob","count":21,"reserve":true}`,
	)
	for _, want := range []string{
		"limit   requests  allowed  shadowed  denied  delayed  keys  max wait\n" +
			"bucket         4        4         3       0        0     2        0s\n",
		"  shadowed  ",
		"ann    2 of 3  66.7%        0s\n",
		"bob    1 of 1   100%        0s\n",
	} {
		assert.Contains(t, out, want)
	}
	text, faults := replayText(t, limits, traceOf(`{"at":0,"limit":"bucket","key":"ann","count":21}`))
	require.Empty(t, faults)
	assert.Equal(t, `{"at":0,"limit":"bucket","key":"ann","count":21,"allowed":true,"remaining":20,"value":20,"shadowed":true}`+"\n", text)
}
