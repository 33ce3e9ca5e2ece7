package page

import (
	"cmp"
	"encoding/json"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/describe"
	"github.com/ratelimitgen/ratelimitgen/gen/diff"
	"github.com/ratelimitgen/ratelimitgen/gen/draw"
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/render"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/judge"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// limit is a limit of the page, with the version it is compared with.
type limit struct {
	// old and new are the versions; one of them may be nil. Without a comparison, old is nil.
	old, new *spec.Limit
	// subject is the review of the change, or nil.
	subject *review.Subject
	renamed diff.Renames
}

// limits returns the limits in the order of the file, and then those that were removed.
func (p *Page) limits() (list []limit) {
	if p.Old == nil {
		for _, l := range p.File.Limits {
			list = append(list, limit{new: l})
		}
		return list
	}
	r := p.review()
	subjects := map[string]*review.Subject{}
	for i := range r.Subjects {
		if s := &r.Subjects[i]; s.Limit != "" {
			subjects[s.Limit] = s
		}
	}
	for _, l := range p.File.Limits {
		of := limit{new: l, subject: subjects[l.Policy.Name], renamed: r.Renames}
		if of.subject != nil {
			of.old = of.subject.Findings[0].Changes[0].Old.Limit
		}
		list = append(list, of)
	}
	for i := range r.Subjects {
		if s := &r.Subjects[i]; s.Limit != "" && s.Removed() {
			list = append(list, limit{old: s.Findings[0].Changes[0].Old.Limit, subject: s, renamed: r.Renames})
		}
	}
	return list
}

// limitView is a limit as the template reads it.
type limitView struct {
	ID, Name, Rule, Doc, Per string
	Open                     bool
	// Classes are those of the change, and Changes its description.
	Classes []string
	Changes *render.Parts
	// Words are the sentences about all plans, and Plans has one element for a limit without plans.
	Words []string
	Plans []planView
	Tally string
	// Exceptions has the key, the rule and the reason of single keys with other numbers.
	Exceptions [][]string
	// Play is the configuration of the playground, or "".
	Play string
}

// planView is what a limit is for one plan.
type planView struct {
	Name     string
	Words    []string
	Facts    []fact
	Drawings []drawing
	Note     string
}

// fact is a number of a limit.
type fact struct{ Name, Value string }

// drawing is a figure with its data.
type drawing struct {
	Caption, Text string
	SVG           template.HTML
	Head          []string
	Rows          [][]string
}

func (p *Page) limitView(l *limit, few bool) limitView {
	shown := l.shown()
	d := describe.Limit(shown)
	v := limitView{
		ID: limitID(shown.Policy.Name), Name: shown.Policy.Name, Doc: printable.Flat(shown.Doc), Per: perKey(shown),
		Rule: d.Rules()[0], Open: few,
	}
	if p.Old != nil {
		v.Open = few && l.subject != nil
	}
	if s := l.subject; s != nil {
		v.Classes, v.Changes = review.ClassNames(s.Classes()), render.PartsOf(s)
	}
	if v.Words = d.Lines(); len(d.Plans) > 0 {
		v.Words = d.Sentences
	}
	if values := fields.FromDefaults(shown); values != "" {
		v.Words = append(v.Words, "By default: "+values+".")
	}
	v.Exceptions = judge.ExceptionRows(shown)
	limited := 0
	for _, pair := range l.renamed.PairPlans(l.old, l.new) {
		// A key of a recording has one count, whatever its plan.
		v.Plans = append(v.Plans, p.planView(pair, v.Name, p.Recording != nil && limited > 0))
		if anyLimited(policiesOf(pair)) {
			limited++
		}
	}
	if p.Recording != nil {
		v.Tally = p.Recording.tallyWords(v.Name)
	}
	v.Play = l.playConfig()
	return v
}

// shown returns the version that the words are about.
func (l *limit) shown() *spec.Limit {
	if l.new != nil {
		return l.new
	}
	return l.old
}

func perKey(l *spec.Limit) string {
	if len(l.Key) == 0 {
		return "All callers share one count."
	}
	parts := words.Of(l.Key, func(part spec.KeyPart) string { return part.Name + " (" + part.TypeInWords() + ")" })
	return "Counted for each " + words.List(parts, "and") + "."
}

// planView draws one plan of a limit, or the limit if it has no plans. The tokens are left out if later is set.
func (p *Page) planView(pair diff.PlanPair, name string, later bool) planView {
	v := planView{Name: pair.Plan}
	l := pair.New
	if l == nil {
		l = pair.Old
	}
	if pair.Plan != "" {
		v.Words = []string{strings.Join(describe.Limit(l).Lines(), " ")}
		name += ", plan " + pair.Plan
	}
	policies := policiesOf(pair)
	if !anyLimited(policies) {
		return v
	}
	v.Facts = facts(policies)
	if picture, ok := p.tokensPicture(name, pair); ok && !later {
		v.Drawings = append(v.Drawings, drawingOf(p.tokensCaption(policies), picture))
	} else if !ok {
		v.Note = "The recording has no requests of this limit."
	}
	if picture, ok := draw.Envelope(name, policies...); ok {
		caption := "The most in any interval"
		if slices.ContainsFunc(policies, func(p *runtime.Policy) bool { return p.MaxReserved == runtime.Unbounded }) {
			caption += ", without reservations, which have no bound"
		}
		if slices.ContainsFunc(policies, func(p *runtime.Policy) bool { return p.Mode != runtime.ModeEnforce }) {
			caption += ", if it were enforced"
		}
		v.Drawings = append(v.Drawings, drawingOf(caption, picture))
	}
	return v
}

// tokensPicture draws the standard story or the recording. It returns false if the recording has no requests of the limit.
func (p *Page) tokensPicture(title string, pair diff.PlanPair) (draw.Picture, bool) {
	policies := policiesOf(pair)
	if p.Recording != nil {
		return p.Recording.picture(policies[len(policies)-1].Name, title, pair)
	}
	story := draw.StandardStory(newest(policies))
	var runs []draw.Run
	for _, policy := range policies {
		runs = append(runs, draw.Replay(policy, story))
	}
	runs[len(runs)-1].Left = cmp.Or(pair.New, pair.Old).Left()
	return draw.Tokens(title, story, runs...), true
}

func (p *Page) tokensCaption(policies []*runtime.Policy) string {
	shown := newest(policies)
	what, unit, rest := "Tokens", "token", " each"
	if shown.Kind == runtime.InFlight {
		what, unit, rest = "Free slots", "slot", " each, which run for half a hold"
	}
	if p.Recording != nil {
		return p.Recording.caption(policies[len(policies)-1].Name, what)
	}
	return what + " over time, and requests of " + words.Count(draw.StandardStory(shown).Requests[0].Count, unit) + rest
}

// newest returns the last policy that has numbers.
func newest(policies []*runtime.Policy) *runtime.Policy {
	if last := policies[len(policies)-1]; !last.Inside().Numberless() {
		return last
	}
	return policies[0]
}

func drawingOf(caption string, p draw.Picture) drawing {
	return drawing{Caption: caption, Text: p.Text, SVG: template.HTML(p.SVG), Head: p.Table.Head, Rows: p.Table.Rows}
}

// facts are the numbers of a limit: those of the old version, if they differ, before those of the new one.
func facts(policies []*runtime.Policy) (list []fact) {
	add := func(m review.Measure) {
		var texts []string
		applies := false
		for _, p := range policies {
			n, text := m.Of(nil, p), "unlimited"
			if p.Mode != runtime.ModeUnlimited {
				text, applies = n.Format(n.New), applies || n.New != nil
			}
			texts = append(texts, text)
		}
		if applies {
			list = append(list, fact{m.Name, strings.Join(slices.Compact(texts), " → ")})
		}
	}
	add(review.Within(0))
	if newest(policies).Kind != runtime.InFlight { // which has no bound in a time
		add(review.Within(bounds.Interval(newest(policies))))
	}
	for _, m := range review.Measures() {
		if m.Name == review.NextToken || m.Name == review.FullAfter || m.Name == review.LongestDelay || m.Name == review.Hold {
			add(m)
		}
	}
	return list
}

// playground is the configuration of a playground, as playground.js reads it.
type playground struct {
	Plans []playPlan `json:"plans"`
	// Per is the period in words.
	Per string `json:"per"`
	// All says that the sliders change all lanes, and not only the last one.
	All bool `json:"all,omitempty"`
}

type playPlan struct {
	Name  string     `json:"name,omitempty"`
	Lanes []playLane `json:"lanes"`
}

type playLane struct {
	Name string `json:"name,omitempty"`
	Mode string `json:"mode,omitempty"`
	Rule jsRule `json:"rule"`
}

// playConfig returns the configuration of the limit's playground: all plans that are limited, old and new.
func (l *limit) playConfig() string {
	shown := l.shown()
	p := playground{Per: fields.PeriodOf(asTokens(&shown.Policy))}
	for _, pair := range l.renamed.PairPlans(l.old, l.new) {
		plan := playPlan{Name: pair.Plan}
		for i, version := range []*spec.Limit{pair.Old.Unblocked(), pair.New.Unblocked()} {
			if version == nil || version.Numberless() || version.CountsOnly() {
				continue
			}
			lane := playLane{Rule: laneRule(&version.Policy)}
			for _, class := range version.Priorities {
				lane.Rule.Priorities = append(lane.Rule.Priorities, jsPriority{class.Name, class.Leaves})
			}
			if pair.Old != nil && pair.New != nil {
				lane.Name = []string{"old", "new"}[i]
			}
			if version.Policy.Mode != runtime.ModeEnforce {
				lane.Mode = version.Policy.Mode.String()
			}
			plan.Lanes = append(plan.Lanes, lane)
		}
		if len(plan.Lanes) > 0 {
			p.Plans = append(p.Plans, plan)
		}
	}
	if len(p.Plans) == 0 {
		return ""
	}
	return encode(p)
}

// laneRule returns the rule of a policy for a playground, from the instant from which it is drawn.
func laneRule(p *runtime.Policy) jsRule {
	rule := draw.RuleOf(p)
	return ruleFor(p, &rule, draw.Origin(p, &rule), calendarWindows)
}

// comparisonConfig is the playground of all kinds side by side.
func comparisonConfig() string {
	const rate, period = 6, 10 * time.Second
	lane := func(name string, p runtime.Policy) playLane {
		if p.Name = "limit"; p.Slots == 0 {
			p.Rate, p.Capacity, p.Period = rate, rate, period
		}
		if p.Kind.Windowed() && !p.Precise {
			p.Start = runtime.StartOffset(0)
		}
		rule := meter.RuleOf(&p, "")
		return playLane{Name: name, Rule: ruleFor(&p, &rule, 0, 0)}
	}
	return encode(playground{Per: "10 seconds", All: true, Plans: []playPlan{{Lanes: []playLane{
		lane("Token bucket", runtime.Policy{Kind: runtime.TokenBucket}),
		lane("Fixed window", runtime.Policy{Kind: runtime.FixedWindow}),
		lane("Sliding window, estimated from two windows", runtime.Policy{Kind: runtime.SlidingWindow}),
		lane("Sliding window, precise", runtime.Policy{Kind: runtime.SlidingWindow, Precise: true}),
		lane("In flight, with a hold of the period", runtime.Policy{Kind: runtime.InFlight, Slots: rate, Hold: period}),
	}}}})
}

func encode(p playground) string {
	text, err := json.Marshal(p)
	if err != nil {
		panic("page: a playground cannot be encoded: " + err.Error())
	}
	return string(text)
}

// policiesOf returns the policies of a pair, the old one first. One that only counts is drawn as one without a limit.
func policiesOf(pair diff.PlanPair) (list []*runtime.Policy) {
	for _, version := range []*spec.Limit{pair.Old.Unblocked(), pair.New.Unblocked()} {
		switch {
		case version == nil:
		case version.CountsOnly():
			list = append(list, &runtime.Policy{Name: version.Policy.Name, Kind: version.Policy.Kind, Mode: runtime.ModeUnlimited})
		default:
			list = append(list, &version.Policy)
		}
	}
	return list
}

func anyLimited(policies []*runtime.Policy) bool {
	return slices.ContainsFunc(policies, func(p *runtime.Policy) bool { return !p.Inside().Numberless() })
}

func limitID(name string) string { return "limit-" + name }

// PictureFile is a drawing as a separate file.
type PictureFile struct {
	// Name is the name of the file without extension: "sendMessage-tokens".
	Name string
	SVG  []byte
}

// Pictures returns the drawings of the page: for each limit, and each of its plans, the tokens over time and the envelope.
// Each has the colors of the viewer's system.
func (p *Page) Pictures() (list []PictureFile) {
	limits := p.limits()
	for i := range limits {
		l := &limits[i]
		for _, pair := range l.renamed.PairPlans(l.old, l.new) {
			file, title := l.shown().Policy.Name, l.shown().Policy.Name
			if pair.Plan != "" {
				file, title = file+"-"+pair.Plan, title+", plan "+pair.Plan
			}
			policies := policiesOf(pair)
			if !anyLimited(policies) {
				continue
			}
			if picture, ok := p.tokensPicture(title, pair); ok {
				list = append(list, PictureFile{file + "-tokens", picture.Standalone()})
			}
			if picture, ok := draw.Envelope(title, policies...); ok {
				list = append(list, PictureFile{file + "-envelope", picture.Standalone()})
			}
		}
	}
	return list
}
