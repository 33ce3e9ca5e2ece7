package fields

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// The examples of the other tables are read below.
func TestExamplesOfFilesAndGroupsAreValid(t *testing.T) {
	for _, f := range groupFields {
		parsed, ds := Parse("limits.yaml", []byte(ids.Valid+"  suspended: {kind: fixed window, rate: 1, period: 1h}\ngroups:\n  post:\n    takes: [sendMessage]\n    "+f.name+": "+f.example+"\n"))
		if f.name == "takes" {
			parsed, ds = Parse("limits.yaml", []byte(ids.Valid+"groups:\n  post:\n    takes: "+f.example+"\n"))
		}
		require.Empty(t, ds, f.name)
		assert.Contains(t, parsed.Groups[0].Places, f.name)
	}
	top := ""
	for _, f := range fileFields {
		top += f.name + ": " + f.example + "\n"
	}
	_, ds := Parse("limits.yaml", []byte(top))
	assert.Empty(t, ds)
}

// Tables with longer cells are hard to read. Longer explanations belong below the table.
func TestReferenceCellsAreShort(t *testing.T) {
	cells := 0
	for line := range strings.Lines(reference()) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		for cell := range strings.SplitSeq(line, "|") {
			assert.LessOrEqual(t, len(strings.Fields(cell)), 40, "shorten this cell, in the file of its field in gen/fields, to 40 words: %s", cell)
			cells++
		}
	}
	assert.Greater(t, cells, 80)
}

// explain FIELD finds a field by its name only.
func TestFieldNamesAreUnique(t *testing.T) {
	of := map[string]string{}
	for _, f := range Fields() {
		if (f.Of == "a group" || f.Of == "overrides" || f.Of == "an exception" || f.Of == "defaults") && slices.Contains(names(limitFields), f.Name) {
			continue // explain FIELD prints both pages, and they have the same meaning
		}
		assert.Empty(t, of[f.Name], f.Name)
		of[f.Name] = f.Of
		assert.NotContains(t, f.Meaning+f.Accepts+f.Absent, "`", f.Name)
	}
}

func TestCorpusHasEveryField(t *testing.T) {
	wrong := wrongInBad(t)
	example, err := os.ReadFile("../../limits.example.yaml")
	require.NoError(t, err)
	for _, name := range slices.Concat(names(fileFields), names(limitFields), names(leaseFields), names(overrideFields), names(groupFields)) {
		assert.True(t, givenInGood(t, name), "no valid file has %s: add it to testdata/spec/good/every-field.yaml", name)
		assert.Contains(t, string(example), name+":", "limits.example.yaml shows each field once")
		assert.True(t, wrong[name], "no file has a wrong %s: add one to testdata/spec/bad, then go test ./gen/fields -run BadFiles -update", name)
	}
}

func givenInGood(t *testing.T, field string) bool {
	for _, src := range corpus(t, "good") {
		if strings.Contains(string(src), field+":") {
			return true
		}
	}
	return false
}

// wrongInBad returns the fields with a wrong value in some bad file.
func wrongInBad(t *testing.T) map[string]bool {
	wrong := map[string]bool{}
	for name, src := range corpus(t, "bad") {
		_, ds := Parse(name, src)
		for _, d := range ds {
			before, isValue := strings.CutSuffix(strings.TrimRight(d.Shown.Before, " "), ":")
			if d.ID != ids.Syntax.ID && isValue {
				wrong[before[strings.LastIndexAny(before, " {,")+1:]] = true
			}
		}
	}
	return wrong
}

// withExample returns a limit, and the same limit with the example of one field. The example must differ from the value in
// the first limit.
func withExample(t *testing.T, f field[draft, spec.Limit]) (before, after *spec.Limit) {
	lines := []string{"kind: fixed window", "rate: 50", "period: 1h", "capacity: 60", "maxReserved: 40"}
	switch f.name {
	case "hold":
		lines = []string{"kind: in flight", "capacity: 5"}
		return one(t, append(lines, "hold: 30s")...), one(t, append(lines, "hold: "+f.example)...)
	case "zone":
		lines[2] = "period: month"
		return one(t, append(lines, "zone: UTC")...), one(t, append(lines, "zone: "+f.example)...)
	case "count":
		// The largest rate is the same policy.
		lines = []string{"kind: fixed window", "period: 1h"}
		return one(t, append(lines, "rate: 1_000_000_000_000_000")...), one(t, append(lines, "rate: unlimited", "count: "+f.example)...)
	case "precise":
		lines = []string{"kind: sliding window", "rate: 50", "period: 1h"}
	case "penalty":
		lines = lines[:4]
	case "exceptions":
		lines = append(lines, "key: {userID: int64}")
	case "forgive":
		lines = append(lines[:4], "penalty: [1m, 1h]")
	}
	before = one(t, lines...)
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, f.name+":") })
	return before, one(t, append(lines, f.name+": "+f.example)...)
}

// setBy returns the fields of [runtime.Policy] that the example of each field of a limit changes.
func setBy(t *testing.T) map[string][]string {
	set := map[string][]string{}
	for _, f := range limitFields {
		before, after := withExample(t, f)
		for i, name := range fieldsOfStruct[runtime.Policy]() {
			if reflect.ValueOf(before.Policy).Field(i).Interface() != reflect.ValueOf(after.Policy).Field(i).Interface() {
				set[f.name] = append(set[f.name], name)
			}
		}
	}
	return set
}

// fieldsOfStruct lists the names of the exported fields of a struct, which come first.
func fieldsOfStruct[T any]() (names []string) {
	for i := range reflect.TypeFor[T]().NumField() {
		if f := reflect.TypeFor[T]().Field(i); f.IsExported() {
			names = append(names, f.Name)
		}
	}
	return names
}

// policyField returns the field of a policy, a lease or bounds of overrides that a field of limits.yaml sets, or "".
func policyField(name string) string {
	switch name {
	case "doc", "key", "goName", "count", "prices", "exceptions", "priorities":
		return ""
	case "zone":
		return "Calendar"
	case "forgive":
		return "Penalty"
	}
	return spec.Capital(name)
}

// A field of limits.yaml must reach the policy, and each field of the policy must be reachable.
func TestEveryPolicyFieldIsSetByAField(t *testing.T) {
	set := setBy(t)
	sets := map[string]string{"Name": "the name of the limit", "Slots": "capacity, for a limit in flight", "AtMost": "rate, capacity and maxReserved, if callers give them", "Priority": "priorities, in a policy for each class"}
	for _, f := range limitFields {
		want := []string(nil)
		if name := policyField(f.name); name != "" {
			want = []string{name}
			sets[name] = f.name
		}
		assert.Equal(t, want, set[f.name], "%s: %s must change this field of runtime.Policy and no other; name a field that is not of it in policyField of gen/fields/fields_test.go", f.name, f.example)
	}
	for _, name := range fieldsOfStruct[runtime.Policy]() {
		assert.NotEmpty(t, sets[name], "no field of limits.yaml sets runtime.Policy.%s: add one to limitFields in gen/fields/limit.go", name)
	}
}

func TestEveryLeaseFieldIsSetByAField(t *testing.T) {
	var sets []string
	for _, f := range leaseFields {
		var lease runtime.Lease
		p := newParser(document.New(diag.NewSource("", f.name+": "+f.example)))
		root := p.doc.Root()
		entries, _ := p.doc.Entries(root, p.doc.Source.At(root), "", "")
		require.True(t, f.read(p, &lease, entries[0]), f.name)
		assert.False(t, reflect.ValueOf(lease).FieldByName(policyField(f.name)).IsZero(), "%s must set its field of runtime.Lease", f.name)
		sets = append(sets, policyField(f.name))
	}
	assert.ElementsMatch(t, fieldsOfStruct[runtime.Lease](), sets, "leaseFields in gen/fields/lease.go must set each field of runtime.Lease")
}

func TestEveryOverrideFieldIsSetByAField(t *testing.T) {
	for _, f := range overrideFields {
		parsed := one(t, "kind: token bucket", "rate: 10", "period: 1m", "maxReserved: 10", "overrides: {"+f.name+": "+f.example+"}")
		assert.False(t, reflect.ValueOf(*parsed.Overrides).FieldByName(policyField(f.name)).IsZero(), f.name)
		assert.Equal(t, reflect.ValueOf(*parsed.Overrides).FieldByName(policyField(f.name)).Int(), reflect.ValueOf(parsed.Policy.Overrides).FieldByName(policyField(f.name)).Int())
	}
	// Unlimited is a word for the rate.
	assert.True(t, one(t, "kind: token bucket", "rate: 10", "period: 1m", "overrides: {rate: unlimited}").Policy.Overrides.Unlimited)
}

func TestBoundsOfOverridesFollowTheLimit(t *testing.T) {
	const bucket, sliding = "kind: token bucket", "kind: sliding window"
	for _, row := range []struct {
		kind, overrides string
		lines           []string
		want            runtime.OverrideBounds
	}{
		{bucket, "{}", nil, runtime.OverrideBounds{Rate: 10, Capacity: 10}},
		{bucket, "{}", []string{"capacity: 20", "maxReserved: 5"}, runtime.OverrideBounds{Rate: 10, Capacity: 20, MaxReserved: 5}},
		{bucket, "{rate: 50}", nil, runtime.OverrideBounds{Rate: 50, Capacity: 50}},
		{bucket, "{rate: 50}", []string{"capacity: 20"}, runtime.OverrideBounds{Rate: 50, Capacity: 20}},
		{bucket, "{rate: 50, capacity: 30}", nil, runtime.OverrideBounds{Rate: 50, Capacity: 30}},
		{bucket, "{maxReserved: unbounded}", []string{"maxReserved: 5"}, runtime.OverrideBounds{Rate: 10, Capacity: 10, MaxReserved: runtime.Unbounded}},
		{bucket, "{rate: unlimited}", nil, runtime.OverrideBounds{Rate: runtime.MaxTokens, Capacity: runtime.MaxTokens, Unlimited: true}},
		{bucket, "{rate: 50}", []string{"capacity: 0", "maxReserved: 5"}, runtime.OverrideBounds{Rate: 50, MaxReserved: 5}},
		{sliding, "{rate: 50}", nil, runtime.OverrideBounds{Rate: 50, Capacity: 50}},
		{sliding, "{rate: unlimited}", []string{"precise: true"}, runtime.OverrideBounds{Rate: runtime.MaxTokens, Capacity: runtime.MaxTokens, Unlimited: true}},
	} {
		limit := one(t, append([]string{row.kind, "rate: 10", "period: 1m", "overrides: " + row.overrides}, row.lines...)...)
		assert.Equal(t, row.want, limit.Policy.Overrides, "%s %v", row.overrides, row.lines)
		assert.NoError(t, limit.Policy.Validate())
	}
	file, ds := Parse("limits.yaml", []byte(ids.Planned("rate: {free: 10, pro: 60}", "capacity: {free: 20, pro: 30}", "overrides: {rate: 100}")))
	require.Empty(t, ds)
	for _, of := range append(file.Limits[0].Plans, file.Limits[0]) {
		assert.Equal(t, runtime.OverrideBounds{Rate: 100, Capacity: 30}, of.Policy.Overrides)
		assert.NoError(t, of.Policy.Validate())
	}
}

func TestEveryPolicyFieldIsInWords(t *testing.T) {
	for _, f := range limitFields {
		if policyField(f.name) == "" {
			continue
		}
		before, after := withExample(t, f)
		rule, sentences := Sentences(before)
		otherRule, otherSentences := Sentences(after)
		assert.NotEqual(t, append(sentences, rule), append(otherSentences, otherRule), "generated doc comments do not mention %s: set sentences, in its file in gen/fields", f.name)
	}
}

func TestEveryKindHasAnAlgorithm(t *testing.T) {
	for _, kind := range runtime.Kinds() {
		a, ok := algorithms[kind]
		if assert.True(t, ok, "%v has no entry in algorithms, gen/fields/kind.go", kind) {
			assert.True(t, a.grants != "" && a.rule != nil && (leaseBounds[kind] != nil || kind == runtime.InFlight) && len(needsOf[kind]) > 0, "the entry of %v in gen/fields/kind.go is incomplete, or it has none in leaseBounds in lease.go", kind)
		}
		for _, r := range a.refusals {
			assert.Contains(t, names(limitFields), r.field)
			assert.True(t, r.message != "" && r.field != "", "a refusal of %v", kind)
		}
	}
	assert.Equal(t, len(runtime.Kinds()), len(algorithms), "algorithms in gen/fields/kind.go has a kind that runtime.Kinds lacks, or the reverse")
}

func TestEveryFieldHasAChange(t *testing.T) {
	known := map[string]bool{}
	for _, kind := range ids.Changes() {
		require.False(t, known[kind.ID], kind.ID)
		known[kind.ID] = true
		for _, rule := range ids.Rules() {
			require.NotEqual(t, rule.ID, kind.ID, "an id must not have two meanings")
		}
	}
	for _, f := range limitFields {
		assert.True(t, f.change != nil && known[f.change.ID] && f.effective != nil, "a change of %s would not be reported: set change, to a kind in gen/ids/changes.go, and effective, in its file in gen/fields", f.name)
	}
	for _, f := range groupFields {
		assert.True(t, f.change != nil && f.effective != nil, "a change of %s would not be reported: set change and effective in gen/fields/group.go", f.name)
	}
	for _, f := range fileFields {
		if !slices.Contains([]string{"version", "defaults", "limits", "groups"}, f.name) { // only one version exists, defaults are compared at each limit, and limits and groups have their own kinds of changes
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
