package fields

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// one parses a file of one limit with the given lines, which must be valid.
func one(t testing.TB, lines ...string) *spec.Limit {
	t.Helper()
	parsed, ds := Parse("limits.yaml", []byte(ids.LimitOf(lines...)))
	require.Empty(t, ds)
	return parsed.Limits[0]
}

func TestAbsentFieldsHaveDefaults(t *testing.T) {
	for _, test := range []struct {
		lines                 []string
		capacity, maxReserved int64
	}{
		{[]string{"kind: token bucket"}, 10, 0},
		{[]string{"kind: token bucket", "capacity: 20"}, 20, 0},
		{[]string{"kind: token bucket", "maxReserved: 0"}, 10, 0},
		{[]string{"kind: token bucket", "capacity: 0", "maxReserved: unbounded"}, 0, runtime.Unbounded},
		{[]string{"kind: fixed window"}, 10, 0},
		{[]string{"kind: fixed window", "maxReserved: 7"}, 10, 7},
		{[]string{"kind: sliding window"}, 10, 0},
		{[]string{"kind: sliding window", "maxReserved: 0"}, 10, 0},
	} {
		policy := one(t, append(test.lines, "rate: 10", "period: 1m")...).Policy
		assert.Equal(t, test.capacity, policy.Capacity, test.lines)
		assert.Equal(t, test.maxReserved, policy.MaxReserved, test.lines)
		assert.Equal(t, "sendMessage", policy.Name)
	}
}

func TestValuesAreReadExactly(t *testing.T) {
	limit := one(t, "kind: fixed window", "rate: 1_6", "period: 1d12h", "shards: 2", "start: 2024-01-01T00:00:00+01:00",
		"key: {user: int64, team: string}", `doc: "one \r\ntwo */  \n\n"`)
	assert.Equal(t, int64(16), limit.Policy.Rate)
	assert.Equal(t, 36*time.Hour, limit.Policy.Period)
	assert.Equal(t, 2, limit.Policy.Shards)
	assert.Equal(t, runtime.StartAt(time.Date(2023, 12, 31, 23, 0, 0, 0, time.UTC)), limit.Policy.Start)
	assert.Equal(t, []spec.KeyPart{{Name: "user", Type: "int64"}, {Name: "team", Type: "string"}}, limit.Key)
	assert.Equal(t, "one\ntwo */", limit.Doc)
	assert.Equal(t, diag.Pos{Line: 3, Column: 3}, limit.Pos)
	assert.Equal(t, diag.Pos{Line: 5, Column: 11}, limit.Places["rate"])
	assert.False(t, limit.CapacityGiven)
	assert.True(t, one(t, ids.Bucket, "capacity: 10").CapacityGiven)
	limit = one(t, ids.Bucket, "lease: {tokens: 5, for: 200ms}", "denyCache: 1s", "durability: full")
	assert.Equal(t, runtime.Lease{Tokens: 5, For: 200 * time.Millisecond}, limit.Policy.Lease)
	assert.Equal(t, time.Second, limit.Policy.DenyCache)
	assert.Equal(t, runtime.DurabilityFull, limit.Policy.Durability)
}

func TestStartIsInstantOffsetOrFirstUse(t *testing.T) {
	for text, want := range map[string]runtime.Start{
		"first use": runtime.StartFirstUse(),
		"0":         runtime.StartOffset(0),
		"8h":        runtime.StartOffset(8 * time.Hour),
		"-90m":      runtime.StartOffset(-90 * time.Minute),
	} {
		assert.Equal(t, want, one(t, "kind: fixed window", "rate: 1", "period: 1d", "start: "+text).Policy.Start, text)
	}
	assert.Equal(t, runtime.Start{}, one(t, "kind: fixed window", "rate: 1", "period: 1d").Policy.Start)
}

func TestGoNamesCapitalizeInitialisms(t *testing.T) {
	for name, want := range map[string]string{
		"sendMessage": "SendMessage", "llmTokens": "LLMTokens", "apiKey": "APIKey", "userID": "UserID", "userId": "UserID",
		"httpURLs": "HTTPURLs", "utf8Name": "UTF8Name", "ipV4": "IPV4", "x": "X", "idle": "Idle", "maxQps": "MaxQPS",
	} {
		assert.Equal(t, want, spec.GoName(name))
	}
}

func TestSuggestionsAreAccepted(t *testing.T) {
	for name, src := range corpus(t, "bad") {
		_, ds := Parse(name, src)
		lines := strings.Split(strings.TrimPrefix(string(src), "\uFEFF"), "\n")
		for _, d := range ds {
			for _, offer := range d.Meant {
				line := []rune(lines[d.Pos.Line-1])
				mended := slices.Clone(lines)
				mended[d.Pos.Line-1] = string(line[:d.Pos.Column-1]) + offer + string(line[d.End.Column-1:])
				_, left := Parse(name, []byte(strings.Join(mended, "\n")))
				same := slices.ContainsFunc(left, func(l diag.Diagnostic) bool { return l.Pos == d.Pos && l.ID == d.ID })
				assert.False(t, same, "%s: %s: %s", name, d.Message, offer)
			}
		}
	}
}

func TestManyBuildLinesAreOneDiagnostic(t *testing.T) {
	_, ds := Parse("limits.yaml", []byte(ids.LimitOf(ids.Bucket, `doc: "`+strings.Repeat(`\n+build x`, 100_000)+`"`)))
	assert.Equal(t, []string{ids.BadDoc.ID}, idsOf(ds))
}

func TestFileAboveMaxSizeIsRefused(t *testing.T) {
	parsed, ds := Parse("limits.yaml", []byte(ids.Valid+"# "+strings.Repeat("x", document.MaxSize)))
	assert.Nil(t, parsed)
	assert.Equal(t, []string{ids.FileTooLarge.ID}, idsOf(ds))
}

// However many errors a file has, some are described and the others counted.
func TestDescribedErrorsAreBounded(t *testing.T) {
	names := make([]string, 5000)
	for i := range names {
		names[i] = fmt.Sprintf("p%d", i)
	}
	many := func(format string) string {
		var out strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&out, format, i)
		}
		return out.String()
	}
	for what, test := range map[string]struct {
		src    string
		errors int
	}{
		"unknown fields":    {ids.Valid + many("x%d: 1\n"), 5000},
		"unknown limits":    {manyLimits(2000) + "groups:\n" + many("  g%d: {takes: [limitt]}\n"), 5000},
		"unknown zones":     {"version: 1\nlimits:\n" + many("  l%d: {kind: fixed window, rate: 1, period: day, zone: Berlinn}\n"), 5000},
		"groups and limits": {"version: 1\nlimits:\n" + many("  l%d: {kind: token bucket, rate: 1, period: 1s}\n") + "groups:\n" + many("  l%d: {takes: [l1]}\n"), 5000},
		"plans":             {"version: 1\nplans: [" + strings.Join(names, ", ") + "]\nlimits: {l: {kind: token bucket, rate: 1, period: 1s}}\n", 1},
	} {
		_, ds := Parse("limits.yaml", []byte(test.src))
		assert.Equal(t, test.errors, ds.Errors(), what)
		require.Len(t, ds, min(test.errors, diag.MaxDiagnostics), what)
		var out strings.Builder
		require.NoError(t, ds.WriteText(&out, false))
		assert.Less(t, out.Len(), 100_000, what)
		if more := test.errors - len(ds); more > 0 {
			assert.Contains(t, out.String(), "5,000 errors in limits.yaml, 4,900 of them not shown\n", what)
		}
	}
}

// The errors that are described are the first ones of the file, in whichever order they are found.
func TestDescribedErrorsAreTheFirstOfTheFile(t *testing.T) {
	var src strings.Builder
	src.WriteString("version: 1\ngroups:\n")
	for i := range 60 {
		fmt.Fprintf(&src, "  g%d: {takes: [sendMesage]}\n", i) // found last
	}
	src.WriteString("limits:\n  sendMessage: {kind: token bucket, rate: 10, period: 1m}\n")
	for i := range 200 {
		fmt.Fprintf(&src, "  l%d: {kind: tokn bucket, rate: 10, period: 1m}\n", i)
	}
	_, ds := Parse("limits.yaml", []byte(src.String()))
	require.Len(t, ds, diag.MaxDiagnostics)
	assert.Equal(t, 260, ds.Errors())
	for i, d := range ds {
		want := 3 + i
		if i >= 60 {
			want += 2
		}
		assert.Equal(t, want, d.Pos.Line, "%d: %s", i, d.Message)
		assert.Contains(t, d.Help, "did you mean", "%s", d.Message)
	}
}

// Most of the work on an error is to find what a wrong name means. That work is bounded, however many names are wrong and
// however many are right.
func TestWorkOnManyErrorsIsBounded(t *testing.T) {
	const n = 5_000
	many := func(format string) string {
		var out strings.Builder
		for i := range n {
			fmt.Fprintf(&out, format, i)
		}
		return out.String()
	}
	const limit = "version: 1\nlimits:\n  l: {kind: token bucket, rate: 1, period: 1s, "
	for what, src := range map[string]string{
		"fields of the file":   ids.Valid + many("x%d: 1\n"),
		"fields of a limit":    "version: 1\nlimits:\n  l:\n" + many("    x%d: 1\n"),
		"fields of overrides":  limit + "overrides: {" + many("x%d: 1, ") + "}}\n",
		"types of key parts":   limit + "key: {" + many("p%d: strng, ") + "}}\n",
		"kinds":                "version: 1\nlimits:\n" + many("  l%d: {kind: tokn bucket, rate: 1, period: 1s}\n"),
		"zones":                "version: 1\nlimits:\n" + many("  l%d: {kind: fixed window, rate: 1, period: day, zone: Brlin}\n"),
		"plans":                "version: 1\nplans: [free, pro]\nlimits:\n  l: {kind: token bucket, period: 1s, rate: {" + many("proo%d: 1, ") + "}}\n",
		"limits of a group":    "version: 1\nlimits:\n" + many("  limit%d: {kind: token bucket, rate: 1, period: 1s}\n") + "groups:\n  g: {takes: [" + many("limitt%d, ") + "]}\n",
		"key parts of a group": limit + "key: {user: int, team: int}}\ngroups:\n  g: {takes: {l: {" + many("usr%d: a, ") + "}}}\n",
	} {
		doc := document.New(diag.NewSource("limits.yaml", src))
		read(doc)
		require.GreaterOrEqual(t, len(doc.Found), n, what)
		assert.Positive(t, doc.Compared, what)
		assert.LessOrEqual(t, doc.Compared, document.MostCompared, what)
	}
}

func TestOnlyColoredTextHasEscapeCodes(t *testing.T) {
	_, ds := Parse("limits.yaml", []byte("version: 1\nversion: 2\nlimits: {}\n"))
	var plain, colored strings.Builder
	require.NoError(t, ds.WriteText(&plain, false))
	require.NoError(t, ds.WriteText(&colored, true))
	assert.NotContains(t, plain.String(), "\x1b")
	assert.Contains(t, colored.String(), "\x1b[1;31merror:\x1b[0m")
}

// manyLimits returns a file with n limits of seven lines each.
func manyLimits(n int) string {
	var out strings.Builder
	out.WriteString("version: 1\nlimits:\n")
	for i := range n {
		fmt.Fprintf(&out, "  limit%d:\n    doc: bounds the %d.\n    key: {userID: int64}\n    kind: token bucket\n    rate: %d\n    period: 1m\n\n", i, i, i+1)
	}
	return out.String()
}

// The line of a syntax error is found by parsing prefixes of the file, whose number must not grow with its length.
func TestSyntaxErrorsOfLongFilesAreOnTheirLine(t *testing.T) {
	for _, fault := range []string{"  a: b: c\n", "  x: [1, 2\n", "  x: \"never closed\n", " x: 1\n", "\tx: 1\n", "  x: *nowhere\n", "  x\n"} {
		for _, src := range []string{manyLimits(400) + fault, manyLimits(200) + fault + strings.SplitN(manyLimits(200), "\n", 3)[2]} {
			_, ds := Parse("limits.yaml", []byte(src))
			require.NotEmpty(t, ds, "%q", fault)
			want := 1 + strings.Count(src[:strings.Index(src, fault)], "\n")
			assert.Equal(t, want, ds[0].Pos.Line, "%q", fault)
		}
	}
}

// FuzzParse edits fields of the corpus. The fuzzer's own edits of bytes seldom give YAML, and files that break the parser
// have all but one of their fields in order.
func FuzzParse(f *testing.F) {
	values := fieldValues(f)
	for _, side := range []string{"good", "bad"} {
		for _, src := range corpus(f, side) {
			for edits := range uint64(3) {
				f.Add(src, edits)
			}
		}
	}
	f.Fuzz(func(t *testing.T, src []byte, edits uint64) {
		src = edited(src, edits, values)
		parsed, ds := Parse("limits.yaml", src)
		if (parsed == nil) != (len(ds) > 0) {
			t.Fatalf("file %v with diagnostics %v\n%s", parsed, ds, src)
		}
		lines := 1 + strings.Count(string(src), "\n")
		for _, d := range ds {
			checkPlace(t, d.Pos, d.End, lines)
			for _, n := range d.Notes {
				checkPlace(t, n.Pos, n.End, lines)
			}
			if text := d.Message + d.Help; text != diag.OneLine(text) || !utf8.ValidString(text) {
				t.Fatalf("the message is not one plain line: %q %q", d.Message, d.Help)
			}
		}
		if parsed == nil {
			return
		}
		for _, limit := range parsed.Limits {
			for _, of := range append(limit.Each(), limit) {
				if err := of.Policy.Validate(); err != nil {
					t.Fatalf("%v\n%s", err, src)
				}
				_, _ = Sentences(of)
			}
		}
	})
}

// aField matches a field with its value, in either style of a map.
var aField = regexp.MustCompile(`([A-Za-z]+): *(\{[^{}\n]*\}|\[[^][\n]*\]|[^][,{}\n]+)`)

// fieldValues returns the values that a field has anywhere in the corpus, and those of random limits.
func fieldValues(t testing.TB) map[string][]string {
	values := map[string][]string{}
	for _, side := range []string{"good", "bad"} {
		for _, src := range corpus(t, side) {
			for _, match := range aField.FindAllSubmatch(src, -1) {
				name, value := string(match[1]), string(match[2])
				if !slices.Contains(values[name], value) {
					values[name] = append(values[name], value)
				}
			}
		}
	}
	for name, more := range randomValues {
		values[name] = append(values[name], more...)
	}
	for name := range values {
		slices.Sort(values[name])
	}
	return values
}

// edited returns a file with up to three fields left out, given another value, or added. Edits of 0 are none.
func edited(src []byte, edits uint64, values map[string][]string) []byte {
	if edits == 0 {
		return src
	}
	d := rand.New(rand.NewPCG(edits, 0))
	limitFields := names(limitFields)
	for range 1 + d.IntN(3) {
		matches := aField.FindAllSubmatchIndex(src, -1)
		if len(matches) == 0 {
			return src
		}
		at := matches[d.IntN(len(matches))]
		begin, value, end := at[0], at[4], at[1]
		switch d.IntN(3) {
		case 0:
			if bytes.HasPrefix(src[end:], []byte(", ")) {
				end += len(", ")
			}
			src = slices.Concat(src[:begin], src[end:])
		case 1:
			if others := values[string(src[at[2]:at[3]])]; len(others) > 0 {
				src = slices.Concat(src[:value], []byte(others[d.IntN(len(others))]), src[end:])
			}
		default:
			added := limitFields[d.IntN(len(limitFields))]
			if others := values[added]; len(others) > 0 {
				text := added + ": " + others[d.IntN(len(others))] + ", "
				line := src[bytes.LastIndexByte(src[:begin], '\n')+1 : begin]
				if len(bytes.TrimSpace(line)) == 0 { // one field in each line
					text = strings.TrimSuffix(text, ", ") + "\n" + string(line)
				}
				src = slices.Concat(src[:begin], []byte(text), src[begin:])
			}
		}
	}
	return src
}

func checkPlace(t *testing.T, pos, end diag.Pos, lines int) {
	t.Helper()
	if pos.Line < 1 || pos.Line > lines || pos.Column < 1 || end.Line != pos.Line || end.Column < pos.Column {
		t.Fatalf("the place %v to %v is not within %d lines", pos, end, lines)
	}
}

// The YAML reader often reports a stray character on a later line, or names no line.
func TestStrayCharacterIsReportedOnItsLine(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(ids.Valid, "\n"), "\n")
	for _, stray := range []string{
		"{", "}", "[", "]", "'", `"`, ",", "\t", "\v", "\f", "\x01", "\x7f", "\u0085", "\u00a0", "\u2028", "\u200b",
		"<<<<<<< HEAD", "=======", ">>>>>>> other", "||||||| base",
	} {
		for i := 1; i <= len(lines); i++ {
			text := strings.Join(slices.Insert(slices.Clone(lines), i, stray), "\n")
			_, ds := Parse("limits.yaml", []byte(text+"\n"))
			if assert.NotEmpty(t, ds, "%q after line %d", stray, i) {
				assert.Equal(t, i+1, ds[0].Pos.Line, "%q after line %d: %s", stray, i, ds[0].Message)
			}
		}
	}
}

// randomValues are the values of random limits: ordinary ones, the edges of the accepted range, and some beyond.
var randomValues = map[string][]string{
	"kind":        diag.Texts(runtime.Kinds()),
	"rate":        {"1", "2", "10", "1024", "40_000", "1_000_000_000_000_000", "0", "1_000_000_000_000_001"},
	"period":      {"1ns", "1m", "1h30m", "2w", "3650d", "3650d1ns", "0s"},
	"capacity":    {"", "0", "1", "10", "1_000_000_000_000_000", "1_000_000_000_000_001"},
	"maxReserved": {"", "0", "unbounded", "1", "5", "1_000_000_000_000_000", "1_000_000_000_000_001"},
	"shards":      {"", "1", "2", "10", "1024", "1025"},
	"start":       {"", "", "0s", "8h", "2026-01-01T00:00:00Z", "first use", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "3650d"},
	"penalty":     {"", "", "", "", "", "", "", "", "", "", "15m", "[1s, 3650d, 1ns]", "off", "[1s, 0s]"},
	"warn":        {"", "", "", "", "", "", "", "", "", "80%", "[80%, 100%]", "[1%, 2%, 3%, 4%, 5%, 6%, 7%, 100%]", "101%"},
	"forgive":     {"", "", "", "", "", "", "", "", "1d"},
	"timeout":     {"", "50ms", "1ns", "3650d", "3651d"},
	"onError":     {"", "open", "closed", "local"},
	"jitter":      {"", "10s", "3650d", "1ns"},
	"denyCache":   {"", "1s", "3650d", "1ns"},
	"lease":       {"", "", "{tokens: 1, for: 1ns}", "{tokens: 10, for: 200ms}", "{tokens: 2, for: 3650d}", "{tokens: 0, for: 1s}"},
	"durability":  {"", "relaxed", "full"},
}

// randomLimit returns a file with one limit.
func randomLimit(d *rand.Rand) string {
	name := "limit" + strings.Repeat("x", d.IntN(2)*(245+d.IntN(10)))
	fields := ""
	for _, f := range limitFields {
		if values := randomValues[f.name]; values != nil {
			if v := values[d.IntN(len(values))]; v != "" {
				fields += fmt.Sprintf("    %s: %s\n", f.name, v)
			}
		}
	}
	return "version: 1\nlimits:\n  " + name + ":\n" + fields
}

// A limit without a diagnostic must be a policy that the runtime accepts: otherwise every call of its generated method
// returns an error.
func TestRandomLimitsWithoutDiagnosticsAreValid(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	d := rand.New(rand.NewPCG(seed, 1))
	accepted := 0
	for range 8000 {
		src := randomLimit(d)
		file, ds := Parse("limits.yaml", []byte(src))
		if len(ds) > 0 {
			continue
		}
		accepted++
		for _, limit := range file.Limits {
			require.NoError(t, limit.Policy.Validate(), "seed %d:\n%s", seed, src)
		}
	}
	require.Greater(t, accepted, 50) // about 90 of 8,000 are valid
}
