package page

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/diff"
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/render"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func parse(t testing.TB, name, text string) *spec.File {
	t.Helper()
	file, diagnostics := fields.Parse(name, []byte(text))
	require.Empty(t, diagnostics)
	return file
}

func exampleText(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("../../limits.example.yaml")
	require.NoError(t, err)
	return string(text)
}

func written(t testing.TB, p *Page) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, p.Write(&out))
	return out.String()
}

// requireText is require.Contains without the page in its message.
func requireText(t testing.TB, page, text string) {
	t.Helper()
	require.True(t, strings.Contains(page, text), "the page does not contain %q", text)
}

// element is an element of a page.
type element struct {
	name     string
	attr     map[string]string
	text     string
	children []*element
}

// all returns the descendants with a name.
func (e *element) all(name string) (list []*element) {
	for _, c := range e.children {
		if c.name == name {
			list = append(list, c)
		}
		list = append(list, c.all(name)...)
	}
	return list
}

// read parses a page as XML.
func read(t testing.TB, page string) *element {
	t.Helper()
	root := &element{}
	stack := []*element{root}
	for d := xml.NewDecoder(strings.NewReader(page)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		top := stack[len(stack)-1]
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attr: map[string]string{}}
			for _, a := range token.Attr {
				e.attr[a.Name.Local] = a.Value
			}
			top.children = append(top.children, e)
			stack = append(stack, e)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			top.text += string(token)
		}
	}
	require.Len(t, stack, 1)
	return root
}

// requireSound checks what every page must have.
func requireSound(t testing.TB, page string) *element {
	t.Helper()
	root := read(t, page)
	ids := map[string]bool{}
	var visit func(*element)
	visit = func(e *element) {
		if id, ok := e.attr["id"]; ok {
			require.False(t, ids[id], "two elements have the id %q", id)
			ids[id] = true
		}
		for name, value := range e.attr {
			require.False(t, strings.HasPrefix(name, "on") || name == "style", "%s has %s", e.name, name)
			if name == "src" || name == "href" {
				require.True(t, strings.HasPrefix(value, "#") || strings.HasPrefix(value, "data:"), value)
			}
		}
		require.NotContains(t, []string{"iframe", "img", "object", "embed", "base"}, e.name)
		for _, c := range e.children {
			visit(c)
		}
	}
	visit(root)
	for _, link := range root.all("a") {
		require.True(t, ids[strings.TrimPrefix(link.attr["href"], "#")], "%s leads nowhere", link.attr["href"])
	}
	for _, figure := range root.all("figure") {
		require.Len(t, figure.all("svg"), 1)
		require.Len(t, figure.all("title"), 1)
		require.Len(t, figure.all("desc"), 1)
		require.Len(t, figure.all("table"), 1, "a drawing without a table")
		require.Greater(t, len(figure.all("td")), 3)
	}
	for _, css := range root.all("style") {
		require.NotContains(t, css.text, "url(")
		require.NotContains(t, css.text, "@import")
	}
	return root
}

func TestPageOfTheExample(t *testing.T) {
	p := Page{File: parse(t, "limits.example.yaml", exampleText(t))}
	page := written(t, &p)
	root := requireSound(t, page)
	assert.Less(t, len(page), 300_000)
	assert.Equal(t, page, written(t, &p), "the same input, the same bytes")
	limits := 0
	for _, d := range root.all("details") {
		if d.attr["class"] == "limit" {
			limits++
			assert.Contains(t, d.attr, "open")
		}
	}
	assert.Equal(t, len(p.File.Limits), limits)
	// Two drawings for each limit, and for each of the two limited plans of apiCalls; one for each of the three plans of
	// runningExports, whose starts have no bound to draw; none for uploads, which only counts.
	assert.Len(t, root.all("figure"), 2*(limits-1)+3)
	assert.Equal(t, 2, strings.Count(page, `class="edge no"`), "what thumbnails of the archive leave, and the legend")
	t.Logf("%d bytes", len(page))
}

// An edited limit is drawn twice, with the words of the review, and unchanged ones are closed.
func TestPageAgainstAnotherVersion(t *testing.T) {
	text := exampleText(t)
	old := strings.NewReplacer("capacity: 20\n", "capacity: 480\n", "  exportData:", "  exports:", "kind: sliding window\n    rate: 5", "kind: fixed window\n    rate: 8",
		"pro: 600", "pro: 60").Replace(text)
	old = strings.Replace(old, "limits:\n", "limits:\n  gone: {kind: fixed window, rate: 1, period: 1h}\n", 1)
	p := Page{File: parse(t, "limits.example.yaml", text), Old: parse(t, "main:limits.yaml", old)}
	page := written(t, &p)
	root := requireSound(t, page)
	open := map[string]bool{}
	for _, d := range root.all("details") {
		if d.attr["class"] == "limit" {
			_, open[d.attr["id"]] = d.attr["open"]
		}
	}
	for _, id := range []string{"limit-sendMessage", "limit-search", "limit-apiCalls", "limit-exportData", "limit-gone"} {
		assert.True(t, open[id], id)
	}
	assert.False(t, open["limit-smsCode"])
	requireText(t, page, "480 → 20")
	requireText(t, page, "<tr><td>capacity</td><td>480</td><td>20</td><td>[capacity-changed] tightened</td></tr>")
	// What is worst comes first, with its risk.
	changes, _, _ := strings.Cut(page, "</section>")
	require.Regexp(t, `(?s)<a href="#limit-gone">gone</a>.*the limit is gone, and nothing limits its requests.*<a href="#limit-sendMessage">`, changes)
	requireText(t, page, "compared with <code>main:limits.yaml</code>")
	assert.GreaterOrEqual(t, strings.Count(page, `class="line old"`), 6)
	same := written(t, &Page{File: p.File, Old: p.File})
	requireSound(t, same)
	requireText(t, same, "No limit has changed.")
	assert.False(t, strings.Contains(same, `class="line old"`), `class="line old"`)
}

// What changes of the file and of groups is on the page too: in the section of a group that the new file has, and in the
// list of changes otherwise.
func TestPageSaysWhatALimitHasByDefault(t *testing.T) {
	const file = "version: 1\ndefaults: {timeout: 250ms, onError: open}\nlimits:\n  a: {kind: token bucket, rate: 10, period: 1m, onError: closed}\n"
	requireText(t, written(t, &Page{File: parse(t, "limits.yaml", file)}), "By default: timeout: 250ms.")
}

func TestPageHasTheChangesOfGroupsAndOfTheFile(t *testing.T) {
	const limits = "version: 1\n%s\nlimits:\n  a: {kind: token bucket, rate: {%s: 1, pro: 2}, period: 1s}\n  b: {kind: token bucket, rate: 1, period: 1s}\ngroups:\n  %s\n"
	old := parse(t, "old.yaml", fmt.Sprintf(limits, "plans: [free, pro]", "free", "both: {takes: [a, b]}\n  gone: {takes: [b, a]}"))
	p := Page{File: parse(t, "limits.yaml", fmt.Sprintf(limits, "plans: [basic, pro]", "basic", "both: {takes: [b], checks: [a]}")), Old: old}
	r := p.review()
	page := written(t, &p)
	requireSound(t, page)
	of := map[string]bool{}
	for i := range r.Subjects {
		s := &r.Subjects[i]
		of[s.Limit+s.Group] = true
		parts := render.PartsOf(s)
		texts := slices.Concat(append(slices.Concat(parts.Changes, parts.Numbers), parts.Risks)...)
		for _, n := range parts.Notes {
			texts = append(texts, n.Text)
		}
		for _, q := range parts.SQL {
			texts = append(texts, q.Why, q.Text)
		}
		require.NotEmpty(t, texts)
		for _, text := range texts {
			requireText(t, html.UnescapeString(page), text)
		}
	}
	require.Contains(t, of, "")
	require.Contains(t, of, "both")
	require.Contains(t, of, "gone")
	_, section, _ := strings.Cut(page, `id="group-both"`)
	section, _, _ = strings.Cut(section, "</section>")
	require.Contains(t, section, "What changes")
}

// Every limit of the test data has a sound page.
func TestPagesOfTestdata(t *testing.T) {
	for _, dir := range []string{"../../testdata/gen/kinds", "../../testdata/gen/plans", "../../testdata/gen/groups", "../../testdata/gen/names"} {
		text, err := os.ReadFile(dir + "/limits.yaml")
		require.NoError(t, err)
		file := parse(t, "limits.yaml", string(text))
		root := requireSound(t, written(t, &Page{File: file}))
		assert.NotEmpty(t, root.all("figure"))
		requireSound(t, written(t, &Page{File: file, Old: parse(t, "old", "version: 1\nlimits:\n  only: {kind: token bucket, rate: 1, period: 1s}\n")}))
	}
}

func thousand(t testing.TB) *spec.File {
	var text strings.Builder
	text.WriteString("version: 1\nlimits:\n")
	kinds := []string{"kind: token bucket, capacity: 250", "kind: fixed window", "kind: sliding window", "kind: sliding window, precise: true",
		"kind: token bucket, maxReserved: 200"}
	for i := range 1000 {
		fmt.Fprintf(&text, "  limitNumber%d: {%s, rate: 100, period: %s, key: {user: string}}\n", i, kinds[i%5], []string{"1s", "1m", "1d"}[i%3])
	}
	return parse(t, "limits.yaml", text.String())
}

// A large page has the drawings of each limit in packs, as a small page has them in place.
func TestPageOfThousandLimits(t *testing.T) {
	file := thousand(t)
	page := written(t, &Page{File: file})
	root := requireSound(t, page)
	assert.Less(t, len(page), 2_500_000)
	assert.Empty(t, root.all("figure"))
	for _, d := range root.all("details") {
		assert.NotContains(t, d.attr, "open")
	}
	fragments := map[string]string{}
	for _, script := range root.all("script") {
		if script.attr["class"] != "pack" {
			continue
		}
		packed, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(script.text)))
		require.NoError(t, err)
		var list []string
		require.NoError(t, json.NewDecoder(packed).Decode(&list))
		first, err := strconv.Atoi(script.attr["data-first"])
		require.NoError(t, err)
		require.Equal(t, len(fragments), first)
		for i, fragment := range list {
			fragments[strconv.Itoa(first+i)] = fragment
		}
	}
	require.Len(t, fragments, 2*len(file.Limits), "the drawings and the playground of each")
	small := written(t, &Page{File: parse(t, "limits.yaml", "version: 1\nlimits:\n  limitNumber999: {kind: token bucket, maxReserved: 200, rate: 100, period: 1s, key: {user: string}}\n")})
	of := root.all("details")
	limit := of[slices.IndexFunc(of, func(e *element) bool { return e.attr["id"] == "limit-limitNumber999" })]
	for _, div := range limit.all("div") {
		if number, ok := div.attr["data-packed"]; ok {
			requireText(t, small, fragments[number])
			delete(fragments, number)
		}
	}
	assert.Len(t, fragments, 2*len(file.Limits)-2)
}

func BenchmarkThousandLimits(b *testing.B) {
	file := thousand(b)
	for b.Loop() {
		if err := (&Page{File: file}).Write(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

// Text of the file and the names of files cannot leave their place in the page.
func TestTextIsEscaped(t *testing.T) {
	hostile := "</p><script>alert(1)</script>\x1b[5m\u202e]]>&amp;\"'"
	file := parse(t, hostile, "version: 1\nlimits:\n  send: {kind: token bucket, rate: 1, period: 1s, doc: \"</script><b onclick='x'>]]>\"}\n")
	page := written(t, &Page{File: file, Old: parse(t, hostile, "version: 1\nlimits:\n  send: {kind: token bucket, rate: 2, period: 1s}\n")})
	root := requireSound(t, page)
	assert.Len(t, root.all("script"), 1)
	assert.Empty(t, root.all("b"))
	assert.False(t, strings.Contains(page, "\x1b"), "\x1b")
	assert.False(t, strings.Contains(page, "\u202e"), "\u202e")
}

// tracedLines is a recording of two limits and a group.
const tracedLines = `{"at": 1893456000.0, "limit": "send", "key": "secretAlice", "count": 3}
{"at": 1893456001.0, "limit": "send", "key": "secretBob", "count": 5}
{"at": 1893456002.0, "limit": "send", "key": "secretBob"}
{"at": 1893456002.5, "limit": "send", "key": "secretBob"}
{"at": 1893456003.0, "limit": "both", "key": ["secretBob"], "count": 1}
{"at": 1893456020.0, "limit": "send", "key": "secretBob"}
{"at": 1893456021.0, "limit": "later", "reserve": true, "count": 12}
`

const recordedLimits = `version: 1
limits:
  send: {kind: token bucket, key: {user: string}, rate: 5, period: 1m}
  later: {kind: token bucket, rate: 10, period: 1m, maxReserved: 10}
  idle: {kind: fixed window, rate: 10, period: 1m}
groups:
  both: {takes: {send: {user: user}, idle: {}}}
`

func record(t *testing.T, text string, file, old *spec.File) (*Recording, []string) {
	t.Helper()
	var faults []string
	r, err := Record(file, old, func() (*trace.Reader, func() error, error) {
		return trace.NewReader(strings.NewReader(text)), func() error { return nil }, nil
	}, func(f *trace.Fault) error {
		faults = append(faults, f.Error())
		return nil
	})
	require.NoError(t, err)
	return r, faults
}

func TestRecordingIsDrawn(t *testing.T) {
	file := parse(t, "limits.yaml", recordedLimits)
	r, faults := record(t, tracedLines+"{}\n", file, nil)
	assert.Equal(t, []string{"8: the line has no field at, the time of the request"}, faults)
	page := written(t, &Page{File: file, Recording: r})
	requireSound(t, page)
	assert.False(t, strings.Contains(page, "secret"), "secret")
	requireText(t, page, "In the recording: 5 requests of 2 keys; 3 allowed and 2 denied.")
	requireText(t, page, "In the recording: 1 request of 1 key; 1 delayed.")
	requireText(t, page, "The recording has no requests of this limit.")

	// Bob was denied twice. His tokens: 5 at first, 0 after his first request, less what the group could not take.
	send := r.subjects["send"]
	assert.Equal(t, "secretBob", send.busiest)
	require.Len(t, send.marks[newSide], 4)
	points := send.curves[newSide]
	last := points[len(points)-1]
	assert.InDelta(t, 0+19.0/12-1, r.tokensAt("send", 1893456020_000_000_001), 0.1)
	assert.Greater(t, last.Tokens, 1.0)
	assert.Less(t, len(points), 1000)
}

func TestRecordingOfLimitInFlight(t *testing.T) {
	file := parse(t, "limits.yaml", "version: 1\nlimits:\n  export: {kind: in flight, capacity: 2, hold: 1m}\n")
	r, faults := record(t, `{"at": "2030-01-01T00:00:00Z", "limit": "export", "running": "5s"}`, file, nil)
	assert.Empty(t, faults)
	requireText(t, written(t, &Page{File: file, Recording: r}), "Free slots of the busiest key from 2029-12-31 23:59:56 UTC on, and its requests")
}

// tokensAt returns the last tokens of a curve before an instant.
func (r *Recording) tokensAt(limit string, at int64) (tokens float64) {
	s := r.subjects[limit]
	for _, p := range s.curves[newSide] {
		if s.from+int64(p.At) <= at {
			tokens = p.Tokens
		}
	}
	return tokens
}

// The busiest key of a limit with plans is drawn once, whatever its plans.
func TestRecordingOfPlans(t *testing.T) {
	file := parse(t, "limits.yaml", "version: 1\nplans: [all, free, pro]\nlimits:\n  calls: {kind: token bucket, rate: {all: unlimited, free: 1, pro: 9}, period: 1m}\n")
	r, faults := record(t, `{"at": 1893456000.0, "limit": "calls", "plan": "free"}
{"at": 1893456001.0, "limit": "calls", "plan": "free"}
{"at": 1893456002.0, "limit": "calls", "plan": "pro"}
`, file, nil)
	assert.Empty(t, faults)
	page := written(t, &Page{File: file, Recording: r})
	requireSound(t, page)
	assert.Equal(t, 1, strings.Count(page, "Tokens of the busiest key from 2029-12-31 23:59:5"))
	requireText(t, page, "In the recording: 3 requests of 1 key; 2 allowed and 1 denied.")
}

func TestRecordingOfTwoVersions(t *testing.T) {
	file := parse(t, "limits.yaml", recordedLimits)
	old := parse(t, "old.yaml", strings.Replace(recordedLimits, "rate: 5,", "rate: 2,", 1))
	r, faults := record(t, tracedLines, file, old)
	assert.Empty(t, faults)
	page := written(t, &Page{File: file, Old: old, Recording: r})
	requireSound(t, page)
	requireText(t, page, "In the recording: 5 requests of 2 keys; old version: 2 allowed and 3 denied; new version: 3 allowed and 2 denied.")
}

func TestPageReviewsOnce(t *testing.T) {
	file := parse(t, "limits.yaml", "version: 1\nlimits:\n  only: {kind: token bucket, rate: 1, period: 1s}\n")
	p := &Page{Old: file, File: file}
	written(t, p)
	reviewed := p.review()
	assert.NotEmpty(t, p.Pictures())
	assert.Same(t, reviewed, p.review())
}

// A limit that was removed is drawn as the old version decides.
func TestRecordingOfARemovedLimit(t *testing.T) {
	file := parse(t, "limits.yaml", "version: 1\nlimits:\n  send: {kind: token bucket, rate: 5, period: 1m}\n")
	old := parse(t, "old.yaml", "version: 1\nlimits:\n  send: {kind: token bucket, rate: 5, period: 1m}\n  gone: {kind: token bucket, rate: 2, period: 1m}\n")
	r, faults := record(t, strings.Repeat(`{"at": 1893456000.0, "limit": "gone"}`+"\n", 3), file, old)
	assert.Empty(t, faults)
	page := written(t, &Page{File: file, Old: old, Recording: r})
	requireSound(t, page)
	requireText(t, page, "In the recording: 3 requests of 1 key; 2 allowed and 1 denied.")
	requireText(t, page, "3 requests in 1m8s: 2 allowed and 1 denied. The key has between 0 and 2 tokens.")
}

// The page of a limit has its first exceptions, with what they give and why, and the number of the others.
func TestPageListsExceptions(t *testing.T) {
	text := "version: 1\nlimits:\n  send:\n    {kind: token bucket, rate: 17, period: 1m, key: {org: int64}, exceptions: [{org: 7, rate: 500, reason: a <b> c}"
	for i := range 10_000 - 1 {
		text += fmt.Sprintf(", {org: %d, mode: block, reason: abuse}", 1000+i)
	}
	page := written(t, &Page{File: parse(t, "limits.yaml", text+"]}\n")})
	requireSound(t, page)
	_, table, found := strings.Cut(page, "<caption>Exceptions of single keys</caption>")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "</table>")
	assert.Contains(t, table, "<tr><td>org 7</td><td>rate 500</td><td>a &lt;b&gt; c</td></tr><tr><td>org 1000</td><td>mode block</td><td>abuse</td></tr>")
	rows := strings.Count(table, "<tr>") - 1
	assert.Contains(t, table, fmt.Sprintf("<td>9,%d more</td>", 1000-rows))
	assert.Less(t, rows, 100)
}

// A plan that is unlimited when it is not blocked has no numbers of another plan.
func TestBlockedUnlimitedPlanHasNoNumbers(t *testing.T) {
	file := parse(t, "limits.yaml", ids.Planned("rate: {free: 17, pro: unlimited}", "mode: block"))
	page := written(t, &Page{File: file})
	requireSound(t, page)
	l := &limit{new: file.Limits[0]}
	assert.Equal(t, 1, strings.Count(l.playConfig(), `"name":`), l.playConfig())
	for _, pair := range (diff.Renames{}).PairPlans(nil, file.Limits[0]) {
		assert.Equal(t, pair.Plan == "free", anyLimited(policiesOf(pair)), pair.Plan)
	}
}

func TestNumbersAreThoseThatALimitHas(t *testing.T) {
	bucket := runtime.Policy{Name: "send", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 20}
	assert.Equal(t, []fact{
		{"at once", "unlimited → 20"}, {"in any minute", "unlimited → 30"}, {review.NextToken, "unlimited → 6s"}, {review.FullAfter, "unlimited → 2m"},
	}, facts([]*runtime.Policy{{Name: "send", Mode: runtime.ModeUnlimited}, &bucket}), "a bucket is not held")
	bucket.MaxReserved = runtime.Unbounded
	assert.Contains(t, facts([]*runtime.Policy{&bucket}), fact{"at once", "unbounded"})
}
