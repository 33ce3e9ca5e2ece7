package fields

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/rules"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

func parsed(t testing.TB, text string) *spec.File {
	t.Helper()
	file, ds := Parse("limits.yaml", []byte(text))
	require.Empty(t, ds, text)
	return file
}

// summaries returns changes as "id limit field: old -> new".
func summaries(changes []spec.Change) []string {
	list := []string{}
	for _, c := range changes {
		list = append(list, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s: %s -> %s", c.Kind.ID, c.Limit, c.Field, c.Old.Value, c.New.Value)), " "))
	}
	return list
}

func TestDiff(t *testing.T) {
	limits := func(lines ...string) string { return "version: 1\nlimits:\n  " + strings.Join(lines, "\n  ") + "\n" }
	const flow = "kind: token bucket, period: 1m, rate: "
	for _, test := range []struct {
		name, old, new string
		want           []string
	}{
		{"nothing", spec.Valid, spec.Valid, nil},
		{"other notation of the same", spec.LimitOf(spec.Bucket),
			spec.LimitOf("rate: 1_0", "key: {user: string}", "period: 60s", "kind: token bucket", "capacity: 10", "shards: 1", "onError: closed", "goName: SendMessage"),
			[]string{"key-changed sendMessage key: -> {user: string}"}},
		{"key in short", spec.LimitOf(spec.Bucket, "key: user"), spec.LimitOf(spec.Bucket, "key: {user: string}"), nil},
		{"order", limits("a: {"+flow+"1}", "b: {"+flow+"2}"), limits("b: {"+flow+"2}", "a: {"+flow+"1}"), nil},
		{"capacity follows rate", spec.LimitOf("kind: token bucket", "rate: 2", "period: 1h"), spec.LimitOf("kind: token bucket", "rate: 48", "period: 24h"), []string{
			"rate-changed sendMessage rate: 2 -> 48", "rate-changed sendMessage period: 1h -> 1d", "capacity-changed sendMessage capacity: 2 -> 48"}},
		{"in the order of the new file, then the removed", limits("a: {"+flow+"1}", "b: {"+flow+"2}", "c: {"+flow+"3}"), limits("n: {"+flow+"9}", "c: {"+flow+"4, capacity: 3}", "b: {"+flow+"2}"), []string{
			"limit-added n : -> n", "rate-changed c rate: 3 -> 4", "limit-removed a : a ->"}},
		{"package", "package: a\n" + spec.Valid, spec.Valid, []string{"package-changed package: a ->"}},
		{"what a process keeps", spec.LimitOf(spec.Bucket, "lease: {tokens: 10, for: 0.2s}", "denyCache: 60s"), spec.LimitOf(spec.Bucket, "lease: {for: 200ms, tokens: 1_0}", "denyCache: 1m", "durability: full"), []string{
			"durability-changed sendMessage durability: -> full"}},
		{"a lease", spec.LimitOf(spec.Bucket, "lease: {tokens: 5, for: 1h}"), spec.LimitOf(spec.Bucket, "lease: {tokens: 5, for: 90m}"), []string{
			"lease-changed sendMessage lease: {tokens: 5, for: 1h} -> {tokens: 5, for: 1h30m}"}},
		{"starts", spec.LimitOf("kind: fixed window", "rate: 1", "period: 1d", "start: 2024-01-01T01:00:00+01:00"), spec.LimitOf("kind: fixed window", "rate: 1", "period: 1d", "start: 36h"), []string{
			"start-changed sendMessage start: 2024-01-01T00:00:00Z -> 1d12h"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := summaries(Diff(parsed(t, test.old), parsed(t, test.new)))
			want := []string{}
			for _, line := range test.want {
				want = append(want, strings.Join(strings.Fields(line), " "))
			}
			assert.Equal(t, want, got)
		})
	}
}

func TestRenamesAreGuessed(t *testing.T) {
	limit := func(name, rest string) string {
		return "  " + name + ": {kind: token bucket, period: 1m, " + rest + "}\n"
	}
	for _, test := range []struct {
		name, old, new string
		want           map[string]string
	}{
		{"the same rule", limit("a", "rate: 1"), limit("b", "rate: 1"), map[string]string{"b": "a"}},
		{"another rule", limit("a", "rate: 1"), limit("b", "rate: 2"), nil},
		{"another key", limit("a", "rate: 1"), limit("b", "rate: 1, key: user"), nil},
		{"another rule, the same doc", limit("a", "rate: 1, doc: x"), limit("b", "rate: 2, doc: x"), map[string]string{"b": "a"}},
		{"another rule and key, the same doc", limit("a", "rate: 1, doc: x"), limit("b", "rate: 2, doc: x, key: user"), nil},
		{"two alike are removed", limit("a", "rate: 1") + limit("b", "rate: 1"), limit("c", "rate: 1"), nil},
		{"two alike are added", limit("a", "rate: 1"), limit("b", "rate: 1") + limit("c", "rate: 1"), nil},
		{"the method tells two apart", limit("a", "rate: 1") + limit("b", "rate: 1"), limit("c", "rate: 1, goName: A") + limit("d", "rate: 1, goName: B"), map[string]string{"c": "a", "d": "b"}},
		{"the doc tells two apart", limit("a", "rate: 1, doc: x") + limit("b", "rate: 1, doc: y"), limit("c", "rate: 1, doc: y") + limit("d", "rate: 1, doc: x"), map[string]string{"c": "b", "d": "a"}},
		{"one that is still there", limit("a", "rate: 1") + limit("b", "rate: 1"), limit("a", "rate: 1") + limit("c", "rate: 1"), map[string]string{"c": "b"}},
		{"names that swap", limit("a", "rate: 1") + limit("b", "rate: 2"), limit("b", "rate: 1") + limit("a", "rate: 2"), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			const head = "version: 1\nlimits:\n"
			got := map[string]string{}
			for _, c := range Diff(parsed(t, head+test.old), parsed(t, head+test.new)) {
				if c.Kind == spec.LimitRenamed {
					got[c.New.Value] = c.Old.Value
				}
			}
			if test.want == nil {
				test.want = map[string]string{}
			}
			assert.Equal(t, test.want, got)
		})
	}
}

func TestSidesOfChangesHaveValuesAndPlaces(t *testing.T) {
	old, new := parsed(t, spec.LimitOf(spec.Bucket)), parsed(t, spec.LimitOf("rate: 20", "kind: token bucket", "period: 1m"))
	changes := Diff(old, new)
	require.Len(t, changes, 2)
	assert.Equal(t, spec.Side{File: old, Limit: old.Limits[0], Value: "10", Given: true, Pos: diag.Pos{Line: 5, Column: 11}}, changes[0].Old)
	assert.Equal(t, spec.Side{File: new, Limit: new.Limits[0], Value: "20", Given: true, Pos: diag.Pos{Line: 4, Column: 11}}, changes[0].New)
	assert.Equal(t, spec.Side{File: new, Limit: new.Limits[0], Value: "20", Given: false, Pos: diag.Pos{Line: 3, Column: 3}}, changes[1].New, "a capacity that is not given has the place of the limit")
}

// Comparing the files the other way round swaps added and removed limits, and the values of each change.
func TestDiffBackIsTheOpposite(t *testing.T) {
	opposite := map[*spec.ChangeKind]*spec.ChangeKind{
		spec.LimitAdded: spec.LimitRemoved, spec.LimitRemoved: spec.LimitAdded, spec.GroupAdded: spec.GroupRemoved, spec.GroupRemoved: spec.GroupAdded,
		spec.PlanAdded: spec.PlanRemoved, spec.PlanRemoved: spec.PlanAdded,
	}
	for _, kind := range spec.ChangeKinds() {
		old, new := parsed(t, kind.Old), parsed(t, kind.New)
		var there, back []string
		for _, c := range Diff(old, new) {
			there = append(there, c.Kind.ID+c.Plan+c.Field+c.Old.Value+c.New.Value)
		}
		for _, c := range Diff(new, old) {
			if c.Kind == spec.PlanRenamed {
				c.Plan = c.Old.Value
			}
			back = append(back, cmp.Or(opposite[c.Kind], c.Kind).ID+c.Plan+c.Field+c.New.Value+c.Old.Value)
		}
		assert.ElementsMatch(t, there, back, kind.ID)
	}
}

func TestExamplesOfChangeKindsHaveThatChangeOnly(t *testing.T) {
	for _, kind := range spec.ChangeKinds() {
		var ids []string
		for _, c := range Diff(parsed(t, kind.Old), parsed(t, kind.New)) {
			ids = append(ids, c.Kind.ID)
		}
		if kind.ID == spec.LimitRenamed.ID {
			ids = slices.DeleteFunc(ids, func(id string) bool { return id == spec.GoNameChanged.ID })
		}
		if slices.Contains([]string{spec.PlanAdded.ID, spec.PlanRemoved.ID, spec.PlanRenamed.ID}, kind.ID) { // a limit has the plans of its file
			ids = slices.DeleteFunc(ids, func(id string) bool { return id == spec.PlansChanged.ID })
		}
		if kind.ID == spec.GroupMethodChanged.ID { // it follows from a change of a limit
			ids = slices.DeleteFunc(ids, func(id string) bool { return id == spec.PlanParameterChanged.ID })
		}
		assert.Equal(t, []string{kind.ID}, ids)
		assert.NotEmpty(t, kind.Summary)
	}
}

func TestEveryFieldHasAChange(t *testing.T) {
	known := map[string]bool{}
	for _, kind := range spec.ChangeKinds() {
		require.False(t, known[kind.ID], kind.ID)
		known[kind.ID] = true
		for _, rule := range rules.Rules() {
			require.NotEqual(t, rule.ID, kind.ID, "an id must not have two meanings")
		}
	}
	for _, f := range limitFields {
		assert.True(t, f.change != nil && known[f.change.ID] && f.effective != nil, "a change of %s would not be reported: set change, to a ChangeKind in gen/spec/change.go, and effective in gen/fields/fields.go", f.name)
	}
	for _, f := range groupFields {
		assert.True(t, f.change != nil && f.effective != nil, "a change of %s would not be reported: set change and effective in gen/fields/groups.go", f.name)
	}
	for _, f := range fileFields {
		if !slices.Contains([]string{"version", "limits", "groups"}, f.name) { // only one version exists, and limits and groups have their own kinds of changes
			assert.True(t, f.change != nil && f.effective != nil, f.name)
		}
	}
}

func TestDurationsAreReadAsTheyAreWritten(t *testing.T) {
	for _, text := range []string{"0s", "1ns", "1us", "1h30m", "1d12h", "2w", "8d", "90d", "1m30s", "1s500ms", "3650d"} {
		length, ok := exact(text)
		require.True(t, ok)
		written := words.Duration(time.Duration(length.Num().Int64()))
		again, ok := exact(written)
		require.True(t, ok, written)
		assert.Zero(t, length.Cmp(again), "%s is written %s", text, written)
	}
}
