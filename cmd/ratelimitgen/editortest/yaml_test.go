package editortest

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// modeline is the comment in a file that names its schema.
const modeline = "# yaml-language-server: $schema=./limits.schema.json\n"

// opening is a file up to the fields of its first limit.
const opening = modeline + "version: 1\nlimits:\n  sendMessage:\n"

// field is the part of a field's schema that the tests use.
type field struct {
	MarkdownDescription string
	// Properties are those of a map.
	Properties map[string]field
}

// schema is the part of the schema that the tests use.
type schema struct {
	Properties  map[string]field
	Definitions struct {
		Limit, Group struct{ Properties map[string]field }
	}
}

// begin starts the server in a folder with the files of ratelimitgen init.
func begin(t *testing.T) (editor *client, folder string, s schema) {
	t.Helper()
	folder = t.TempDir()
	ratelimitgen(t, folder, "init")
	require.NoError(t, json.Unmarshal([]byte(ratelimitgen(t, folder, "schema")), &s))
	return startYAML(t, folder), folder, s
}

func TestYAMLCompletesFields(t *testing.T) {
	editor, folder, s := begin(t)
	for _, row := range []struct {
		name, text string
		fields     map[string]field
		// want must be offered; unwanted must not.
		want, unwanted []string
		// skeleton is the item that inserts all required fields at once, if any are.
		skeleton string
	}{
		{"a file", modeline + cursor, s.Properties, []string{"version", "package", "plans", "defaults", "limits"}, []string{"rate"}, "Rate limits"},
		{"a limit", opening + "    " + cursor, s.Definitions.Limit.Properties,
			[]string{"doc", "key", "kind", "rate", "period", "capacity", "hold", "maxReserved", "start", "shards", "goName"}, []string{"version", "burst"}, "limit"},
		{"defaults", modeline + "version: 1\ndefaults:\n  " + cursor, s.Properties["defaults"].Properties,
			[]string{"kind", "zone", "timeout", "onError", "jitter", "denyCache"}, []string{"rate"}, ""},
		{"a limit with a kind by default", modeline + "version: 1\ndefaults: {kind: fixed window}\nlimits:\n  sendMessage:\n    " + cursor, s.Definitions.Limit.Properties,
			[]string{"kind", "rate"}, []string{"version"}, "limit"},
		{"a group", opening + "    kind: token bucket\n    rate: 10\n    period: 1m\ngroups:\n  post:\n    " + cursor, s.Definitions.Group.Properties,
			[]string{"doc", "takes", "checks", "goName"}, []string{"rate"}, "group"},
	} {
		t.Run(row.name, func(t *testing.T) {
			offered := map[string]string{}
			var others []string
			for _, i := range editor.open(filepath.Join(folder, row.name+".yaml"), "yaml", row.text).complete() {
				if i.Kind != kindProperty {
					others = append(others, i.Label)
					continue
				}
				assert.NotContains(t, offered, i.Label, "offered twice")
				assert.True(t, strings.HasPrefix(i.InsertText, i.Label+":"), i.InsertText)
				assert.NotContains(t, i.InsertText, ":0}", "0 is no useful default")
				offered[i.Label] = string(i.Documentation)
			}
			described := map[string]string{}
			for name, f := range row.fields {
				described[name] = f.MarkdownDescription
			}
			assert.Equal(t, described, offered)
			assert.Subset(t, slices.Collect(maps.Keys(offered)), row.want)
			for _, name := range row.unwanted {
				assert.NotContains(t, offered, name)
			}
			assert.Equal(t, row.skeleton, strings.Join(others, ", "))
		})
	}
}

func TestYAMLCompletesValues(t *testing.T) {
	editor, folder, _ := begin(t)
	for _, row := range []struct {
		// text follows the first line of a limit.
		text   string
		values []string
	}{
		{"kind: ‸", []string{"token bucket", "fixed window", "sliding window", "in flight"}},
		{"mode: ‸", []string{"enforce", "shadow", `"off"`, "block"}},
		{"maxReserved: ‸", []string{"100", "unbounded", "0"}},
		{"penalty: ‸", []string{"15m", "[1m, 10m, 1h]"}},
		{"warn: ‸", []string{"80%", "[80%, 100%]"}},
		{"onError: ‸", []string{"closed", "local", "open"}},
		{"start: ‸", []string{"first use", "0"}},
		{"rate: {at‸}", []string{"at most"}},
		{"capacity: {at‸}", []string{"at most"}},
		{"key: {userID: ‸}", []string{"string", "folded string", "hashed string", "hashed folded string", "bool", "int", "int64", "uint64", "netip.Addr", "netip.Addr/64"}},
	} {
		name, _, _ := strings.Cut(row.text, ":")
		t.Run(name, func(t *testing.T) {
			var values []string
			for _, i := range editor.open(filepath.Join(folder, name+".yaml"), "yaml", opening+"    "+row.text+"\n").complete() {
				values = append(values, i.Label)
			}
			assert.ElementsMatch(t, row.values, values)
		})
	}
}

// A limit is checked with the defaults of its file.
func TestYAMLProblemsWithDefaults(t *testing.T) {
	editor, folder, _ := begin(t)
	for _, row := range []struct {
		name, defaults, limit string
		problems              [][2]string
	}{
		{"a kind by default", "{kind: token bucket}", "{rate: 10, period: 1m}", nil},
		{"no kind", "{timeout: 1s}", "{rate: 10, period: 1m}", [][2]string{{"a: {rate: 10, period: 1m}", `Missing property "kind".`}}},
		{"a field of another kind", "{kind: token bucket}", "{rate: 10, period: 1m, start: 1h}", [][2]string{{"a: {rate: 10, period: 1m, start: 1h}", "A token bucket has no windows to start. Leave start out, or use a fixed window."}}},
		{"a kind of its own", "{kind: token bucket}", "{kind: fixed window, rate: 10, period: 1m, start: 1h}", nil},
		{"a zone by default", "{zone: UTC}", "{kind: fixed window, rate: 10, period: month}", nil},
		{"no zone", "{kind: fixed window}", "{rate: 10, period: month}", [][2]string{{"a: {rate: 10, period: month}", `Missing property "zone".`}}},
		{"a rate", "{rate: 10}", "{kind: token bucket, rate: 10, period: 1m}", [][2]string{{"defaults: {rate: 10}", "Property rate is not allowed."}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := editor.open(filepath.Join(folder, row.name+".yaml"), "yaml", modeline+"version: 1\ndefaults: "+row.defaults+"\nlimits:\n  a: "+row.limit+"\n")
			assert.Equal(t, append([][2]string{}, row.problems...), d.problems())
		})
	}
}

func TestYAMLHover(t *testing.T) {
	editor, folder, s := begin(t)
	every, err := os.ReadFile(filepath.Join(root, "testdata/spec/good/every-field.yaml"))
	require.NoError(t, err)
	text := modeline + string(every)
	d := editor.open(filepath.Join(folder, "hover.yaml"), "yaml", text)
	parts := map[string]string{
		"kind":        "Allowed Values:\n\n* `fixed window`",
		"rate":        "The tokens granted per `period`.",
		"key":         "Every part becomes a parameter of the method.",
		"capacity":    "Default: `rate`; required for `in flight`.",
		"hold":        "Then its holder is presumed dead.",
		"maxReserved": "the limit has no method `Reserve`",
	}
	for name, f := range s.Definitions.Limit.Properties {
		require.Contains(t, text, "\n    "+name+":")
		d.change(strings.Replace(text, "\n    "+name+":", "\n    "+name[:1]+cursor+name[1:]+":", 1))
		shown := d.hover()
		assert.True(t, strings.HasPrefix(shown, "#### "+name+"\n\n"+f.MarkdownDescription+"\n\n"), "%s: %s", name, shown)
		assert.Contains(t, shown, parts[name])
	}
}

func TestYAMLProblems(t *testing.T) {
	editor, folder, _ := begin(t)
	const limit = "kind: token bucket\nrate: 10\nperiod: 1m\n"
	for _, row := range []struct{ name, fields, line, message string }{
		{"a misspelled field", limit + "capcity: 20", "capcity: 20", "Property capcity is not allowed."},
		{"a wrong kind", "kind: leaky bucket\nrate: 10\nperiod: 1m", "kind: leaky bucket",
			`Value is not accepted. Valid values: "token bucket", "fixed window", "sliding window", "in flight".`},
		{"no rate", "kind: token bucket\nperiod: 1m", "sendMessage:", `Missing property "rate".`},
		{"too low", "kind: token bucket\nrate: 0\nperiod: 1m", "rate: 0", "Value is below the minimum of 1."},
		{"too high", limit + "shards: 1025", "shards: 1025", "Value is above the maximum of 1024."},
		{"a fraction", "kind: token bucket\nrate: 1.5\nperiod: 1m", "rate: 1.5", "Incorrect type. Expected one of integer, string, object."},
		{"no unit", "kind: token bucket\nrate: 10\nperiod: 60", "period: 60", "Incorrect type. Expected one of string, object."},
		{"a map of periods of windows", "kind: fixed window\nrate: 10\nperiod: {free: 1m}", "period: {free: 1m}", "Windows have the same period for all plans."},
		{"a plan's value", "kind: token bucket\nrate: {free: none}\nperiod: 1m", "rate: {free: none}", "Write a whole number of tokens, or unlimited."},
		{"a number that callers give", "kind: token bucket\nrate: {at most: 0}\nperiod: 1m", "rate: {at most: 0}", "Value is below the minimum of 1."},
		{"no number that callers give", "kind: token bucket\nrate: {at most: some}\nperiod: 1m", "rate: {at most: some}", "Write the most that callers can give, a whole number of tokens, or unlimited."},
		{"a number by plan and from callers", "kind: token bucket\nrate: {at most: 10, free: 5}\nperiod: 1m", "rate: {at most: 10, free: 5}", "Object has more properties than limit of 1."},
		{"no such unit", "kind: token bucket\nrate: 10\nperiod: 60x", "period: 60x", "Write a duration such as 90s, 1h30m, 1d or 2w; " +
			"units: ns, us, ms, s, m, h, d (24 hours) and w (7 days); or day, week, month, year or 3 months; at most 3650d."},
		{"no start", "kind: fixed window\nrate: 10\nperiod: 1m\nstart: noon", "start: noon", "Write an RFC 3339 instant, a duration, or first use; for calendar units, such as 15th, monday, april 6th, 06:00, anniversary."},
		{"a list of keys", limit + "key: [userID]", "key: [userID]", "Incorrect type. Expected one of string, object."},
		{"another kind's field", limit + "start: 1h", "start: 1h", "A token bucket has no windows to start. Leave start out, or use a fixed window."},
		{"the capacity of windows that slide", "kind: sliding window\nrate: 10\nperiod: 1m\ncapacity: 5", "capacity: 5", "A sliding window has no capacity of its own. Leave capacity out: it is the rate."},
		{"windows that slide and are reserved", "kind: sliding window\nrate: 10\nperiod: 1m\nmaxReserved: 5", "maxReserved: 5", "A sliding window has no reservations. Leave maxReserved out, or use a token bucket."},
		{"slots without a hold", "kind: in flight\ncapacity: 5", "sendMessage:", `Missing property "hold".`},
		{"the rate of slots", "kind: in flight\ncapacity: 5\nhold: 2m\nrate: 5", "rate: 5", "A limit in flight has no rate. Leave rate out: capacity is how many can be held at once."},
	} {
		t.Run(row.name, func(t *testing.T) {
			text := opening + "    " + strings.ReplaceAll(row.fields, "\n", "\n    ") + "\n"
			d := editor.open(filepath.Join(folder, row.name+".yaml"), "yaml", text)
			assert.Equal(t, [][2]string{{row.line, row.message}}, d.problems())
		})
	}
}

// The server finds the schema of a file of init in any folder and by any name.
func TestYAMLOfInit(t *testing.T) {
	editor, folder, _ := begin(t)
	for _, name := range []string{"limits.yaml", "quotas.yaml", "internal/limits/limits.yml", "my limits.yaml"} {
		t.Run(name, func(t *testing.T) {
			if name != "limits.yaml" {
				ratelimitgen(t, folder, "init", name)
			}
			d := editor.openAsIs(filepath.Join(folder, name), "yaml", "burst: 7\n")
			require.Equal(t, [][2]string{{"burst: 7", "Property burst is not allowed."}}, d.problems())
			d.change(strings.TrimSuffix(d.text, "burst: 7\n"))
			assert.Empty(t, d.problems())
		})
	}
}

func TestYAMLOfExample(t *testing.T) {
	editor, folder, _ := begin(t)
	example, err := os.ReadFile(filepath.Join(root, "limits.example.yaml"))
	require.NoError(t, err)
	d := editor.open(filepath.Join(folder, "example.yaml"), "yaml", modeline+string(example)+"burst: 7\n")
	require.Equal(t, [][2]string{{"burst: 7", "Property burst is not allowed."}}, d.problems())
	d.change(modeline + string(example))
	assert.Empty(t, d.problems())
}

// ajv ignores the keywords for editors, unless it is in strict mode.
func TestSchemaInAjv(t *testing.T) {
	ajv := fromNPM(t, "ajv")
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "schema.json"), []byte(ratelimitgen(t, folder, "schema")), 0o644))
	const script = `
		const ajv = new (require(process.argv[1] + "/node_modules/ajv"))({strict: false, allErrors: true})
		const valid = ajv.compile(require(process.argv[2] + "/schema.json"))
		const limit = {kind: "token bucket", rate: 10, period: "1m", key: {userID: "int64"}, capacity: "1_000"}
		const file = (changes) => ({version: 1, limits: {sendMessage: {...limit, ...changes}}})
		for (const changes of [{}, {start: "8h"}, {rate: 0}, {capacity: "1.5"}, {kind: "sliding window"}, {key: "userID"}, {key: []}])
			console.log(JSON.stringify(changes), valid(file(changes)))`
	out, err := exec.Command("node", "-e", script, ajv, folder).CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Equal(t, `{} true
{"start":"8h"} false
{"rate":0} false
{"capacity":"1.5"} false
{"kind":"sliding window"} false
{"key":"userID"} true
{"key":[]} false
`, string(out))
}
