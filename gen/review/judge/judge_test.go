package judge

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/diff"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

func TestEveryChangeIsJudged(t *testing.T) {
	for _, change := range ids.Changes() {
		assert.Contains(t, judges, change, "add a function for this id to judges in gen/review/judge/examine.go")
		r := Review(parse(t, "old", change.Before), parse(t, "new", change.After))
		require.NotEmpty(t, r.Subjects, change.ID)
		for _, s := range r.Subjects {
			for _, f := range s.Findings {
				for _, c := range f.Changes {
					for _, side := range []diff.Side{c.Old, c.New} {
						assert.True(t, side.Value == "" || side.Pos.Line > 0,
							"%s: the side %q has no Pos, so that JSON leaves it out: set it in gen/diff/side.go", change.ID, side.Value)
					}
				}
			}
		}
	}
	assert.Len(t, judges, len(ids.Changes()), "judges in gen/review/judge/examine.go has kinds that ids.Changes does not have")
	assert.PanicsWithValue(t, `review: changes with the id "x" are not judged: add a function to judges in gen/review/judge/examine.go`, func() {
		judgementOn(compare.Pair{}, []diff.Change{{Kind: &ids.Meaning{ID: "x"}}}, diff.Renames{})
	})
}

// edits has for each field of a limit an edit that changes only this field.
var edits = map[string][2]string{
	"Policy.Name":                  {"send: {goName: Send, kind: token bucket, rate: 60, period: 1m}", "post: {goName: Send, kind: token bucket, rate: 60, period: 1m}"},
	"Policy.Kind":                  {"send: {kind: token bucket, rate: 60, period: 1m}", "send: {kind: fixed window, rate: 60, period: 1m}"},
	"Policy.Rate":                  {"send: {kind: token bucket, rate: 60, period: 1m}", "send: {kind: token bucket, rate: 30, period: 1m, capacity: 60}"},
	"Policy.AtMost.Unlimited":      {"send: {kind: token bucket, rate: {at most: 1_000_000_000_000_000}, period: 1m}", "send: {kind: token bucket, rate: {at most: unlimited}, period: 1m}"},
	"Policy.Period":                {"send: {kind: token bucket, rate: 60, period: 1m}", "send: {kind: token bucket, rate: 60, period: 2m}"},
	"Policy.Capacity":              {"send: {kind: token bucket, rate: 60, period: 1m}", "send: {kind: token bucket, rate: 60, period: 1m, capacity: 30}"},
	"Policy.MaxReserved":           {"send: {kind: token bucket, rate: 60, period: 1m}", "send: {kind: token bucket, rate: 60, period: 1m, maxReserved: 30}"},
	"Policy.Slots":                 {"send: {kind: in flight, capacity: 5, hold: 1m}", "send: {kind: in flight, capacity: 3, hold: 1m}"},
	"Policy.Hold":                  {"send: {kind: in flight, capacity: 5, hold: 1m}", "send: {kind: in flight, capacity: 5, hold: 2m}"},
	"Policy.Start":                 {"send: {kind: fixed window, rate: 60, period: 1d, start: 0s}", "send: {kind: fixed window, rate: 60, period: 1d, start: 6h}"},
	"Policy.Shards":                {"send: {kind: token bucket, rate: 60, period: 1m}", "send: {kind: token bucket, rate: 60, period: 1m, shards: 2}"},
	"Policy.Timeout":               {"send: {kind: token bucket, rate: 60, period: 1m}", "send: {kind: token bucket, rate: 60, period: 1m, timeout: 1s}"},
	"Policy.OnError":               {"send: {kind: token bucket, rate: 60, period: 1m}", "send: {kind: token bucket, rate: 60, period: 1m, onError: open}"},
	"Policy.Jitter":                {"send: {kind: token bucket, rate: 60, period: 1m}", "send: {kind: token bucket, rate: 60, period: 1m, jitter: 10s}"},
	"Policy.Penalty.Steps":         {"send: {kind: token bucket, rate: 60, period: 1m}", "send: {kind: token bucket, rate: 60, period: 1m, penalty: 15m}"},
	"Policy.Penalty.Forgive":       {"send: {kind: token bucket, rate: 60, period: 1m, penalty: [1m, 1h]}", "send: {kind: token bucket, rate: 60, period: 1m, penalty: [1m, 1h], forgive: 1d}"},
	"Policy.DenyCache":             {"send: {kind: token bucket, rate: 60, period: 1m}", "send: {kind: token bucket, rate: 60, period: 1m, denyCache: 1s}"},
	"Policy.Lease.Tokens":          {"send: {kind: token bucket, rate: 60, period: 1m, lease: {tokens: 5, for: 1s}}", "send: {kind: token bucket, rate: 60, period: 1m, lease: {tokens: 9, for: 1s}}"},
	"Policy.Lease.For":             {"send: {kind: token bucket, rate: 60, period: 1m, lease: {tokens: 5, for: 1s}}", "send: {kind: token bucket, rate: 60, period: 1m, lease: {tokens: 5, for: 2s}}"},
	"Policy.Overrides.Rate":        {"send: {kind: token bucket, rate: 60, period: 1m, overrides: {capacity: 90}}", "send: {kind: token bucket, rate: 60, period: 1m, overrides: {rate: 80, capacity: 90}}"},
	"Policy.Overrides.Capacity":    {"send: {kind: token bucket, rate: 60, period: 1m, overrides: {}}", "send: {kind: token bucket, rate: 60, period: 1m, overrides: {capacity: 90}}"},
	"Policy.Overrides.MaxReserved": {"send: {kind: token bucket, rate: 60, period: 1m, maxReserved: 5, overrides: {}}", "send: {kind: token bucket, rate: 60, period: 1m, maxReserved: 5, overrides: {maxReserved: 50}}"},
	"Policy.Overrides.Unlimited":   {"send: {kind: token bucket, rate: 60, period: 1m, overrides: {rate: 1_000_000_000_000_000}}", "send: {kind: token bucket, rate: 60, period: 1m, overrides: {rate: unlimited}}"},
	"Policy.Overrides.Slots":       {"send: {kind: in flight, capacity: 5, hold: 1m, overrides: {}}", "send: {kind: in flight, capacity: 5, hold: 1m, overrides: {capacity: 9}}"},
	"Policy.AtMost.Slots":          {"send: {kind: in flight, capacity: 5, hold: 1m}", "send: {kind: in flight, capacity: {at most: 5}, hold: 1m}"},
	"Policy.AtMost.Rate":           {"send: {kind: token bucket, rate: 60, capacity: 60, maxReserved: 9, period: 1m}", "send: {kind: token bucket, rate: {at most: 60}, capacity: 60, maxReserved: 9, period: 1m}"},
	"Policy.AtMost.Capacity":       {"send: {kind: token bucket, rate: 60, capacity: 60, maxReserved: 9, period: 1m}", "send: {kind: token bucket, rate: 60, capacity: {at most: 60}, maxReserved: 9, period: 1m}"},
	"Policy.AtMost.MaxReserved":    {"send: {kind: token bucket, rate: 60, capacity: 60, maxReserved: 9, period: 1m}", "send: {kind: token bucket, rate: 60, capacity: 60, maxReserved: {at most: 9}, period: 1m}"},
	"Policy.Mode":                  {"send: {kind: token bucket, rate: 60, period: 1m}", "send: {kind: token bucket, rate: 60, period: 1m, mode: shadow}"},
	"Policy.Durability":            {"send: {kind: token bucket, rate: 60, period: 1m}", "send: {kind: token bucket, rate: 60, period: 1m, durability: full}"},
	"Plans":                        {"send: {kind: token bucket, rate: {free: 60, pro: 100}, period: 1m}\nplans: [free, pro]", "send: {kind: token bucket, rate: {free: 60, pro: 200}, period: 1m}\nplans: [free, pro]"},
	"Prices":                       {"send: {kind: token bucket, rate: 60, period: 1m}", "send: {kind: token bucket, rate: 60, period: 1m, prices: {input: 3}}"},
	"Exceptions":                   {"send: {kind: token bucket, rate: 60, period: 1m, key: userID}", "send: {kind: token bucket, rate: 60, period: 1m, key: userID, exceptions: [{userID: ann, rate: 90, reason: contract}]}"},
	"Priorities":                   {"send: {kind: token bucket, rate: 60, period: 1m, priorities: {a: 0%, b: 30%}}", "send: {kind: token bucket, rate: 60, period: 1m, priorities: {a: 0%, b: 40%}}"},
	"GoName":                       {"send: {kind: token bucket, rate: 60, period: 1m}", "send: {kind: token bucket, rate: 60, period: 1m, goName: Post}"},
	"Key":                          {"send: {kind: token bucket, rate: 60, period: 1m}", "send: {kind: token bucket, rate: 60, period: 1m, key: userID}"},
	"Policy.Precise":               {"send: {kind: sliding window, rate: 60, period: 1m}", "send: {kind: sliding window, rate: 60, period: 1m, precise: true}"},
	"Policy.Calendar.Zone":         calendarEdit("period: month, zone: UTC", "period: month, zone: Europe/Berlin"),
	"Policy.Calendar.From.Year":    calendarEdit("period: 2 years, zone: UTC, start: 2024-04-06", "period: 2 years, zone: UTC, start: 2025-04-06"),
	"Policy.Calendar.From.Month":   calendarEdit("period: year, zone: UTC, start: april 6th", "period: year, zone: UTC, start: may 6th"),
	"Policy.Calendar.From.Day":     calendarEdit("period: month, zone: UTC, start: 15th", "period: month, zone: UTC, start: 16th"),
	"Policy.Calendar.Anniversary":  calendarEdit("period: month, zone: UTC", "period: month, zone: UTC, start: anniversary"),
	"Policy.Calendar.At":           calendarEdit("period: day, zone: UTC", "period: day, zone: UTC, start: 06:00"),
}

func calendarEdit(old, new string) [2]string {
	const head = "send: {key: userID, kind: fixed window, rate: 60, "
	return [2]string{head + old + "}", head + new + "}"}
}

// notJudged has the fields of a limit that need no verdict, with the reason.
var notJudged = map[string]string{
	"Doc":                        "its change is cosmetic: the review prints both texts, and they have no other effect",
	"UnlimitedRate":              "of an element of Plans, which is compared",
	"Overrides":                  "the numbers that are given: Policy.Overrides has the effective ones, which are judged",
	"Plan":                       "of an element of Plans, which is compared",
	"Pos":                        "a position in the file, which is not compared",
	"CapacityGiven":              "whether the capacity follows the rate: the capacity is judged",
	"ByDefault":                  "whether the limit or the defaults of the file give a value: the value in force is judged",
	"Places":                     "positions in the file, which are not compared",
	"Policy.Priority.Name":       "of the policy of a class, which the runtime makes: Priorities are judged",
	"Policy.Priority.Leaves":     "of the policy of a class, which the runtime makes: Priorities are judged",
	"Policy.Calendar.Unit":       "the period, which is judged, changes with it",
	"Policy.Calendar.Count":      "the period, which is judged, changes with it",
	"Policy.Calendar.ZonePerKey": "the zone, which is judged, changes with it",
}

func TestEveryFieldOfALimitIsJudged(t *testing.T) {
	const howTo = "%s is a new field of a limit: add an edit that changes only this field to edits in gen/review/judge/judge_test.go. " +
		"The edit needs an id in gen/ids (changes.go), a function for the id in judges (gen/review/judge/examine.go), and cases in testdata/review. " +
		"If an edit of the field needs no verdict, add it to notJudged with the reason."
	fields := fieldValues(&spec.Limit{})
	for name := range fields {
		_, hasEdit := edits[name]
		assert.True(t, hasEdit || notJudged[name] != "", howTo, name)
	}
	for name := range edits {
		assert.Contains(t, fields, name, "edits in gen/review/judge/judge_test.go has a field that a limit does not have")
	}
	for name, edit := range edits {
		const head = "version: 1\nlimits:\n  "
		old, new := parse(t, "old", head+edit[0]+"\n"), parse(t, "new", head+edit[1]+"\n")
		was, is := fieldValues(old.Limits[0]), fieldValues(new.Limits[0])
		for field := range fields {
			if notJudged[field] == "" {
				assert.Equal(t, field != name, reflect.DeepEqual(was[field], is[field]), "the edit of %s must change only this field: %s", name, field)
			}
		}
		there, back := Review(old, new), Review(new, old)
		require.Len(t, there.Subjects, 1, name)
		require.Len(t, back.Subjects, 1, name)
		assert.NotContains(t, there.Subjects[0].Classes(), review.Cosmetic, "%s has no verdict: its function in judges must add a class", name)
		assert.NotContains(t, back.Subjects[0].Classes(), review.Cosmetic, "the edit of %s in reverse has no verdict: its function in judges must add a class", name)
		assert.NotEmpty(t, there.Subjects[0].Notes, "%s has no sentence: its function in judges must add a note", name)
	}
}

// fieldValues returns the fields of a limit by name, and those of nested structs if all of them are exported.
func fieldValues(limit *spec.Limit) map[string]any {
	values := map[string]any{}
	var add func(name string, value reflect.Value)
	add = func(name string, value reflect.Value) {
		for i := range value.NumField() {
			field, inner := value.Type().Field(i), value.Field(i)
			if field.Anonymous {
				add(name, inner)
				continue
			}
			if !field.IsExported() {
				continue // which the runtime sets
			}
			if inner.Kind() == reflect.Struct && inner.NumField() > 0 && inner.Type().Field(0).IsExported() && field.Name != "Pos" {
				add(name+field.Name+".", inner)
				continue
			}
			values[name+field.Name] = inner.Interface()
		}
	}
	add("", reflect.ValueOf(limit).Elem())
	return values
}

// Without an entry, the sql command prints no statements that convert the keys of a database.
func TestEveryDialectConvertsKeys(t *testing.T) {
	for _, d := range dialect.All() {
		of := slices.DeleteFunc(slices.Clone(keyDialects), func(k keyDialect) bool { return !slices.Contains(k.dialects, d.String()) })
		assert.Len(t, of, 1, "%s must be in one entry of keyDialects in gen/review/judge/overrides.go", d)
	}
}

func TestEveryPairOfKindsIsJudged(t *testing.T) {
	limit := func(kind runtime.Kind, rate int64) *spec.Limit {
		return limitOf(slotted(runtime.Policy{Name: "limit", Kind: kind, Rate: rate, Capacity: rate, Period: time.Minute}), true)
	}
	for _, old := range runtime.Kinds() {
		require.Contains(t, compare.TraitsByKind, old, "add the kind %v to TraitsByKind in gen/review/compare/kinds.go", old)
		of := compare.TraitsByKind[old]
		require.True(t, of.LongRun != nil && of.Exhausted != nil && of.Views != nil && of.NewRate != "" && (of.NewWindows != "") == old.Windowed(),
			"fill in all traits of the kind %v in gen/review/compare/kinds.go", old)
		s := subjectOfPair(limit(old, 60), limit(old, 30))
		assert.Contains(t, s.Classes(), review.Tightened, old)
		if old != runtime.InFlight { // which has no rate
			assert.Contains(t, s.Notes, review.Note{About: review.Deploy, Text: of.NewRate})
		}
		for _, new := range runtime.Kinds() {
			if old == new {
				continue
			}
			sentence := compare.RowsReadAs(compare.Pair{Old: limit(old, 60), New: limit(new, 60)})
			require.NotEmpty(t, sentence, "add a sentence on how rows of %v are read as %v to newKind in gen/review/compare/kinds.go", old, new)
			s := subjectOfPair(limit(old, 60), limit(new, 60))
			assert.Contains(t, s.Classes(), review.StoredState)
			assert.Contains(t, s.Notes, review.Note{About: review.Deploy, Text: sentence})
		}
	}
	assert.Panics(t, func() { compare.TraitsOf(&runtime.Policy{Kind: 99}) }, "an unknown kind must not be treated like another one")
}

func reviewed(t *testing.T, old, new string) *review.Subject {
	t.Helper()
	head := "version: 1\nlimits:\n  send: {"
	r := Review(parse(t, "old", head+old+"}\n"), parse(t, "new", head+new+"}\n"))
	require.Len(t, r.Subjects, 1)
	return &r.Subjects[0]
}

func TestClassesOfEdits(t *testing.T) {
	const window, bucket = "kind: fixed window, ", "kind: token bucket, "
	for _, test := range []struct {
		name, old, new string
		want           []review.Class
		note           string
	}{
		{
			"between the lengths that are printed", window + "start: first use, capacity: 0, rate: 5, period: 30m, maxReserved: 5",
			window + "start: first use, capacity: 0, rate: 8, period: 50m, maxReserved: 8", []review.Class{review.Loosened, review.Tightened, review.StoredState}, "",
		},
		{
			"all numbers fall though a field rises", bucket + "rate: 10, period: 1m, capacity: 20, maxReserved: 10",
			bucket + "rate: 5, period: 1m, capacity: 5, maxReserved: 12", []review.Class{review.Tightened}, "",
		},
		{
			"a rise that another field takes back", bucket + "rate: 10, period: 1m, capacity: 20, maxReserved: 0",
			bucket + "rate: 20, period: 4m, capacity: 10, maxReserved: 0", []review.Class{review.Tightened}, "",
		},
		{
			"short and long", bucket + "rate: 10, period: 1m, capacity: 10, maxReserved: 0",
			bucket + "rate: 5, period: 1m, capacity: 11, maxReserved: 0", []review.Class{review.Loosened, review.Tightened},
			`^The limit is looser in intervals of up to about 6s, and tighter in longer ones\.$`,
		},
		{
			"reservations that a lease exceeds", bucket + "rate: 10, period: 1m, maxReserved: 2, lease: {tokens: 5, for: 1m}",
			bucket + "rate: 10, period: 1m, maxReserved: 3, lease: {tokens: 5, for: 1m}", []review.Class{review.Loosened}, "",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := reviewed(t, test.old, test.new)
			assert.Equal(t, test.want, s.Classes())
			if test.note != "" {
				require.Equal(t, review.Rule, s.Notes[0].About)
				assert.Regexp(t, test.note, s.Notes[0].Text)
			}
		})
	}
}

// An edit is loosened if and only if more tokens can be used in an interval of some length, however long.
func TestLoosenessCoversIntervalsOfAllLengths(t *testing.T) {
	d := roll(14)
	for range pairs() {
		old := d.bounded()
		new := d.edited(old)
		is := compare.Looseness(&old, &new)
		for range 2000 {
			length := time.Duration(d.Int64N(choose[int64](d, 3, 100) * int64(max(paced(&old).Period, paced(&new).Period))))
			if d.IntN(2) == 0 {
				p := choose(d, paced(&old).Period, paced(&new).Period)
				length = length/p*p + choose[time.Duration](d, 0, 1, p-1, p/3)
			}
			for _, kind := range []func(*runtime.Policy) *runtime.Policy{func(p *runtime.Policy) *runtime.Policy { return p }, bounds.Unreserved} {
				was, now := bounds.Within(kind(&old), length), bounds.Within(kind(&new), length)
				require.False(t, now > was && !slices.Contains(is, review.Loosened), "%v: %d to %d\nof %+v\nto %+v", length, was, now, old, new)
				require.False(t, now < was && !slices.Contains(is, review.Tightened), "%v: %d to %d\nof %+v\nto %+v", length, was, now, old, new)
			}
		}
	}
}

// The statement keeps the rows. If the offset of windows is derived from the name, the review says what a key can have
// after the statement.
func TestRenameStatementKeepsCounts(t *testing.T) {
	for _, test := range []struct {
		rule string
		most int64
	}{
		{"kind: token bucket, rate: 100, period: 1h", 0},
		{"kind: fixed window, rate: 100, period: 1h, start: 0s", 0},
		{"kind: sliding window, rate: 100, period: 1h, start: 0s", 0},
		{"kind: fixed window, rate: 100, period: 1h", 100},
		{"kind: sliding window, rate: 100, period: 1h", 100},
	} {
		t.Run(test.rule, func(t *testing.T) {
			file := func(name string) string {
				return "version: 1\nlimits:\n  " + name + ": {doc: bounds sending., key: userID, " + test.rule + "}\n"
			}
			old, new := parse(t, "old", file("send")), parse(t, "new", file("post"))
			r := Review(old, new)
			require.Len(t, r.Subjects, 1)
			require.Len(t, r.Subjects[0].SQL, 2, "the counts, and the registration")
			said := saidAfterStatement(t, &r.Subjects[0])
			assert.Equal(t, test.most, said)

			before, after := left50(t, &old.Limits[0].Policy, &new.Limits[0].Policy, r.Subjects[0].SQL[0].Text)
			for i := range after {
				assert.Zero(t, before[i])
				assert.LessOrEqual(t, after[i], said)
			}
			if said > 0 {
				assert.NotEqual(t, before, after, "if no key has more, there is nothing to say")
			}
		})
	}
}

// saidAfterStatement returns the number of tokens in the note about the statement.
func saidAfterStatement(t *testing.T, s *review.Subject) (most int64) {
	t.Helper()
	found := regexp.MustCompile(`After it, an exhausted key \(less than one token left, nothing reserved\) has up to ([0-9,]+) tokens?\.`)
	for _, n := range s.Notes {
		if number := found.FindStringSubmatch(n.Text); number != nil {
			var err error
			most, err = strconv.ParseInt(number[1], 10, 64)
			require.NoError(t, err)
		}
	}
	return most
}

// left50 exhausts 50 keys under one policy, runs a statement, and returns the tokens of each key before it, and after it
// under the other policy.
func left50(t *testing.T, old, new *runtime.Policy, statement string) (before, after []int64) {
	t.Helper()
	path, now := filepath.Join(t.TempDir(), "limits.db"), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	store, err := sqlite.OpenWith(path, sqlstore.Options{Clock: func() time.Time { return now }})
	require.NoError(t, err)
	defer store.Close()
	do := func(p *runtime.Policy, key int, q runtime.Request) runtime.Decision {
		q.Policy, q.Key = p, fmt.Sprint("user", key)
		answers, err := store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{q}}})
		require.NoError(t, err)
		require.NoError(t, answers[0].Err)
		return answers[0].Decisions[0]
	}
	for key := range 50 {
		require.True(t, do(old, key, runtime.Request{Count: old.Full()}).Allowed)
		before = append(before, do(old, key, runtime.Request{Op: runtime.Peek}).Remaining)
	}
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), statement)
	require.NoError(t, err)
	for key := range 50 {
		after = append(after, do(new, key, runtime.Request{Op: runtime.Peek}).Remaining)
	}
	return before, after
}
