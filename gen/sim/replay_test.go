package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// A bucket of 20 that gets 10 a minute, and lends 30.
func TestReplay(t *testing.T) {
	asked := []string{
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
		want[i] = strings.TrimSuffix(asked[i], "}") + "," + want[i]
	}
	out, faults := replayText(t, limitsForTest(), traceOf(asked...))
	assert.Empty(t, faults)
	assert.Equal(t, want, strings.Split(strings.TrimSpace(out), "\n"))

	again, faults := replayText(t, limitsForTest(), traceOf(out))
	assert.Empty(t, faults, "an answer can be asked again")
	assert.Equal(t, out, again)
}

// The fields come out as they were given, in one order, whatever is between them.
func TestReplayKeepsWhatWasGiven(t *testing.T) {
	out, faults := replayText(t, limitsForTest(), traceOf(
		` { "value" : 9, "count" : 2 , "key" : [ "a\tb" ] , "limit" : "b\u0075cket" , "at" : "1970-01-01T02:00:00+01:00", "allowed":false } `+"\r"))
	assert.Empty(t, faults)
	assert.Equal(t, `{"at":"1970-01-01T02:00:00+01:00","limit":"b\u0075cket","key":[ "a\tb" ],"count":2,"allowed":true,"remaining":18,"value":18}`+"\n", out)
}

// request is a random question of a limit.
type request struct {
	limit   Limit
	key     []string
	encoded runtime.Key
	ask     runtime.Request
	at      time.Duration
}

func (q request) String() string {
	key, _ := json.Marshal(q.key)
	return fmt.Sprintf(`{"at":"%s","limit":"%s","key":%s,"count":%d,"reserve":%t}`,
		time.Unix(0, int64(q.at)).UTC().Format(time.RFC3339Nano), q.limit.Policy.Name, key, q.ask.Count, q.ask.Reserve)
}

// randomRequests returns questions of limits, in order of time.
func randomRequests(random *rand.Rand, n int, limits []Limit) []request {
	var requests []request
	at := time.Duration(0)
	for range n {
		at += time.Duration(random.Int64N(int64(3 * time.Second)))
		l := limits[random.IntN(len(limits))]
		q := request{limit: l, key: []string{}, at: at}
		var parts []runtime.Part
		for _, typ := range l.Key {
			text := map[string]string{"bool": strconv.FormatBool(random.IntN(2) == 0), "netip.Addr": fmt.Sprintf("10.0.0.%d", random.IntN(2))}[typ]
			if text == "" {
				text = strconv.Itoa(random.IntN(2))
			}
			q.key, parts = append(q.key, text), append(parts, runtime.String(text))
		}
		if len(parts) > 0 {
			q.encoded = runtime.KeyOf(parts...)
		}
		q.ask = runtime.Request{Count: 1 + random.Int64N(4), Reserve: random.IntN(3) == 0}
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

// What is replayed is what the reference store answers, but for shards that are picked at random.
func TestReplayAnswersAsAStoreDoes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	limits := limitsForTest()[:5]
	requests := randomRequests(random, 5000, limits)
	now := time.Duration(0)
	store := &runtime.MemStore{Clock: func() time.Time { return time.Unix(0, int64(now)) }}
	i, denied := 0, 0
	replay := NewReplay(limits)
	err := traceOf(linesOf(requests)...).Replay(func(l *Line) error {
		q := requests[i]
		now = q.at
		request := q.ask
		request.Policy, request.Key = q.limit.Policy, q.encoded.String()
		call := runtime.Call{Requests: []runtime.Request{request}}
		want, err := store.Do(context.Background(), []runtime.Call{call})
		require.NoError(t, err)
		require.NoError(t, want[0].Err)
		got, err := replay.Ask(l)
		require.NoError(t, err, q)
		got.Limit = q.limit.Policy.Name
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
	}, func(f *Fault) error { return f })
	require.NoError(t, err)
	assert.Equal(t, len(requests), i)
	assert.Greater(t, denied, 500)
}

// A key's shards are picked alike in every replay, whoever else asks.
func TestReplayOfShardsIsTheSameEachTime(t *testing.T) {
	limits := limitsForTest()
	requests := randomRequests(rand.New(rand.NewPCG(3, 4)), 5000, limits)
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
	assert.True(t, want.String() == some, "the shards are picked by what others ask")
	assert.EqualValues(t, strings.Count(all, "\n")-strings.Count(some, "\n"), alone.LeftOut)
}

// All of what a sharded limit has can be taken at once, however it is picked.
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
