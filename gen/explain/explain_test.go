package explain

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// limitsForTest are those of all valid files that there are.
func limitsForTest(t *testing.T) (limits []*spec.Limit) {
	t.Helper()
	paths, err := filepath.Glob("../../testdata/spec/good/*.yaml")
	require.NoError(t, err)
	for _, path := range append(paths, "../../limits.example.yaml") {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		file, diagnostics := spec.Parse(path, text)
		require.Empty(t, diagnostics)
		limits = append(limits, file.Limits...)
	}
	require.Greater(t, len(limits), 30)
	return limits
}

// What a review says of a limit that was added is said of the limit.
func TestNumbersAreThoseOfAReview(t *testing.T) {
	for _, l := range limitsForTest(t) {
		var said []string
		for _, n := range numbersOf(&l.Policy) {
			said = append(said, n.name+": "+n.value)
		}
		r := review.Of(&spec.File{}, &spec.File{Limits: []*spec.Limit{l}})
		require.Len(t, r.Subjects, 1)
		require.NotEmpty(t, r.Subjects[0].Numbers)
		for _, line := range r.Subjects[0].Lines()[1:] {
			if name, _, _ := strings.Cut(line, ": "); name != review.Rule {
				assert.Contains(t, said, line, l.Policy.Name)
			}
		}
	}
}

// allOf takes all that a row has at an instant, and returns how many tokens that is.
func allOf(t *testing.T, rule *runtime.Rule, state *runtime.State, at int64) int64 {
	t.Helper()
	_, d, err := rule.Step(*state, at, runtime.Request{Op: runtime.Peek})
	require.NoError(t, err)
	if d.Remaining > 0 {
		*state, _, err = rule.Step(*state, at, runtime.Request{Count: d.Remaining})
		require.NoError(t, err)
	}
	return d.Remaining
}

// Who takes all just before a window begins, and all just after, has what is said.
func TestAWindowsEdgeIsReached(t *testing.T) {
	reached := 0
	for _, l := range limitsForTest(t) {
		p := l.Policy
		if p.Kind != runtime.FixedWindow || p.Start.FirstUse() || p.Capacity < p.Rate || p.Period < 2 {
			continue
		}
		rule, state := p.Rule("key"), runtime.State{}
		edge := rule.Phase + 5*rule.Period
		sum := allOf(t, &rule, &state, edge-1) + allOf(t, &rule, &state, edge)
		assert.Equal(t, review.Within(spec.Unreserved(&p), 1), sum, p.Name)
		reached++
	}
	assert.Greater(t, reached, 5)
}

// However a key is emptied, it has a token again after the time that is said, and for some it takes as long.
func TestOneAfterIsReachedAndNeverPassed(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, l := range limitsForTest(t) {
		p := l.Policy
		if p.Capacity == 0 {
			continue
		}
		most, waits := review.NextAfter(&p), []time.Duration{}
		rule, state := p.Rule("key"), runtime.State{}
		at := rule.Phase + 5*rule.Period
		for at < 1<<61 && len(waits) < 100 {
			taken := allOf(t, &rule, &state, at)
			_, d, err := rule.Step(state, at, runtime.Request{Op: runtime.Check, Count: 1})
			require.NoError(t, err)
			waits = append(waits, d.RetryAfter)
			at += int64(d.RetryAfter) + random.Int64N(3)*random.Int64N(rule.Period)
			if taken > 1 { // now part of it, so that what is left goes at another time of the window
				state, _, err = rule.Step(state, at, runtime.Request{Count: 1})
				require.NoError(t, err)
				at += random.Int64N(rule.Period)
			}
		}
		longest := slices.Max(waits)
		assert.LessOrEqual(t, longest, most+10, "%+v", p) // instants are rounded
		assert.GreaterOrEqual(t, longest+10, min(most, p.Period/time.Duration(p.Rate)), "%+v", p)
	}
}

// What is said of reservations is what a limiter answers, with its shards.
func TestReservingIsWhatALimiterAnswers(t *testing.T) {
	for _, l := range limitsForTest(t) {
		p := l.Policy
		if !p.Reserves() {
			continue
		}
		rule := p.Rule("")
		store := &runtime.MemStore{Clock: func() time.Time { return time.Unix(0, rule.Phase) }}
		ask := func(q runtime.Request) runtime.Decision {
			q.Policy = &p
			answers, err := store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{q}}})
			require.NoError(t, err)
			require.NoError(t, answers[0].Err)
			return answers[0].Decisions[0]
		}
		sentences := reserving(&p)
		first := ask(runtime.Request{Count: p.Capacity + min(p.Rate, p.MaxReserved), Reserve: true})
		require.True(t, first.Allowed)
		assert.True(t, strings.HasSuffix(sentences[0], " waits "+review.Length(first.Delay)+"."), sentences[0])
		next := ask(runtime.Request{Op: runtime.Check, Count: 1, Reserve: true})
		assert.Equal(t, next.Allowed, strings.HasSuffix(sentences[1], " waits "+review.Length(next.Delay)+"."), sentences[1])
		assert.Equal(t, !next.Allowed, strings.HasSuffix(sentences[1], " is denied, and passes "+review.Length(next.RetryAfter)+" later."), sentences[1])
		if p.Capacity == 0 {
			assert.Len(t, sentences, 2)
			continue
		}
		plain := ask(runtime.Request{Op: runtime.Check, Count: 1})
		require.False(t, plain.Allowed)
		assert.True(t, strings.HasSuffix(sentences[2], " passes "+review.Length(plain.RetryAfter)+" later."), sentences[2])
	}
}

func TestShards(t *testing.T) {
	p := runtime.Policy{Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 20, MaxReserved: 7, Shards: 3}
	const choice = ". A call takes from the fuller of two; if neither has enough, from all."
	assert.Equal(t, "Each of the 3 has 3 or 4 per minute, 6 or 7 at once and 2 or 3 reserved ahead"+choice, shards(&p))
	p.Rate, p.Capacity, p.MaxReserved = 3000, 0, runtime.Unbounded
	assert.Equal(t, "Each of the 3 has 1,000 per minute"+choice, shards(&p))
}

// pages returns all that can be printed.
func pages(t *testing.T, color bool) (all string) {
	t.Helper()
	var out bytes.Buffer
	limits := limitsForTest(t)
	for _, l := range limits {
		require.NoError(t, WriteLimit(&out, "limits.yaml", l, color))
	}
	for _, id := range IDs() {
		require.NoError(t, WriteID(&out, id, color))
	}
	for _, name := range Fields() {
		require.NoError(t, WriteField(&out, name, color))
	}
	require.NoError(t, WriteList(&out, &spec.File{Limits: limits}, color))
	return out.String()
}

// ofFile matches the lines of files, and what marks a place in them.
var ofFile = regexp.MustCompile(`^    .*(\{.*\}$|  \|  )`)

// A line is no wider than a terminal, but for one of a file, which is as it is. Colors change nothing else.
func TestTextFitsATerminal(t *testing.T) {
	plain := pages(t, false)
	assert.Equal(t, plain, regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(pages(t, true), ""))
	for line := range strings.Lines(plain) {
		line = strings.TrimSuffix(line, "\n")
		assert.Equal(t, strings.TrimRight(line, " "), line)
		if !ofFile.MatchString(line) {
			assert.LessOrEqual(t, cells.Of(line), cells.Line, line)
		}
	}
}

// Each example shows what it is an example of.
func TestIDs(t *testing.T) {
	assert.Len(t, IDs(), len(spec.Rules())+len(spec.ChangeKinds())+len(effects))
	for _, id := range IDs() {
		var out bytes.Buffer
		require.NoError(t, WriteID(&out, id, false))
		if slices.ContainsFunc(effects, func(e effect) bool { return e.word == id }) {
			assert.True(t, strings.HasPrefix(out.String(), id+": "), out.String())
			continue
		}
		assert.True(t, strings.HasPrefix(out.String(), id+": a"), out.String())
		if id != "file-too-large" && id != "name-too-long" {
			assert.Contains(t, out.String(), "["+id+"]")
		}
	}
}

// Every word that a review prints about a change is explained: its classes, and what its notes are about.
func TestEveryWordOfAReviewIsExplained(t *testing.T) {
	for _, class := range review.Classes() {
		var out bytes.Buffer
		require.Contains(t, IDs(), string(class))
		require.NoError(t, WriteID(&out, string(class), false))
		assert.Regexp(t, `examples: ratelimitgen explain [a-z]`, out.String())
	}
	for _, word := range []string{review.Rule, review.Calls, review.Deploy, "sql", "notice", "warning", "error"} {
		assert.Contains(t, IDs(), word)
	}
}

// A word is a field or an id, so that it is enough to give it.
func TestFieldsAreNoIDs(t *testing.T) {
	assert.Len(t, Fields(), len(spec.Fields()))
	for _, name := range Fields() {
		assert.NotContains(t, IDs(), name)
	}
}

// What the reference says of a field is said, and its example.
func TestFields(t *testing.T) {
	for _, f := range spec.Fields() {
		var out bytes.Buffer
		require.NoError(t, WriteField(&out, f.Name, false))
		said := strings.Join(strings.Fields(out.String()), " ")
		assert.True(t, strings.HasPrefix(said, f.Name+": a field of "+f.Of+" meaning: "+f.Meaning+" write: "+f.Accepts), said)
		assert.Contains(t, said, f.Absent)
		assert.Equal(t, f.Required, strings.Contains(said, "without it: the file is not valid"), said)
		assert.True(t, strings.HasSuffix(said, " example: "+f.Example), said)
	}
}

// Whatever stands in a file, or is its name, leaves the terminal alone.
func TestHostileText(t *testing.T) {
	var out bytes.Buffer
	l := &spec.Limit{Policy: runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 1, Period: 1, Capacity: 1}, Doc: "a\x1b[31m\u202e\xffb\nc"}
	require.NoError(t, WriteLimit(&out, "a\x1b[31mb.yaml", l, false))
	assert.Contains(t, out.String(), `a\x1b[31mb.yaml:0:0: limit`)
	assert.Contains(t, out.String(), `doc: a\x1b[31m\u202e\xffb c`)
}

// A key that has used its whole rate is full after a period, however large the numbers are.
func TestFullAfterIsExact(t *testing.T) {
	for _, rate := range []int64{700_000_000_000, 999_999_999_999_989} {
		day := runtime.Policy{Name: "day", Kind: runtime.FixedWindow, Rate: rate, Period: 24 * time.Hour, Capacity: rate, Start: runtime.StartOffset(0)}
		hour := runtime.Policy{Name: "hour", Kind: runtime.TokenBucket, Rate: rate, Period: time.Hour, Capacity: rate}
		for text, p := range map[string]runtime.Policy{"full after  1d  when": day, "full after  1h  when": hour} {
			var out bytes.Buffer
			require.NoError(t, WriteLimit(&out, "limits.yaml", &spec.Limit{Policy: p}, false))
			assert.Contains(t, strings.Join(strings.Fields(out.String()), " "), strings.Join(strings.Fields(text), " "))
		}
	}
}
