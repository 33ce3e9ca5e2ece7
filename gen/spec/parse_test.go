package spec

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/printable"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// one parses a file of one limit with the given lines, which must be valid.
func one(t testing.TB, lines ...string) *Limit {
	t.Helper()
	parsed, ds := Parse("limits.yaml", []byte(limitOf(lines...)))
	require.Empty(t, ds)
	return parsed.Limits[0]
}

func TestDefaults(t *testing.T) {
	for _, test := range []struct {
		lines                 []string
		capacity, maxReserved int64
	}{
		{[]string{"kind: token bucket"}, 10, runtime.Unbounded},
		{[]string{"kind: token bucket", "capacity: 20"}, 20, runtime.Unbounded},
		{[]string{"kind: token bucket", "maxReserved: 0"}, 10, 0},
		{[]string{"kind: token bucket", "capacity: 0"}, 0, runtime.Unbounded},
		{[]string{"kind: fixed window"}, 10, runtime.Unbounded},
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

func TestValues(t *testing.T) {
	limit := one(t, "kind: fixed window", "rate: 1_6", "period: 1d12h", "shards: 2", "start: 2024-01-01T00:00:00+01:00",
		"key: {user: int64, team: string}", `doc: "one \r\ntwo */  \n\n"`)
	assert.Equal(t, int64(16), limit.Policy.Rate)
	assert.Equal(t, 36*time.Hour, limit.Policy.Period)
	assert.Equal(t, 2, limit.Policy.Shards)
	assert.Equal(t, runtime.StartAt(time.Date(2023, 12, 31, 23, 0, 0, 0, time.UTC)), limit.Policy.Start)
	assert.Equal(t, []KeyPart{{"user", "int64"}, {"team", "string"}}, limit.Key)
	assert.Equal(t, "one\ntwo */", limit.Doc)
	assert.Equal(t, Pos{3, 3}, limit.Pos)
	assert.Equal(t, Pos{5, 11}, limit.Given["rate"])
	assert.NotContains(t, limit.Given, "capacity")
	limit = one(t, bucket, "lease: {tokens: 5, for: 200ms}", "denyCache: 1s", "durability: full")
	assert.Equal(t, runtime.Lease{Tokens: 5, For: 200 * time.Millisecond}, limit.Policy.Lease)
	assert.Equal(t, time.Second, limit.Policy.DenyCache)
	assert.Equal(t, runtime.DurabilityFull, limit.Policy.Durability)
}

func TestStarts(t *testing.T) {
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

func TestGoNames(t *testing.T) {
	for name, want := range map[string]string{
		"sendMessage": "SendMessage", "llmTokens": "LLMTokens", "apiKey": "APIKey", "userID": "UserID", "userId": "UserID",
		"httpURLs": "HTTPURLs", "utf8Name": "UTF8Name", "ipV4": "IPV4", "x": "X", "idle": "Idle", "maxQps": "MaxQPS",
	} {
		assert.Equal(t, want, goName(name))
	}
}

func TestWords(t *testing.T) {
	for _, test := range []struct {
		lines []string
		want  []string
	}{
		{
			[]string{"kind: token bucket", "rate: 10", "period: 1m", "capacity: 20", "maxReserved: 0"},
			[]string{"Token bucket: 10 per minute, at most 20 at once."},
		},
		{
			[]string{"kind: token bucket", "rate: 40_000", "period: 90s", "capacity: 0", "shards: 10"},
			[]string{"Token bucket: 40,000 per 90 seconds, each reserved ahead.", "Callers may reserve as far ahead as they like.", "Each count is split into 10 shards."},
		},
		{
			[]string{"kind: fixed window", "rate: 5", "period: 1w", "capacity: 7", "maxReserved: 2", "start: 4d"},
			[]string{"Fixed window: 5 per week, and what is not used piles up to 7.", "Windows begin on Monday at 00:00 UTC.", "Callers may reserve at most 2 ahead."},
		},
		{
			[]string{"kind: fixed window", "rate: 5", "period: 24h", "capacity: 3", "maxReserved: 0", "start: 8h"},
			[]string{"Fixed window: 5 per day, at most 3 at once.", "Windows begin at 08:00 UTC."},
		},
		{
			[]string{"kind: fixed window", "rate: 5", "period: 1h", "maxReserved: 0", "start: 2024-05-06T07:08:09.5Z"},
			[]string{"Fixed window: 5 per hour.", "Windows begin at 00:08:09.5 UTC, and every hour."},
		},
		{
			[]string{"kind: fixed window", "rate: 5", "period: 36h", "maxReserved: 0", "start: 2024-05-06T07:08:00+02:00"},
			[]string{"Fixed window: 5 per 36 hours.", "A window begins at Mon 2024-05-06 05:08 UTC, and every 36 hours before and after it."},
		},
		{
			[]string{"kind: fixed window", "rate: 1", "period: 2h", "maxReserved: 0", "start: first use"},
			[]string{"Fixed window: 1 per 2 hours.", "A window begins at the first request after the one before ended."},
		},
		{
			[]string{"kind: token bucket", "rate: 1_000", "period: 1s", "maxReserved: 0", "lease: {tokens: 100, for: 200ms}", "denyCache: 1s", "durability: relaxed"},
			[]string{
				"Token bucket: 1,000 per second, at most 1,000 at once.",
				"A process takes 100 tokens at a time, and spends them from its memory within 200ms.",
				"At most 1,000 + 1,000*(t + 200ms)/1s can be used in any time t.",
				"A process remembers a denial for at most 1s.",
				"A crash of the database's machine may lose the counts of the last moments.",
			},
		},
		{
			[]string{"kind: token bucket", "rate: 10", "period: 1m", "capacity: 20", "maxReserved: 5", "lease: {tokens: 1, for: 1s}", "durability: full"},
			[]string{
				"Token bucket: 10 per minute, at most 20 at once.",
				"Callers may reserve at most 5 ahead.",
				"A process takes 1 token at a time, and spends it from its memory within 1s.",
				"At most 20 + 10*(t + 1s)/1m can be used in any time t, or 25 + 10*t/1m if that is more.",
				"A decision waits until the database's disk has the counts.",
			},
		},
		{
			[]string{"kind: token bucket", "rate: 10", "period: 1m", "lease: {tokens: 10, for: 1s}"},
			[]string{
				"Token bucket: 10 per minute, at most 10 at once.",
				"Callers may reserve as far ahead as they like.",
				"A process takes 10 tokens at a time, and spends them from its memory within 1s.",
				"At most 10 + 10*(t + 1s)/1m can be used in any time t, and what is reserved.",
			},
		},
		{
			[]string{"kind: fixed window", "rate: 5", "period: 24h", "maxReserved: 0", "start: 8h", "lease: {tokens: 5, for: 1m}"},
			[]string{
				"Fixed window: 5 per day.",
				"Windows begin at 08:00 UTC.",
				"A process takes 5 tokens at a time, and spends them from its memory within 1m.",
				"A block ends with its window, so that no window has more for it.",
			},
		},
		{
			[]string{"kind: sliding window", "rate: 5", "period: 1ns", "key: userID"},
			[]string{"Sliding window: about 5 in any nanosecond.", "Each key's windows begin at a time of its own, the same for ever."},
		},
		{
			[]string{"kind: sliding window", "rate: 5", "period: 1500ms"},
			[]string{"Sliding window: about 5 in any 1,500 milliseconds.", "Windows begin at a time of this limit's own, the same for ever."},
		},
	} {
		assert.Equal(t, test.want, one(t, test.lines...).Words())
	}
}

// What is offered in place of something wrong is not wrong itself.
func TestOffersAreAccepted(t *testing.T) {
	for name, src := range corpus(t, "bad") {
		_, ds := Parse(name, src)
		lines := strings.Split(strings.TrimPrefix(string(src), "\uFEFF"), "\n")
		for _, d := range ds {
			for _, offer := range d.meant {
				line := []rune(lines[d.Pos.Line-1])
				mended := slices.Clone(lines)
				mended[d.Pos.Line-1] = string(line[:d.Pos.Column-1]) + offer + string(line[d.End.Column-1:])
				_, left := Parse(name, []byte(strings.Join(mended, "\n")))
				same := slices.ContainsFunc(left, func(l Diagnostic) bool { return l.Pos == d.Pos && l.ID == d.ID })
				assert.False(t, same, "%s: %s: %s", name, d.Message, offer)
			}
		}
	}
}

func TestNothingIsSaidTwice(t *testing.T) {
	for name, src := range corpus(t, "bad") {
		_, ds := Parse(name, src)
		said := map[string]bool{}
		for _, d := range ds {
			what := fmt.Sprint(d.Pos, d.ID, d.Message)
			assert.False(t, said[what], "%s: %s", name, what)
			said[what] = true
		}
	}
}

func TestManyBuildLinesAreOneFault(t *testing.T) {
	_, ds := Parse("limits.yaml", []byte(limitOf(bucket, `doc: "`+strings.Repeat(`\n+build x`, 100_000)+`"`)))
	assert.Equal(t, []string{badDoc}, ids(ds))
}

func TestTooLargeFile(t *testing.T) {
	parsed, ds := Parse("limits.yaml", []byte(valid+"# "+strings.Repeat("x", MaxSize)))
	assert.Nil(t, parsed)
	assert.Equal(t, []string{fileTooLarge}, ids(ds))
}

func TestColor(t *testing.T) {
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

// The line of a syntax error is found by parsing parts of the file, which must stay few in a long one.
func TestSyntaxErrorsOfLongFiles(t *testing.T) {
	for _, fault := range []string{"  a: b: c\n", "  x: [1, 2\n", "  x: \"never closed\n", " x: 1\n", "\tx: 1\n", "  x: *nowhere\n", "  x\n"} {
		for _, src := range []string{manyLimits(400) + fault, manyLimits(200) + fault + strings.SplitN(manyLimits(200), "\n", 3)[2]} {
			_, ds := Parse("limits.yaml", []byte(src))
			require.NotEmpty(t, ds, "%q", fault)
			want := 1 + strings.Count(src[:strings.Index(src, fault)], "\n")
			assert.Equal(t, want, ds[0].Pos.Line, "%q", fault)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, side := range []string{"good", "bad"} {
		for _, src := range corpus(f, side) {
			f.Add(src)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		parsed, ds := Parse("limits.yaml", src)
		if (parsed == nil) != (len(ds) > 0) {
			t.Fatalf("file %v with diagnostics %v", parsed, ds)
		}
		lines := 1 + strings.Count(string(src), "\n")
		for _, d := range ds {
			checkPlace(t, d.Pos, d.End, lines)
			for _, n := range d.Notes {
				checkPlace(t, n.Pos, n.End, lines)
			}
			if text := d.Message + d.Help; text != printable.Mask(text) || !utf8.ValidString(text) {
				t.Fatalf("a message that is not one plain line: %q %q", d.Message, d.Help)
			}
		}
		if parsed == nil {
			return
		}
		for _, limit := range parsed.Limits {
			if err := limit.Policy.Validate(); err != nil {
				t.Fatal(err)
			}
			_, _ = limit.Words(), limit.WorstCase()
		}
	})
}

func checkPlace(t *testing.T, pos, end Pos, lines int) {
	t.Helper()
	if pos.Line < 1 || pos.Line > lines || pos.Column < 1 || end.Line != pos.Line || end.Column < pos.Column {
		t.Fatalf("the place %v to %v is not within %d lines", pos, end, lines)
	}
}

func BenchmarkParse(b *testing.B) {
	src := []byte(manyLimits(1000))
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		if _, ds := Parse("limits.yaml", src); ds != nil {
			b.Fatal(ds)
		}
	}
}

// YAML often notices a stray character only on a later line, or names none.
func TestStrayCharacterIsReportedOnItsLine(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(valid, "\n"), "\n")
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
