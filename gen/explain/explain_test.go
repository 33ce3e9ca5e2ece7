package explain

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/render"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/judge"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// limitsForTest returns the limits of all valid files in testdata and of the example, for each of their plans.
func limitsForTest(t *testing.T) (limits []*spec.Limit) {
	t.Helper()
	paths, err := filepath.Glob("../../testdata/spec/good/*.yaml")
	require.NoError(t, err)
	for _, path := range append(paths, "../../limits.example.yaml") {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		file, diagnostics := fields.Parse(path, text)
		require.Empty(t, diagnostics)
		for _, l := range file.Limits {
			for _, of := range l.Each() {
				if !of.UnlimitedRate {
					limits = append(limits, of)
				}
			}
		}
	}
	require.Greater(t, len(limits), 30)
	return limits
}

// A review of a file to which the limit is added prints the same numbers.
func TestNumbersAreThoseOfAReview(t *testing.T) {
	for _, l := range limitsForTest(t) {
		var printed []string
		for _, n := range impliedNumbers(&l.Policy) {
			printed = append(printed, n.Name+": "+n.text())
		}
		r := judge.Review(&spec.File{}, &spec.File{Limits: []*spec.Limit{l}})
		require.Len(t, r.Subjects, 1)
		require.NotEmpty(t, r.Subjects[0].Numbers)
		for _, line := range render.LinesOf(&r.Subjects[0])[1:] {
			if name, _, _ := strings.Cut(line, ": "); name != review.Rule {
				assert.Contains(t, printed, line, l.Policy.Name)
			}
		}
	}
}

// takeAll takes all tokens that are available at an instant, and returns how many they were.
func takeAll(t *testing.T, rule *meter.Rule, state *runtime.State, at int64) int64 {
	t.Helper()
	_, d, err := rule.Step(*state, at, runtime.Request{Op: runtime.Peek})
	require.NoError(t, err)
	if d.Remaining > 0 {
		*state, _, err = rule.Step(*state, at, runtime.Request{Count: d.Remaining})
		require.NoError(t, err)
	}
	return d.Remaining
}

// Taking all tokens just before a window begins, and all just after, takes exactly the number that is printed.
func TestWindowEdgeNumberIsReached(t *testing.T) {
	reached := 0
	for _, l := range limitsForTest(t) {
		p := l.Policy
		if p.Kind != runtime.FixedWindow || p.Start.FirstUse() || p.Capacity < p.Rate || p.Period < 2 || l.CountsOnly() {
			continue
		}
		rule, state := meter.RuleOf(&p, "key"), runtime.State{}
		edge := rule.WindowEnd(rule.Phase + 5*rule.Period - 1)
		sum := takeAll(t, &rule, &state, edge-1) + takeAll(t, &rule, &state, edge)
		assert.Equal(t, bounds.Within(bounds.Unreserved(&p), 1), sum, p.Name)
		reached++
	}
	assert.Greater(t, reached, 5)
}

// However a key is emptied, it has a token again within the printed time, and in some cases not before.
func TestNextTokenAfterIsReachedAndNeverExceeded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, l := range limitsForTest(t) {
		p := l.Policy
		if p.Capacity == 0 || p.Kind == runtime.InFlight { // whose holders renew their slots
			continue
		}
		most, waits := bounds.NextAfter(&p), []time.Duration{}
		rule, state := meter.RuleOf(&p, "key"), runtime.State{}
		at := rule.Phase + 5*rule.Period
		for at < 1<<61 && len(waits) < 100 {
			taken := takeAll(t, &rule, &state, at)
			_, d, err := rule.Step(state, at, runtime.Request{Op: runtime.Check, Count: 1})
			require.NoError(t, err)
			waits = append(waits, d.RetryAfter)
			at += int64(d.RetryAfter) + random.Int64N(3)*random.Int64N(rule.Period)
			if taken > 1 { // take a part now, so that the rest is taken at another time of the window
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

// The sentences about reservations agree with a store, for sharded limits too.
func TestReservingAgreesWithStore(t *testing.T) {
	for _, l := range limitsForTest(t) {
		p := l.Policy
		if !p.Reserves() {
			continue
		}
		p.Mode = runtime.ModeEnforce // the sentences begin with "If it were enforced"
		store := &memstore.Store{Clock: func() time.Time { return time.Unix(0, bounds.LongestWindow(&p)) }}
		decide := func(q runtime.Request) runtime.Decision {
			q.Policy, q.Zone, q.Anniversary = &p, time.UTC, runtime.Date{Year: 1970, Month: time.January, Day: 1}
			answers, err := store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{q}}})
			require.NoError(t, err)
			require.NoError(t, answers[0].Err)
			return answers[0].Decisions[0]
		}
		sentences := reserving(&p, false)
		first := decide(runtime.Request{Count: p.Capacity + min(p.Rate, p.MaxReserved), Reserve: true})
		require.True(t, first.Allowed)
		assert.True(t, strings.HasSuffix(sentences[0], " is allowed, with Delay "+words.Length(first.UsableAfter)+"."), sentences[0])
		next := decide(runtime.Request{Op: runtime.Check, Count: 1, Reserve: true})
		assert.Equal(t, next.Allowed, strings.HasSuffix(sentences[1], " is allowed, with Delay "+words.Length(next.UsableAfter)+"."), sentences[1])
		assert.Equal(t, !next.Allowed, strings.HasSuffix(sentences[1], " is denied, with RetryAfter "+words.Length(next.RetryAfter)+"."), sentences[1])
		if p.Capacity == 0 {
			assert.Len(t, sentences, 2)
			continue
		}
		plain := decide(runtime.Request{Op: runtime.Check, Count: 1})
		require.False(t, plain.Allowed)
		assert.True(t, strings.HasSuffix(sentences[2], " is denied, with RetryAfter "+words.Length(plain.RetryAfter)+"."), sentences[2])
	}
}

// Why nothing can be reserved, and that calls are denied instead only if the limit denies.
func TestLimitsWithoutReservationsSayWhy(t *testing.T) {
	for _, row := range []struct {
		policy runtime.Policy
		want   string
	}{
		{runtime.Policy{Kind: runtime.TokenBucket}, "maxReserved is 0, so nothing can be reserved: a call that finds too few tokens is denied."},
		{runtime.Policy{Kind: runtime.SlidingWindow}, "A sliding window has no reservations: a call that finds too few tokens is denied."},
		{runtime.Policy{Kind: runtime.FixedWindow, Mode: runtime.ModeShadow}, "maxReserved is 0, so nothing can be reserved."},
	} {
		assert.Equal(t, []string{row.want}, reserving(&row.policy, false))
	}
}

func TestShardsAreDescribedWithTheirParts(t *testing.T) {
	p := runtime.Policy{Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 20, MaxReserved: 7, Shards: 3}
	const choice = ". A call takes from one of them, or from all of them if that has too few tokens."
	assert.Equal(t, "Each of the 3 shards has 3 or 4 per minute, 6 or 7 at once and 2 or 3 reserved ahead"+choice, shards(&p))
	p.Rate, p.Capacity, p.MaxReserved = 3000, 0, runtime.Unbounded
	assert.Equal(t, "Each of the 3 shards has 1,000 per minute"+choice, shards(&p))
}

func TestCallHasEachParameterOfTheMethod(t *testing.T) {
	file, ds := fields.Parse("limits.yaml", []byte(`version: 1
plans: [free, pro]
limits:
  exports: {key: {org: int64}, kind: fixed window, rate: {free: 1, pro: 5}, period: month, zone: per key, start: anniversary}
`))
	require.Empty(t, ds)
	var out bytes.Buffer
	require.NoError(t, WriteTerminal(&out, []Page{Limit("limits.yaml", file.Limits[0], time.Time{})}, render.Options{}))
	assert.Contains(t, out.String(), "limit.Exports(org, anniversary, zone, plan).Allow(ctx)")
}

// pages returns every page of every limit, field and id.
func pages(t *testing.T, color bool) (all string) {
	t.Helper()
	var out bytes.Buffer
	limits := append(limitsForTest(t), limitsByPlan(t)...)
	for _, l := range limits {
		require.NoError(t, WriteTerminal(&out, []Page{Limit("limits.yaml", l, time.Time{})}, render.Options{Color: color}))
	}
	for _, w := range vocabulary() {
		require.NoError(t, WriteTerminal(&out, []Page{w.page("ratelimitgen")}, render.Options{Color: color}))
	}
	require.NoError(t, WriteTerminal(&out, []Page{List(&spec.File{Limits: limits}, "ratelimitgen")}, render.Options{Color: color}))
	return out.String()
}

// fileLine matches the lines of files, and the carets below them.
var fileLine = regexp.MustCompile(`^    .*(\{.*\}$|  \|  )`)

// Only lines of files, which are not wrapped, may be wider than a terminal. Colors change nothing but colors.
func TestPagesFitATerminal(t *testing.T) {
	plain := pages(t, false)
	assert.Equal(t, plain, regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(pages(t, true), ""))
	for line := range strings.Lines(plain) {
		line = strings.TrimSuffix(line, "\n")
		assert.Equal(t, strings.TrimRight(line, " "), line)
		if !fileLine.MatchString(line) {
			assert.LessOrEqual(t, cells.Of(line), cells.Line, line)
		}
	}
}

// The page of an id contains the id: in the title, and in the output of check or diff for its example.
func TestExampleOfAnIDHasTheID(t *testing.T) {
	all := vocabulary()[len(fields.Fields()):]
	require.Len(t, all, len(ids.Rules())+len(ids.Changes())+len(terms))
	for _, w := range all {
		id := w.text
		var out bytes.Buffer
		sort, pages := Word(id, "ratelimitgen")
		assert.Equal(t, "an id", sort)
		require.NoError(t, WriteTerminal(&out, pages, render.Options{}))
		if slices.ContainsFunc(terms, func(x term) bool { return x.word == id }) {
			assert.True(t, strings.HasPrefix(out.String(), id+": "), out.String())
			continue
		}
		assert.True(t, strings.HasPrefix(out.String(), id+": a"), out.String())
		if id != "file-too-large" && id != "name-too-long" {
			assert.Contains(t, out.String(), "["+id+"]")
		}
	}
}

// A review prints classes of changes and labels of notes.
func TestEveryWordOfAReviewIsExplained(t *testing.T) {
	for _, class := range review.Classes() {
		var out bytes.Buffer
		_, pages := Word(string(class), "ratelimitgen")
		require.NoError(t, WriteTerminal(&out, pages, render.Options{}))
		assert.Regexp(t, `(?m)^ *ratelimitgen explain [a-z-]+$`, out.String())
	}
	for _, word := range []string{review.Rule, review.Calls, review.Deploy, "sql", "notice", "warning", "error"} {
		assert.Contains(t, Words(), word)
	}
}

// The explain command takes a word without its category.
// Commands on a page are pasted as they stand, to the end of the line.
func TestCommandsOnPagesExplainSomething(t *testing.T) {
	command := regexp.MustCompile(`(?m)^\s*(?:[a-z]+: +)?ratelimitgen explain (\S+)$`)
	commands := 0
	for _, word := range Words() {
		_, pages := Word(word, "ratelimitgen")
		var out bytes.Buffer
		require.NoError(t, WriteTerminal(&out, pages, render.Options{}))
		require.NotContains(t, out.String(), "ratelimitgen explain "+word, "a page refers to itself")
		for _, m := range command.FindAllStringSubmatch(out.String(), -1) {
			commands++
			_, found := Word(m[1], "ratelimitgen")
			require.NotEmpty(t, found, "%s: %s", word, m[0])
		}
		require.Len(t, command.FindAllString(out.String(), -1), strings.Count(out.String(), "ratelimitgen explain "), word)
	}
	require.Greater(t, commands, 50)
}

func TestNoFieldHasTheNameOfAnID(t *testing.T) {
	sorts := map[string]string{}
	for _, w := range vocabulary() {
		assert.Contains(t, []string{"", w.sort}, sorts[w.text], w.text)
		sorts[w.text] = w.sort
	}
	sort, pages := Word("nonsense", "ratelimitgen")
	assert.Empty(t, sort)
	assert.Empty(t, pages)
}

func TestFieldPageHasTheReferenceAndItsExample(t *testing.T) {
	for _, f := range fields.Fields() {
		var out bytes.Buffer
		sort, pages := Word(f.Name, "ratelimitgen")
		assert.Equal(t, "a field", sort)
		require.NoError(t, WriteTerminal(&out, pages, render.Options{}))
		page := strings.Join(strings.Fields(out.String()), " ")
		// A limit may have a field of the same name as a group or overrides: then the page has both.
		required := slices.ContainsFunc(fields.Fields(), func(o fields.Field) bool { return o.Name == f.Name && o.Required })
		assert.Contains(t, page, f.Name+": a field of "+f.Of+" meaning: "+f.Meaning+" write: "+f.Accepts)
		assert.Contains(t, page, f.Absent)
		assert.Equal(t, required, strings.Contains(page, "default: none, required"), page)
		assert.Contains(t, page+" ", " example: "+f.Example+" ")
	}
}

func limitOf(t *testing.T, p runtime.Policy) *spec.Limit {
	t.Helper()
	l, err := spec.NewLimit(p, spec.Limit{})
	require.NoError(t, err)
	return l
}

func TestHostileTextIsEscaped(t *testing.T) {
	var out bytes.Buffer
	l := limitOf(t, runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 1, Period: 1, Capacity: 1})
	l.Doc = "a\x1b[31m\u202e\xffb\nc"
	require.NoError(t, WriteTerminal(&out, []Page{Limit("a\x1b[31mb.yaml", l, time.Time{})}, render.Options{}))
	assert.Contains(t, out.String(), `a\x1b[31mb.yaml:0:0: limit`)
	assert.Contains(t, out.String(), `doc: a\x1b[31m\u202e\xffb c`)
}

// A key that has used its whole rate is full after a period, even where a float64 rounds the rate.
func TestFullAfterIsExactForLargeRates(t *testing.T) {
	for _, rate := range []int64{700_000_000_000, 999_999_999_999_989} {
		day := runtime.Policy{Name: "day", Kind: runtime.FixedWindow, Rate: rate, Period: 24 * time.Hour, Capacity: rate, Start: runtime.StartOffset(0)}
		hour := runtime.Policy{Name: "hour", Kind: runtime.TokenBucket, Rate: rate, Period: time.Hour, Capacity: rate}
		for text, p := range map[string]runtime.Policy{"full after  1d  when empty": day, "full after  1h  when empty": hour} {
			var out bytes.Buffer
			require.NoError(t, WriteTerminal(&out, []Page{Limit("limits.yaml", limitOf(t, p), time.Time{})}, render.Options{}))
			assert.Contains(t, strings.Join(strings.Fields(out.String()), " "), strings.Join(strings.Fields(text), " "))
		}
	}
}

// notExplained has the fields of runtime.Policy that need no words on the page of a limit, each with the reason.
var notExplained = map[string]string{
	"Priority.Name":   "of the policy of a class, which the runtime makes: the limit has a sentence for each class",
	"Priority.Leaves": "of the policy of a class, which the runtime makes: the limit has a sentence for each class",
}

func TestEveryPolicyFieldChangesThePage(t *testing.T) {
	base := runtime.Policy{
		Name: "send", Kind: runtime.FixedWindow, Rate: 10, Period: time.Minute, Capacity: 20, MaxReserved: 5, Shards: 2,
		Lease: runtime.Lease{Tokens: 3, For: time.Second},
	}
	page := func(p runtime.Policy) string {
		var out bytes.Buffer
		l := limitOf(t, base)
		l.Policy, l.GoName = p, "Send"
		require.NoError(t, WriteTerminal(&out, []Page{Limit("limits.yaml", l, time.Time{})}, render.Options{}))
		return out.String()
	}
	calendar := base
	calendar.Calendar = runtime.Calendar{Unit: runtime.Month, Count: 2, Zone: "UTC", From: runtime.Date{Year: 2024, Month: time.April, Day: 6}}
	calendar.Period = calendar.Calendar.Period()
	for _, name := range fieldNames(reflect.TypeFor[runtime.Policy](), "") {
		if notExplained[name] != "" {
			continue
		}
		edited := base
		if strings.HasPrefix(name, "Calendar.") {
			edited = calendar
		}
		if strings.HasSuffix(name, "Slots") || name == "Hold" {
			edited = runtime.Policy{Name: "send", Kind: runtime.InFlight, Slots: 10, Hold: time.Minute}
		}
		if strings.HasPrefix(name, "Overrides.") {
			edited.Overrides = runtime.OverrideBounds{Rate: 50, Capacity: 50, MaxReserved: 50}
			if edited.Kind == runtime.InFlight {
				edited.Overrides = runtime.OverrideBounds{Slots: 50}
			}
		}
		before := page(edited)
		editField(t, &edited, name)
		assert.True(t, before != page(edited), "explain prints the same for every value of runtime.Policy.%s: "+
			"add a sentence to Limit.Words in gen/spec or a section to Limit, or a reason to notExplained", name)
	}
}

func TestEveryChangeOfALimitChangesThePage(t *testing.T) {
	page := func(text string) string {
		file, diagnostics := fields.Parse("limits.yaml", []byte(text))
		require.Empty(t, diagnostics)
		var out bytes.Buffer
		for _, l := range file.Limits {
			require.NoError(t, WriteTerminal(&out, []Page{Limit(file.Name, l, time.Time{})}, render.Options{}))
		}
		return out.String()
	}
	ofFile := []*ids.Meaning{ids.PackageChanged, ids.PlansChanged}
	for _, kind := range ids.Changes() {
		if !slices.Contains(ofFile, kind) && !strings.HasPrefix(kind.ID, "group-") {
			assert.True(t, page(kind.Before) != page(kind.After), "explain prints the same on both sides of %s: add a section to Limit in gen/explain/limit.go", kind.ID)
		}
	}
}

// fieldNames returns the paths of the exported fields of a struct type: "Lease.Tokens".
func fieldNames(typ reflect.Type, prefix string) (names []string) {
	for _, f := range reflect.VisibleFields(typ) {
		var inner []string
		if f.Type.Kind() == reflect.Struct {
			inner = fieldNames(f.Type, prefix+f.Name+".")
		}
		switch {
		case !f.IsExported():
		case len(inner) > 0:
			names = append(names, inner...)
		default:
			names = append(names, prefix+f.Name)
		}
	}
	return names
}

// editField gives a field another value.
func editField(t *testing.T, p *runtime.Policy, name string) {
	t.Helper()
	switch name {
	case "Kind":
		p.Kind = runtime.TokenBucket
		return
	case "Start":
		p.Start = runtime.StartOffset(time.Second)
		return
	case "Calendar.Zone":
		p.Calendar.Zone = "Europe/Berlin"
		return
	case "Penalty.Steps":
		p.Penalty = runtime.PenaltyOf(0, time.Hour)
		return
	case "Penalty.Forgive":
		p.Penalty = runtime.PenaltyOf(time.Hour, time.Minute, time.Hour)
		return
	case "Calendar.At":
		p.Calendar.At = time.Hour
		return
	}
	field := reflect.ValueOf(p).Elem()
	for part := range strings.SplitSeq(name, ".") {
		field = field.FieldByName(part)
	}
	switch {
	case field.CanInt():
		field.SetInt(field.Int() + 1)
	case field.CanUint():
		field.SetUint(field.Uint() + 1)
	case field.Kind() == reflect.String:
		field.SetString(field.String() + "2")
	case field.Kind() == reflect.Bool:
		field.SetBool(!field.Bool())
	default:
		require.Fail(t, "add a case with another value of runtime.Policy."+name+" to editField")
	}
}

// A kind that grantsWholePeriods does not list would be explained as one of the others.
func TestEveryKindIsExplainedAndNoOther(t *testing.T) {
	for _, kind := range runtime.Kinds() {
		assert.NotPanics(t, func() { grantsWholePeriods(kind) }, "add %v to grantsWholePeriods", kind)
	}
	for _, kind := range []runtime.Kind{0, runtime.Kinds()[len(runtime.Kinds())-1] + 1, 255} {
		assert.Panics(t, func() { grantsWholePeriods(kind) })
	}
}

// limitsByPlan returns the limits in testdata that depend on the plan.
func limitsByPlan(t *testing.T) (limits []*spec.Limit) {
	t.Helper()
	text, err := os.ReadFile("../../testdata/spec/good/plans.yaml")
	require.NoError(t, err)
	file, diagnostics := fields.Parse("plans.yaml", text)
	require.Empty(t, diagnostics)
	for _, l := range file.Limits {
		if len(l.Plans) > 0 {
			limits = append(limits, l)
		}
	}
	require.NotEmpty(t, limits)
	return limits
}

// The table of a limit with plans has each number of each plan in the plan's column.
func TestTableOfPlansHasTheNumbersOfEachPlan(t *testing.T) {
	for _, l := range limitsByPlan(t) {
		table := planTable(l.Plans)
		require.Equal(t, l.PlanNames(), table.Head[1:])
		for i, of := range l.Plans {
			var printed, want []string
			for _, row := range table.Rows {
				if row[i+1] != "" {
					printed = append(printed, row[0]+": "+row[i+1])
				}
			}
			for _, n := range planNumbers(of) {
				want = append(want, strings.TrimSuffix(n.Name+", "+n.when, ", ")+": "+n.text())
			}
			assert.Equal(t, want, printed, of.Plan)
		}
	}
}

// The table of plans says that its numbers apply if the limit is enforced. A blocked unlimited plan has no numbers.
func TestTableOfPlansHasTheConditionOfTheMode(t *testing.T) {
	for _, mode := range []string{"shadow", "off", "block"} {
		file, ds := fields.Parse("limits.yaml", []byte(ids.Planned("rate: {free: 10, pro: unlimited}", "mode: "+mode, "maxReserved: {free: 5}")))
		require.Empty(t, ds)
		var out bytes.Buffer
		require.NoError(t, WriteTerminal(&out, []Page{Limit("limits.yaml", file.Limits[0], time.Time{})}, render.Options{}))
		assert.Contains(t, out.String(), "if it were enforced, at most, for all callers together:")
		assert.NotContains(t, out.String(), "reserving, plan pro")
		assert.Equal(t, 1, strings.Count(out.String(), "25 in any"), out.String())
		out.Reset()
		require.NoError(t, WriteTerminal(&out, []Page{List(file, "ratelimitgen")}, render.Options{}))
		assert.Contains(t, out.String(), "pro: unlimited")
	}
}

// A penalty can last longer than the time until the next token.
func TestDeniedNamesThePenalty(t *testing.T) {
	p := runtime.Policy{Kind: runtime.TokenBucket, Rate: 1, Period: time.Minute, Capacity: 1, Penalty: runtime.PenaltyOf(0, time.Hour)}
	assert.Equal(t, "After 1 token, one user is denied until the next token, for at most 1m, or until the penalty ends, if that is later; others are not affected.",
		denied(&p, []string{"user"}))
	p = runtime.Policy{Kind: runtime.InFlight, Slots: 1, Hold: time.Minute, Penalty: p.Penalty}
	assert.Equal(t, "While the slot is in use, everybody is denied until one is released, for at most 1m if none of their holders renews, "+
		"or until the penalty ends, if that is later.", denied(&p, nil))
}

// More plans than fit side by side are in tables below one another, each with the rows of its plans.
func TestWideTableIsCutIntoColumns(t *testing.T) {
	var out bytes.Buffer
	table := Table{
		Head:  []string{"", "a", "b", "c", "d", "e"},
		Rows:  [][]string{{"at once", "1", "2", "3", "4", "5"}, {"full after", "", "1h", "", "", ""}},
		align: "lrrrrr",
	}
	require.NoError(t, WriteTerminal(&out, []Page{Page{Sections: []Section{{Label: "at most", Table: table}}}}, render.Options{}))
	assert.Equal(t, `  at most:
                a   b  c  d
    at once     1   2  3  4
    full after     1h
             e
    at once  5
`, out.String())
}

// A line that a command prints is wrapped when it is wider than the terminal, and otherwise as it was, with its indentation.
func TestLinesAreWrappedOnlyIfTheyAreTooWide(t *testing.T) {
	fits := "  " + strings.Repeat("word ", 14) + "last"
	require.Equal(t, cells.Line, cells.Of(indent+fits))
	var out strings.Builder
	require.NoError(t, WriteTerminal(&out, []Page{Page{Sections: []Section{{Label: "diff prints", Lines: []string{fits, fits + "s", "end"}}}}}, render.Options{}))
	assert.Equal(t, "\n  diff prints:\n"+indent+fits+"\n"+
		indent+strings.TrimSpace(strings.TrimSuffix(fits, "last"))+"\n"+indent+"  lasts\n"+indent+"end\n", out.String())
}

// Those who run the program by go tool have no ratelimitgen in PATH.
func TestPagesNameTheProgramAsItWasStarted(t *testing.T) {
	const program = "go tool ratelimitgen"
	_, pages := Word("loosened", program)
	pages = append(pages, List(&spec.File{}, program))
	for _, p := range pages {
		var out bytes.Buffer
		require.NoError(t, WriteTerminal(&out, []Page{p}, render.Options{}))
		assert.Contains(t, out.String(), program+" explain ")
		assert.Equal(t, strings.Count(out.String(), "ratelimitgen explain"), strings.Count(out.String(), program+" explain"))
	}
}
