package render

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/dense"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/judge"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var update = flag.Bool("update", false, "write the output into the cases")

// casesIn is the directory of the cases. A case has sections below lines "-- name --": the files "old" and "new", and then
// the expected output: as text in every case, and in other formats in a few that cover them.
const casesIn = "../../testdata/review"

type section struct{ name, text string }

// sectionMark is the line before a section. SQL has comments that begin with dashes, too.
var sectionMark = regexp.MustCompile(`(?m)^-- (\w+) --\n`)

func readCase(t testing.TB, path string) (sections []section) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	marks := sectionMark.FindAllSubmatchIndex(text, -1)
	for i, m := range marks {
		end := len(text)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		sections = append(sections, section{string(text[m[2]:m[3]]), strings.TrimSuffix(string(text[m[1]:end]), "\n") + "\n"})
	}
	require.Greater(t, len(sections), 2, "%s needs a section for the result, such as an empty -- text --", path)
	require.Equal(t, []string{"old", "new"}, []string{sections[0].name, sections[1].name}, path)
	return sections
}

func writeCase(t *testing.T, path string, sections []section) {
	t.Helper()
	var out strings.Builder
	for _, s := range sections {
		out.WriteString("-- " + s.name + " --\n" + s.text)
	}
	require.NoError(t, os.WriteFile(path, []byte(out.String()), 0o644))
}

func parse(t testing.TB, name, text string) *spec.File {
	t.Helper()
	file, ds := fields.Parse(name, []byte(text))
	require.Empty(t, ds, "%s", text)
	return file
}

// eachCase calls a function with every case and its review.
func eachCase(t *testing.T, do func(t *testing.T, path string, sections []section, r *review.Review)) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(casesIn, "*.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		if filepath.Base(path) == "sentences.txt" {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			sections := readCase(t, path)
			do(t, path, sections, judge.Review(parse(t, "main:limits.yaml", sections[0].text), parse(t, "limits.yaml", sections[1].text)))
		})
	}
}

// sentence is a sentence that many cases have. sentences.txt has its text, with … for what differs from case to case; a case
// has its name and what differs, in parentheses, so that other words for it are an edit of one file.
type sentence struct {
	name string
	text *regexp.Regexp
}

func readSentences(t *testing.T) (list []sentence) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(casesIn, "sentences.txt"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		name, words, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		require.True(t, ok, line)
		// What differs ends with a word, and is in one sentence.
		pattern := strings.ReplaceAll(regexp.QuoteMeta(words), "…", `((?:[^.:]|[.:]\S)+?)`)
		list = append(list, sentence{name, regexp.MustCompile(pattern)})
	}
	return list
}

// shortened replaces the sentences in the notes and statements of a review, and adds their names to used.
func shortened(r *review.Review, sentences []sentence, used map[string]bool) *review.Review {
	shorten := func(text string) string {
		for _, s := range sentences {
			text = s.text.ReplaceAllStringFunc(text, func(found string) string {
				used[s.name] = true
				parts := s.text.FindStringSubmatch(found)[1:]
				return "(" + strings.TrimSuffix(s.name+": "+strings.Join(parts, "; "), ": ") + ")"
			})
		}
		return text
	}
	short := *r
	short.Subjects = slices.Clone(r.Subjects)
	for i := range short.Subjects {
		s := &short.Subjects[i]
		s.Notes, s.SQL = slices.Clone(s.Notes), slices.Clone(s.SQL)
		for k := range s.Notes {
			s.Notes[k].Text = shorten(s.Notes[k].Text)
		}
		for k := range s.SQL {
			s.SQL[k].Why = shorten(s.SQL[k].Why)
		}
	}
	return &short
}

func TestCases(t *testing.T) {
	sentences, used := readSentences(t), map[string]bool{}
	type form struct {
		write func(io.Writer, *review.Review, Options) error
		color bool
	}
	forms := map[string]form{"text": {WriteText, false}, "color": {WriteText, true}, "markdown": {WriteMarkdown, false}, "json": {WriteJSON, false}}
	eachCase(t, func(_ *testing.T, _ string, _ []section, r *review.Review) { shortened(r, sentences, used) })
	for _, s := range sentences {
		require.True(t, used[s.name], "no review has the sentence %q: if it has other words now, edit testdata/review/sentences.txt first", s.name)
	}
	eachCase(t, func(t *testing.T, path string, sections []section, r *review.Review) {
		short := shortened(r, sentences, used)
		for i, s := range sections[2:] {
			require.Contains(t, forms, s.name)
			var got bytes.Buffer
			require.NoError(t, forms[s.name].write(&got, short, Options{Color: forms[s.name].color}))
			want := []byte(s.text)
			switch {
			case *update && s.name == "json":
				sections[2+i].text = string(dense.JSON(got.Bytes()))
				continue
			case *update:
				sections[2+i].text = got.String()
				continue
			case s.name == "json":
				var err error
				want, err = dense.Indent(want)
				require.NoError(t, err)
			}
			assert.Equal(t, string(want), got.String(), "if the change is intended, run: go test ./gen/render -run Cases -update")
		}
		if *update {
			writeCase(t, path, sections)
		}
	})
}

// Every id and class, every field of every kind that has it, and every change from one kind to another needs a case.
func TestEveryChangeHasACase(t *testing.T) {
	shown := map[string]bool{}
	eachCase(t, func(_ *testing.T, _ string, _ []section, r *review.Review) {
		for i := range r.Subjects {
			for _, f := range r.Subjects[i].Findings {
				shown[f.Kind.ID] = true
				for _, class := range f.Classes() {
					shown[string(class)] = true
				}
				for _, c := range f.Changes {
					shown[c.Field] = true
					if c.Field != "" && c.New.Limit != nil {
						shown[c.Field+" of "+c.New.Limit.Policy.Kind.String()] = true
					}
					if c.Field == "kind" {
						shown[c.Old.Value+" to "+c.New.Value] = true
					}
				}
			}
		}
	})
	missing := slices.DeleteFunc(wanted(), func(change string) bool { return shown[change] })
	assert.Empty(t, missing, "no case in testdata/review has these changes: add them to a file there, and run go test ./gen/render -run Cases -update")
}

func wanted() (list []string) {
	for _, class := range review.Classes() {
		list = append(list, string(class))
	}
	// The fields that a kind does not have.
	without := map[string][]string{"token bucket": {"start", "precise", "count"}, "fixed window": {"precise"}, "sliding window": {"maxReserved", "count"},
		"in flight": {"rate", "count", "period", "zone", "maxReserved", "start", "precise", "shards", "prices", "priorities", "lease"}}
	for _, kind := range []string{"token bucket", "fixed window", "sliding window"} {
		without[kind] = append(without[kind], "hold")
	}
	for _, change := range ids.Changes() {
		list = append(list, change.ID)
	}
	for _, field := range fields.Fields() {
		for _, kind := range runtime.Kinds() {
			if field.Of == "a limit" && !slices.Contains(without[kind.String()], field.Name) {
				list = append(list, field.Name+" of "+kind.String())
			}
		}
	}
	for _, old := range runtime.Kinds() {
		for _, new := range runtime.Kinds() {
			if old != new {
				list = append(list, old.String()+" to "+new.String())
			}
		}
	}
	return list
}

// manyLimits returns a file of n limits.
func manyLimits(n int, rest string) string {
	var text strings.Builder
	text.WriteString("version: 1\nlimits:\n")
	for i := range n {
		fmt.Fprintf(&text, "  limit%d: {kind: token bucket, rate: %d, key: {userID: int64}, %s}\n", i, i+1, rest)
	}
	return text.String()
}

// BenchmarkReview measures a review of 1,000 changed limits relative to parsing the files, which every command does.
func BenchmarkReview(b *testing.B) {
	before, after := []byte(manyLimits(1000, "period: 1m")), []byte(manyLimits(1000, "period: 2m, capacity: 7, doc: x"))
	var reading, reviewing time.Duration
	for b.Loop() {
		start := time.Now()
		old, wrong := fields.Parse("old.yaml", before)
		new, alsoWrong := fields.Parse("new.yaml", after)
		reading += time.Since(start)
		require.Empty(b, append(wrong, alsoWrong...))

		start = time.Now()
		require.NoError(b, WriteText(io.Discard, judge.Review(old, new), Options{}))
		reviewing += time.Since(start)
	}
	b.ReportMetric(float64(reviewing)/float64(reading), "times-reading")
}
