package diff

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

func parsed(t testing.TB, text string) *spec.File {
	t.Helper()
	file, ds := fields.Parse("limits.yaml", []byte(text))
	require.Empty(t, ds, text)
	return file
}

// summaries returns changes as "id limit field: old -> new".
func summaries(changes []Change) []string {
	list := []string{}
	for _, c := range changes {
		list = append(list, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s: %s -> %s", c.Kind.ID, c.Limit, c.Field, c.Old.Value, c.New.Value)), " "))
	}
	return list
}

func changesOf(old, new *spec.File) []Change {
	changes, _ := Files(old, new)
	return changes
}

func TestFiles(t *testing.T) {
	limits := func(lines ...string) string { return "version: 1\nlimits:\n  " + strings.Join(lines, "\n  ") + "\n" }
	const flow = "kind: token bucket, period: 1m, rate: "
	for _, test := range []struct {
		name, old, new string
		want           []string
	}{
		{"nothing", ids.Valid, ids.Valid, nil},
		{"other notation of the same", ids.LimitOf(ids.Bucket),
			ids.LimitOf("rate: 1_0", "key: {user: string}", "period: 60s", "kind: token bucket", "capacity: 10", "shards: 1", "onError: closed", "goName: SendMessage"),
			[]string{"key-changed sendMessage key: -> {user: string}"}},
		{"key in short", ids.LimitOf(ids.Bucket, "key: user"), ids.LimitOf(ids.Bucket, "key: {user: string}"), nil},
		{"order", limits("a: {"+flow+"1}", "b: {"+flow+"2}"), limits("b: {"+flow+"2}", "a: {"+flow+"1}"), nil},
		{"capacity follows rate", ids.LimitOf("kind: token bucket", "rate: 2", "period: 1h"), ids.LimitOf("kind: token bucket", "rate: 48", "period: 24h"), []string{
			"rate-changed sendMessage rate: 2 -> 48", "rate-changed sendMessage period: 1h -> 1d", "capacity-changed sendMessage capacity: 2 -> 48"}},
		{"in the order of the new file, then the removed", limits("a: {"+flow+"1}", "b: {"+flow+"2}", "c: {"+flow+"3}"), limits("n: {"+flow+"9}", "c: {"+flow+"4, capacity: 3}", "b: {"+flow+"2}"), []string{
			"limit-added n : -> n", "rate-changed c rate: 3 -> 4", "limit-removed a : a ->"}},
		{"prices in other notation", ids.LimitOf(ids.Bucket, "prices: {input: 3.50, output: 1_000}"), ids.LimitOf(ids.Bucket, "prices:", "  input: 3.5", "  output: 1000.000"), nil},
		{"prices", ids.LimitOf(ids.Bucket, "prices: {input: 3, output: 15}"), ids.LimitOf(ids.Bucket, "prices: {output: 15, input: 3.000001}"), []string{
			"prices-changed sendMessage prices: {input: 3, output: 15} -> {output: 15, input: 3.000001}"}},
		{"package", "package: a\n" + ids.Valid, ids.Valid, []string{"package-changed package: a ->"}},
		{"what a process keeps", ids.LimitOf(ids.Bucket, "lease: {tokens: 10, for: 0.2s}", "denyCache: 60s"), ids.LimitOf(ids.Bucket, "lease: {for: 200ms, tokens: 1_0}", "denyCache: 1m", "durability: full"), []string{
			"durability-changed sendMessage durability: -> full"}},
		{"a lease", ids.LimitOf(ids.Bucket, "lease: {tokens: 5, for: 1h}"), ids.LimitOf(ids.Bucket, "lease: {tokens: 5, for: 90m}"), []string{
			"lease-changed sendMessage lease: {tokens: 5, for: 1h} -> {tokens: 5, for: 1h30m}"}},
		{"to the defaults", limits("a: {"+flow+"1, timeout: 1s}", "b: {"+flow+"2, onError: open, timeout: 1s}"), limits("a: {period: 1m, rate: 1}", "b: {period: 1m, rate: 2, onError: open}") + "defaults: {kind: token bucket, timeout: 1s}\n", nil},
		{"a default of no limit", limits("a: {" + flow + "1}"), limits("a: {"+flow+"1}") + "defaults: {kind: fixed window, zone: UTC}\n", nil},
		{"a default of two of three limits", limits("a: {"+flow+"1}", "b: {"+flow+"2, timeout: 1s}", "c: {"+flow+"3}") + "defaults: {timeout: 2s}\n", limits("a: {"+flow+"1}", "b: {"+flow+"2, timeout: 1s}", "c: {"+flow+"3}") + "defaults: {timeout: 3s}\n", []string{
			"timeout-changed a timeout: 2s -> 3s", "timeout-changed c timeout: 2s -> 3s"}},
		{"exceptions, each by itself", ids.LimitOf(ids.Bucket, "key: {org: int64}", "exceptions: [{org: 1_0, rate: 5, reason: a}, {org: 2, rate: 5, reason: b}, {org: 3, mode: off, reason: c}]"),
			ids.LimitOf(ids.Bucket, "key: {org: int64}", "exceptions: [{org: 4, rate: 5, reason: d}, {org: 3, mode: block, reason: c}, {org: 10, rate: 5, reason: a}]"), []string{
				"exceptions-changed sendMessage exceptions: -> {org: 4, rate: 5, reason: d}",
				"exceptions-changed sendMessage exceptions: {org: 3, mode: off, reason: c} -> {org: 3, mode: block, reason: c}",
				"exceptions-changed sendMessage exceptions: {org: 2, rate: 5, reason: b} ->"}},
		{"unlimited and counted", ids.LimitOf("kind: fixed window", "rate: 10", "period: 1d", "capacity: 20"), ids.LimitOf("kind: fixed window", "rate: unlimited", "count: true", "period: 1d"), []string{
			"rate-changed sendMessage rate: 10 -> unlimited", "rate-changed sendMessage count: -> true"}},
		{"the largest rate is unlimited and counted", ids.LimitOf("kind: fixed window", "rate: 1_000_000_000_000_000", "period: 1d"), ids.LimitOf("kind: fixed window", "rate: unlimited", "count: true", "period: 1d"), nil},
		{"counted plans", ids.Windowed("rate: {free: 10, pro: unlimited}"), ids.Windowed("rate: {free: 10, pro: unlimited}", "count: true"), []string{
			"rate-changed sendMessage count: -> true"}},
		{"a counted plan has no other numbers", ids.Windowed("rate: {free: 10, pro: unlimited}", "count: true", "maxReserved: {free: 5}"), ids.Windowed("rate: {free: 10, pro: unlimited}", "count: true", "maxReserved: {free: 6}"), []string{
			"max-reserved-changed sendMessage maxReserved: 5 -> 6"}},
		{"starts", ids.LimitOf("kind: fixed window", "rate: 1", "period: 1d", "start: 2024-01-01T01:00:00+01:00"), ids.LimitOf("kind: fixed window", "rate: 1", "period: 1d", "start: 36h"), []string{
			"start-changed sendMessage start: 2024-01-01T00:00:00Z -> 1d12h"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := summaries(changesOf(parsed(t, test.old), parsed(t, test.new)))
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
			for _, c := range changesOf(parsed(t, head+test.old), parsed(t, head+test.new)) {
				if c.Kind == ids.LimitRenamed {
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
	old, new := parsed(t, ids.LimitOf(ids.Bucket)), parsed(t, ids.LimitOf("rate: 20", "kind: token bucket", "period: 1m"))
	changes := changesOf(old, new)
	require.Len(t, changes, 2)
	assert.Equal(t, Side{File: old, Limit: old.Limits[0], Value: "10", Given: true, Pos: diag.Pos{Line: 5, Column: 11}}, changes[0].Old)
	assert.Equal(t, Side{File: new, Limit: new.Limits[0], Value: "20", Given: true, Pos: diag.Pos{Line: 4, Column: 11}}, changes[0].New)
	assert.Equal(t, Side{File: new, Limit: new.Limits[0], Value: "20", Given: false, Pos: diag.Pos{Line: 3, Column: 3}}, changes[1].New, "a capacity that is not given has the place of the limit")

	old, new = parsed(t, ids.LimitOf(ids.Bucket)+"defaults: {timeout: 1s}\n"), parsed(t, ids.LimitOf(ids.Bucket))
	changes = changesOf(old, new)
	require.Len(t, changes, 1)
	assert.Equal(t, Side{File: old, Limit: old.Limits[0], Value: "1s", Given: true, Pos: diag.Pos{Line: 7, Column: 21}}, changes[0].Old, "a value from the defaults has its place there")
	assert.Equal(t, Side{File: new, Limit: new.Limits[0], Pos: diag.Pos{Line: 3, Column: 3}}, changes[0].New)
}

// Comparing the files the other way round swaps added and removed limits, and the values of each change.
func TestDiffBackIsTheOpposite(t *testing.T) {
	opposite := map[*ids.Meaning]*ids.Meaning{
		ids.LimitAdded: ids.LimitRemoved, ids.LimitRemoved: ids.LimitAdded, ids.GroupAdded: ids.GroupRemoved, ids.GroupRemoved: ids.GroupAdded,
		ids.PlanAdded: ids.PlanRemoved, ids.PlanRemoved: ids.PlanAdded,
	}
	for _, kind := range ids.Changes() {
		old, new := parsed(t, kind.Before), parsed(t, kind.After)
		var there, back []string
		for _, c := range changesOf(old, new) {
			there = append(there, c.Kind.ID+c.Plan+c.Field+c.Old.Value+c.New.Value)
		}
		for _, c := range changesOf(new, old) {
			if c.Kind == ids.PlanRenamed {
				c.Plan = c.Old.Value
			}
			back = append(back, cmp.Or(opposite[c.Kind], c.Kind).ID+c.Plan+c.Field+c.New.Value+c.Old.Value)
		}
		assert.ElementsMatch(t, there, back, kind.ID)
	}
}

func TestExamplesOfChangesHaveThatChangeOnly(t *testing.T) {
	for _, kind := range ids.Changes() {
		var found []string
		for _, c := range changesOf(parsed(t, kind.Before), parsed(t, kind.After)) {
			found = append(found, c.Kind.ID)
		}
		if kind.ID == ids.LimitRenamed.ID {
			found = slices.DeleteFunc(found, func(id string) bool { return id == ids.GoNameChanged.ID })
		}
		if slices.Contains([]string{ids.PlanAdded.ID, ids.PlanRemoved.ID, ids.PlanRenamed.ID}, kind.ID) { // a limit has the plans of its file
			found = slices.DeleteFunc(found, func(id string) bool { return id == ids.PlansChanged.ID })
		}
		if kind.ID == ids.GroupMethodChanged.ID { // it follows from a change of a limit
			found = slices.DeleteFunc(found, func(id string) bool { return id == ids.PlanParameterChanged.ID })
		}
		assert.Equal(t, []string{kind.ID}, found, "the example in gen/ids/changes.go must have this change only, and gen/diff/diff.go must find it")
		assert.NotEmpty(t, kind.Summary)
	}
}
