package gen

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

const published = "../testdata/published"

// publishedAPI is a file of testdata/published or a section of others.txt there, with what its comments say.
type publishedAPI struct {
	name   string // the file without .yaml, and the package
	in     string // the file
	text   string
	title  string
	date   string
	source [][]string // title, address
	rules  []string
	nearly []string // limits that say a rule only nearly
	not    int
	file   *spec.File
}

var (
	publishedComment = regexp.MustCompile(`^# (source|date|published|nearly|not said): (.+)$`)
	publishedSource  = regexp.MustCompile(`^(.+), (https?://\S+)$`)
	publishedNearly  = regexp.MustCompile(`^(\w+): .+$`)
)

// publishedTexts returns the files of testdata/published, and the sections of others.txt, in the order of their names.
func publishedTexts(t *testing.T) (apis []publishedAPI) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(published, "*.yaml"))
	require.NoError(t, err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		in := filepath.Base(path)
		apis = append(apis, publishedAPI{name: strings.TrimSuffix(in, ".yaml"), in: in, text: string(text)})
	}
	others, err := os.ReadFile(filepath.Join(published, "others.txt"))
	require.NoError(t, err)
	for _, section := range strings.Split("\n"+string(others), "\n-- ")[1:] {
		name, text, ok := strings.Cut(section, " --\n")
		require.True(t, ok, section)
		apis = append(apis, publishedAPI{name: name, in: "others.txt", text: text + "\n"})
	}
	slices.SortFunc(apis, func(a, b publishedAPI) int { return strings.Compare(a.name, b.name) })
	return apis
}

// publishedAPIs returns all published limits. Their comments begin with the title, and every other one has a label: the
// table of the page is made of them.
func publishedAPIs(t *testing.T) (apis []publishedAPI) {
	t.Helper()
	for _, api := range publishedTexts(t) {
		path := api.name
		comments, _, ok := strings.Cut(api.text, "\nversion: 1\n")
		require.True(t, ok && strings.HasPrefix(comments, "# "), "%s must begin with comments", path)
		title, comments, _ := strings.Cut(comments, "\n")
		api.title = strings.TrimPrefix(title, "# ")
		for line := range strings.SplitSeq(comments, "\n") {
			m := publishedComment.FindStringSubmatch(line)
			require.NotNil(t, m, "%s: comment without a label: %s", path, line)
			switch m[1] {
			case "source":
				source := publishedSource.FindStringSubmatch(m[2])
				require.NotNil(t, source, "%s: a source is a title and an address: %s", path, line)
				api.source = append(api.source, source[1:])
			case "date":
				api.date = m[2]
			case "published":
				api.rules = append(api.rules, m[2])
			case "nearly":
				limit := publishedNearly.FindStringSubmatch(m[2])
				require.NotNil(t, limit, "%s: begin with the name of the limit: %s", path, line)
				api.nearly = append(api.nearly, limit[1])
			case "not said":
				api.not++
			}
		}
		require.True(t, api.source != nil && api.date != "" && api.rules != nil, "%s needs a source, a date and what is published", path)
		file, found := fields.Parse(path, []byte(api.text))
		require.NoError(t, found.WriteText(t.Output(), false))
		require.Empty(t, found)
		api.file = file
		for i, name := range api.nearly {
			assert.True(t, slices.ContainsFunc(file.Limits, func(l *spec.Limit) bool { return l.Policy.Name == name }), "%s has no limit %s", path, name)
			assert.NotContains(t, api.nearly[:i], name, path)
		}
		apis = append(apis, api)
	}
	return apis
}

func TestPublishedLimitsCompile(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the compiler")
	}
	files := map[string]string{}
	for _, api := range publishedAPIs(t) {
		assert.Equal(t, api.name, api.file.Package)
		files[api.name+"/limits.gen.go"] = string(generated(t, api.text))
	}
	require.GreaterOrEqual(t, len(files), 40)
	out, err := goTool(t, module(t, files), "build", "./...")
	assert.NoError(t, err, out)
}

func TestPublishedPageIsCurrent(t *testing.T) {
	const begin, end = "<!-- table -->\n", "<!-- /table -->"
	path := filepath.Join(published, "README.md")
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(page), begin)
	require.True(t, ok)
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	want := before + begin + publishedTable(t) + end + after
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	assert.True(t, want == string(page), "%s is not current: run go test ./gen -run Published -update, and look at the diff", path)
}

func publishedTable(t *testing.T) string {
	var rows strings.Builder
	var exactly, nearly, not int
	apis := publishedAPIs(t)
	for _, api := range apis {
		var keys, limits, sources []string
		for _, l := range api.file.Limits {
			if key := publishedKey(l); !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
			limits = append(limits, publishedRule(l))
		}
		for _, source := range api.source {
			sources = append(sources, fmt.Sprintf("[%s](%s)", source[0], source[1]))
		}
		exact := len(api.file.Limits) - len(api.nearly)
		fmt.Fprintf(&rows, "| [%s](%s) | %s | %s | %d | %d | %d | %s; %s |\n", api.title, api.in, strings.Join(keys, "; "),
			strings.Join(limits, "; "), exact, len(api.nearly), api.not, strings.Join(sources, ", "), api.date)
		exactly, nearly, not = exactly+exact, nearly+len(api.nearly), not+api.not
	}
	return fmt.Sprintf("%s: %d rules are said exactly, %d nearly, %d not.\n\n", words.Count(int64(len(apis)), "API"), exactly, nearly, not) +
		"| API | counted per | rules | exactly | nearly | not said | source |\n|---|---|---|---|---|---|---|\n" + rows.String()
}

func publishedKey(l *spec.Limit) string {
	var parts []string
	for _, part := range l.Key {
		parts = append(parts, part.Name)
	}
	if parts == nil {
		return "all callers"
	}
	return strings.Join(parts, " and ")
}

// publishedRule returns a limit in a few words: "pulls: personal 40 per hour, pro unlimited".
func publishedRule(l *spec.Limit) string {
	var plans []string
	for _, of := range l.Each() {
		p := &of.Policy
		rule := "unlimited"
		switch {
		case p.Mode == runtime.ModeBlock:
			rule = "none"
		case !of.Unlimited():
			rule = words.Number(p.Rate) + " per " + fields.PeriodOf(p)
			if p.AtMost.Rate > 0 {
				rule = "at most " + rule
			}
			switch {
			case p.Kind == runtime.InFlight:
				rule = words.Number(p.Slots) + " in flight"
			case p.Capacity != p.Rate:
				rule += ", at once " + words.Number(p.Capacity)
			}
			if p.Penalizes() {
				rule += ", penalty " + strings.Join(words.Of(p.Penalty.Steps[:p.Penalty.Len()], words.Duration), ", ")
			}
		}
		plans = append(plans, strings.TrimSpace(of.Plan+" "+rule))
	}
	kind := ""
	switch {
	case l.Policy.Precise:
		kind = " in any period"
	case l.Policy.Kind == runtime.TokenBucket:
		kind = ", token bucket"
	}
	if l.Policy.AtMost.Rate > 0 {
		kind += ", as callers give it"
	}
	if len(l.Prices) > 0 {
		kind += ", at " + words.List(words.Of(l.Prices, func(price runtime.Price) string { return fields.PriceInWords(price.Millionths) + " for " + price.Name }), "and")
	}
	return "`" + l.Policy.Name + "` " + strings.Join(plans, ", ") + kind
}
