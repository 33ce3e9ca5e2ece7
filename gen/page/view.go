package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"iter"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/describe"
	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/draw"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/render"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/sim"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// Write writes the page. It returns the error of w.
func (p *Page) Write(w io.Writer) error {
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, p.view()); err != nil {
		return fmt.Errorf("cannot write the page: %w", err)
	}
	_, err := w.Write(inertInLogs(out.Bytes()))
	return err
}

// inertInLogs replaces the characters that Azure Pipelines reads as a command, wherever they are in a log.
func inertInLogs(html []byte) []byte { return bytes.ReplaceAll(html, []byte("##["), []byte("#&#35;[")) }

// Is reports whether a text is a page.
func Is(text []byte) bool { return bytes.Contains(text[:min(len(text), 2048)], []byte(generator)) }

// generator is an element of every page.
const generator = `<meta name="generator" content="ratelimitgen page"/>`

// pageView is the page as the template reads it.
type pageView struct {
	Style, Script          template.HTML
	StyleHash, ScriptHash  string
	Name, Against, Summary string
	Remark                 string
	Legend                 []legendEntry
	Story                  []string
	Changes                []changeView
	Contents               []contentsEntry
	Limits                 iter.Seq[limitView]
	Groups                 []groupView
	Filter                 bool
	Comparison             string
	// Packs has the drawings of a large page; it is nil for other pages.
	Packs *packs
}

// contentsEntry is a limit in the list of contents.
type contentsEntry struct{ ID, Name, Rule string }

type legendEntry struct {
	SVG  template.HTML
	Name string
}

// changeView is an entry in the list of changes, with its risks. It has the parts without a section of their own.
type changeView struct {
	Link, Name, Classes string
	Risks               []string
	Parts               *render.Parts
}

// groupView is a group of limits.
type groupView struct {
	ID, Name, Doc string
	Lines         []string
	Members       []string
	Tally         string
	// Changes has the description of its changes, or is nil.
	Changes *render.Parts
}

func (p *Page) view() *pageView {
	style := draw.Style + pageCSS
	script := "//<![CDATA[\n\"use strict\";\n{\n" + stepJS + playgroundJS + pageJS + "}\n//]]>"
	v := &pageView{
		Style: template.HTML("<style>" + style + "</style>"), StyleHash: sourceHash(style),
		Script: template.HTML("<script>" + script + "</script>"), ScriptHash: sourceHash(script),
		Name: printable.Line(p.File.Name), Legend: p.legend(), Story: p.storyWords(),
		Comparison: comparisonConfig(),
	}
	limits := p.limits()
	v.Summary = p.summary(len(limits))
	v.Filter = len(limits) > mostOpen
	if p.Old != nil {
		v.Against = printable.Line(p.Old.Name)
		v.Remark = p.Remark
		v.Changes = changes(p.review())
	}
	for i := range limits {
		shown := limits[i].shown()
		v.Contents = append(v.Contents, contentsEntry{limitID(shown.Policy.Name), shown.Policy.Name,
			describe.Limit(shown).Rules()[0]})
	}
	// The views are made one at a time, because the drawings of thousands of limits would need much memory.
	v.Limits = func(yield func(limitView) bool) {
		for i := range limits {
			if !yield(p.limitView(&limits[i], len(limits) <= mostOpen)) {
				return
			}
		}
	}
	if len(limits) > mostDrawn {
		v.Packs = &packs{page: pageTemplate}
	}
	for _, g := range p.File.Groups {
		v.Groups = append(v.Groups, p.groupView(g))
	}
	return v
}

// sourceHash returns the hash of an inline script or style for a Content-Security-Policy.
func sourceHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func (p *Page) summary(limits int) string {
	parts := []string{count(limits, "limit")}
	if n := len(p.File.Groups); n > 0 {
		parts = append(parts, count(n, "group"))
	}
	if n := len(p.File.Plans); n > 0 {
		parts = append(parts, count(n, "plan"))
	}
	return words.List(parts, "and")
}

// storyWords say what the drawings show.
func (p *Page) storyWords() []string {
	const right = "The drawings on the right show the most that one key can use in any interval, for every length of the interval. Both axes are logarithmic."
	if p.Recording != nil {
		return []string{
			"The drawings on the left show the recording: of each limit, the key that was limited most often, in the part of the recording in which it was limited most. The page does not contain the key. Requests of a group take tokens of its limits, but have marks at none of them.",
			right,
		}
	}
	story := []string{
		"The drawings on the left show one key of each limit in the same story: it is quiet; then comes a burst of a quarter more than the limit allows at once; then requests at twice the rate; and then it is quiet again. Each request takes the same number of tokens, so that about twelve use up a full key. If a limit can be reserved, all requests reserve.",
		right,
	}
	if slices.ContainsFunc(p.File.Limits, func(l *spec.Limit) bool { return l.Policy.Kind == runtime.InFlight }) {
		story = append(story, "A limit in flight has the free slots of such a key. Each request runs for half a hold and then releases its slot, but the first one "+
			"crashes: its slot is free when its hold ends. After the burst comes twice as much work as there is room for. How many requests can start in an interval has no bound, so there is no drawing of it.")
	}
	return story
}

func (p *Page) legend() (list []legendEntry) {
	for _, o := range []struct {
		outcome sim.Outcome
		name    string
	}{{sim.Allowed, "allowed"}, {sim.Delayed, "delayed: reserved, to be used later"}, {sim.Denied, "denied"}, {sim.Shadowed, "passed in shadow mode, would be denied or delayed"}} {
		list = append(list, legendEntry{template.HTML(draw.Symbol(o.outcome)), o.name})
	}
	if slices.ContainsFunc(p.File.Limits, func(l *spec.Limit) bool { return l.Policy.Penalizes() }) {
		list = append(list, legendEntry{template.HTML(draw.LockSymbol()), "locked out by a penalty"})
	}
	if slices.ContainsFunc(p.File.Limits, func(l *spec.Limit) bool { return l.Policy.Warn.Len() > 0 }) {
		list = append(list, legendEntry{template.HTML(draw.ThresholdSymbol()), "a part of the capacity at which the limit warns"})
	}
	if slices.ContainsFunc(p.File.Limits, func(l *spec.Limit) bool { return len(l.Priorities) > 0 }) {
		list = append(list, legendEntry{template.HTML(draw.LeftSymbol()), "the tokens that a class of requests leaves to the others"})
	}
	return list
}

func changes(r *review.Review) (list []changeView) {
	for _, s := range r.BySeverity() {
		c := changeView{Name: render.NameOf(s), Classes: review.ClassList(s.Classes()), Risks: render.RisksOf(s)}
		switch {
		case s.Group != "" && s.New != (diag.Pos{}):
			c.Link = groupID(s.Group)
		case s.Limit != "":
			c.Link = limitID(s.Limit)
		default:
			c.Risks, c.Parts = nil, render.PartsOf(s)
		}
		list = append(list, c)
	}
	return list
}

func groupID(name string) string { return "group-" + name }

func (p *Page) groupView(g *spec.Group) groupView {
	v := groupView{ID: groupID(g.Name), Name: g.Name, Doc: printable.Flat(g.Doc), Lines: g.Words(),
		Members: spec.LimitNames(g.Members())}
	if p.Recording != nil {
		v.Tally = p.Recording.tallyWords(g.Name)
	}
	if p.Old != nil {
		subjects := p.review().Subjects
		if i := slices.IndexFunc(subjects, func(s review.Subject) bool { return s.Group == g.Name && s.New != (diag.Pos{}) }); i >= 0 {
			v.Changes = render.PartsOf(&subjects[i])
		}
	}
	return v
}

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed step.js
	stepJS string
	//go:embed playground.js
	playgroundJS string
	//go:embed page.js
	pageJS string

	pageTemplate = template.Must(template.New("page").Parse(pageHTML))
)
