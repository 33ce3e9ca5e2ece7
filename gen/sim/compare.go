package sim

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/describe"
	"github.com/ratelimitgen/ratelimitgen/gen/diff"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Comparison replays a trace through the limits of two files, and reports the requests that the new ones would decide
// differently from the old.
type Comparison struct {
	// Renamed and RenamedPlans have the new names of limits and plans by the old ones.
	Renamed, RenamedPlans map[string]string

	old, new *Replay
	pairs    []*limitPair
	byName   map[string]*limitPair
	span     span
}

// NewComparison returns a comparison of a file with an old version, which is nil if there was none. Limits and plans of the
// old version have the names that they have in the new one.
func NewComparison(old, new *spec.File) *Comparison {
	c := &Comparison{new: NewReplay(new), byName: map[string]*limitPair{}}
	if old == nil {
		old = &spec.File{}
	}
	renamed := diff.RenamesOf(old, new)
	c.Renamed, c.RenamedPlans = inverse(renamed.Limits), inverse(renamed.Plans)
	for _, g := range slices.Concat(old.Groups, new.Groups) {
		// If a limit and a group share a name, it does not say which of them was renamed.
		maps.DeleteFunc(c.Renamed, func(was, is string) bool { return was == g.Name || is == g.Name })
	}
	c.old = newReplay(old, c.Renamed, c.RenamedPlans)
	// The limits come in the order of the new file, and removed ones after them.
	for _, l := range slices.Concat(c.new.limits, c.old.limits) {
		if c.byName[l.name] == nil {
			pair := newLimitPair(l.name, c.old.byName[l.name], c.new.byName[l.name])
			c.byName[l.name] = pair
			c.pairs = append(c.pairs, pair)
		}
	}
	return c
}

// inverse returns the keys of a map by its values.
func inverse(m map[string]string) map[string]string {
	of := map[string]string{}
	for k, v := range m {
		of[v] = k
	}
	return of
}

// Sides returns the replays of the two sides.
func (c *Comparison) Sides() (old, new *Replay) { return c.old, c.new }

// Names returns the names of the limits and groups of both sides, each once, in the order of the new file.
func (c *Comparison) Names() []string {
	return words.Of(c.pairs, func(p *limitPair) string { return p.name })
}

// PlanNames returns the names of the plans of both sides, each once.
func (c *Comparison) PlanNames() (names []string) {
	for _, s := range slices.Concat(c.new.limits, c.old.limits) {
		for _, plan := range s.planNames() {
			if !slices.Contains(names, plan) {
				names = append(names, plan)
			}
		}
	}
	return names
}

// Units returns the names of what the requests of limits with prices use, on both sides, each once.
func (c *Comparison) Units() (names []string) {
	for _, s := range slices.Concat(c.new.limits, c.old.limits) {
		for _, name := range s.units() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// Prepare lets a trace have the old names, the units of limits with prices, no name of a limit if the new file has only one,
// and the address of the client for a default limit whose key it is.
func (c *Comparison) Prepare(in *trace.Reader) {
	in.Renamed, in.RenamedPlans, in.Units = c.Renamed, c.RenamedPlans, c.Units()
	if in.Default == "" && len(c.new.limits) == 1 {
		in.Default = c.new.limits[0].name
	}
	if s := cmp.Or(c.new.byName[in.Default], c.old.byName[in.Default]); s != nil {
		in.AddressKey = false
		if len(s.key) == 1 {
			_, in.AddressKey = addressOf(s.key[0].Single())
		}
	}
}

// Decide decides a line on both sides. The error is a [*trace.Fault]. A count that exceeds the capacity of only one side is
// not an error, but a change.
func (c *Comparison) Decide(l *trace.Line) error {
	_, _, err := c.DecideBoth(l)
	return err
}

// DecideBoth is [Comparison.Decide], and returns the decisions.
func (c *Comparison) DecideBoth(l *trace.Line) (old, new Answer, err error) {
	pair := c.byName[l.Limit]
	if pair == nil {
		return Answer{}, Answer{}, unknownLimit(l.Limit, c.new.Names())
	}
	answers, err := pair.decide(l)
	if err != nil {
		return Answer{}, Answer{}, err
	}
	pair.requests++
	c.span.add(l.At)
	return answers[0], answers[1], nil
}

// limitPair is a limit on both sides, with the changes of its outcomes.
type limitPair struct {
	name string
	// old and new are nil if the side has no such limit.
	old, new *limitState
	// unlike is the old limit if the keys of the two sides have different numbers of parts, so that no request fits both; old
	// is nil then.
	unlike   *limitState
	requests int64
	// changes counts the requests by outcome before and after, and keys the keys with such a request. The
	// diagonals, where both are the same, stay 0.
	changes, keys [Outcomes][Outcomes]int64
	byKey         map[string]*keyChanges
}

// keyChanges counts the requests of one key.
type keyChanges struct {
	key               string
	requests, changed int64
	// counted is set for the changes that limitPair.keys counts this key for.
	counted [Outcomes][Outcomes]bool
}

func newLimitPair(name string, old, new *limitState) *limitPair {
	p := &limitPair{name: name, old: old, new: new, byKey: map[string]*keyChanges{}}
	if old != nil && new != nil && len(old.key) != len(new.key) {
		// No line fits both keys. Lines that fit the new one are replayed as for an added limit.
		p.old, p.unlike = nil, old
	}
	return p
}

// decide decides a line on the sides that have the limit, the old one first. A fault of one side is one of the line, but a
// request that only one side can never allow is a change.
func (p *limitPair) decide(l *trace.Line) (answers [2]Answer, err error) {
	sides := [...]*limitState{p.old, p.new}
	var accepted [2]pending
	var errs [2]error
	// Find the faults of both sides before one of them takes tokens: a line counts on both sides or on neither.
	for i, s := range slices.Backward(sides[:]) {
		if s == nil {
			continue
		}
		if accepted[i], errs[i] = s.accept(l); errs[i] != nil && !errors.Is(errs[i], runtime.ErrInvalidPlan) {
			return answers, errs[i]
		}
	}
	possible := false
	for i, s := range sides {
		if s == nil {
			continue
		}
		if err = errs[i]; err == nil {
			answers[i], err = s.decide(accepted[i])
		}
		if err != nil {
			answers[i] = Answer{Answered: true, Outcome: outcomeOfError(err)}
		}
		if answers[i].Outcome == invalid {
			return answers, err
		}
		possible = possible || answers[i].Outcome < TooLarge
	}
	switch {
	case !possible:
		return answers, err
	case p.old != nil && p.new != nil:
		p.count(cmp.Or(answers[1].Key, answers[0].Key), answers[0].Outcome, answers[1].Outcome)
	}
	return answers, nil
}

// count counts the outcomes of a request on both sides.
func (p *limitPair) count(key string, before, after Outcome) {
	k := p.byKey[key]
	if k == nil {
		k = &keyChanges{key: key}
		p.byKey[key] = k
	}
	k.requests++
	if before == after {
		return
	}
	k.changed++
	p.changes[before][after]++
	if !k.counted[before][after] {
		k.counted[before][after] = true
		p.keys[before][after]++
	}
}

// changed returns the number of requests with different outcomes.
func (p *limitPair) changed() int64 {
	sum := int64(0)
	for _, after := range p.changes {
		for _, n := range after {
			sum += n
		}
	}
	return sum
}

// same reports whether no outcome, no wait and no unreplayed setting differs.
func (p *limitPair) same() bool {
	// The same outcomes can have other waits: a denial with a longer RetryAfter is a change too.
	return p.old != nil && p.new != nil && p.changed() == 0 && p.old.longest == p.new.longest &&
		unreplayed(&p.old.policy) == unreplayed(&p.new.policy)
}

// outcomeChange is a change of outcomes, in words.
type outcomeChange struct {
	better bool
	text   string
}

func (p *limitPair) outcomeChanges() (list []outcomeChange) {
	for from := range Outcomes {
		for to := range Outcomes {
			if n := p.changes[from][to]; n > 0 {
				// Outcomes are ordered from best to worst, so that the lower one is better.
				list = append(list, outcomeChange{to < from, fmt.Sprintf("%s of %s%s would change from %s to %s",
					words.Number(n), words.Count(p.requests, "request"), inKeys(p.keys[from][to], p.new), from, to)})
			}
		}
	}
	return list
}

// addedText describes the requests of a new limit, or of one whose key has another number of parts now.
func (p *limitPair) addedText() string {
	before := "not limited by this rule before"
	if p.unlike != nil {
		before = "the key has a different number of parts, so every count starts again"
	}
	effect, n := "denied", p.new.by[Denied]
	if p.new.policy.Mode == runtime.ModeShadow {
		effect, n = "shadowed", p.new.by[Shadowed]
	}
	return fmt.Sprintf("%s; %s of %s%s would be %s", before,
		words.Number(n), words.Count(p.requests, "request"), inKeys(int64(p.new.requestedKeys()), p.new), effect)
}

// removedText describes the requests of a limit that is gone.
func (p *limitPair) removedText() string {
	return fmt.Sprintf("%s%s would no longer be limited; the old rule denies %s of them",
		words.Count(p.requests, "request"), inKeys(int64(p.old.requestedKeys()), p.old), words.Number(p.old.by[Denied]))
}

func inKeys(n int64, l *limitState) string {
	if len(l.key) == 0 {
		return ""
	}
	return " (" + words.Count(n, "key") + ")"
}

// caveat describes the settings of both sides that a replay leaves out, or is "".
func (p *limitPair) caveat() string {
	switch {
	case p.old == nil:
		return p.new.caveat()
	case p.new == nil:
		return p.old.caveat()
	}
	const none = "no lease and no denyCache"
	old, new, consequences := unreplayed(&p.old.policy), unreplayed(&p.new.policy), inProduction(&p.old.policy, &p.new.policy)
	switch {
	case old == "" && new == "":
		return ""
	case old == new:
		return "Not replayed: " + new + ", before and after." + consequences
	}
	return "Not replayed: " + cmp.Or(old, none) + " before, " + cmp.Or(new, none) + " after." + consequences
}

// WriteText prints the changes for each limit with requests, and the keys with most of them, in lines of at most 80
// cells. leftOut is [trace.Reader.LeftOut]. The error is that of w.
func (c *Comparison) WriteText(w io.Writer, color bool, leftOut int64) error {
	var out bytes.Buffer
	c.span.write(&out, leftOut)
	same := 0 // listed at the end, below the changes that the reader looks for
	for _, p := range c.pairs {
		switch {
		case p.requests == 0:
		case p.same():
			same++
		default:
			out.WriteByte('\n')
			p.write(&out, cells.InkFor(color))
		}
	}
	if same > 0 {
		out.WriteByte('\n')
		c.writeSame(&out)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// writeSame lists the limits without a change.
func (c *Comparison) writeSame(out *bytes.Buffer) {
	var rows [][]string
	caveats := ""
	for _, p := range c.pairs {
		if p.requests == 0 || !p.same() {
			continue
		}
		rows = append(rows, []string{trace.Clip(p.name, 40), "nothing would change", words.Count(p.requests, "request")})
		if caveat := p.caveat(); caveat != "" {
			caveats += cells.Wrap(trace.Clip(p.name, 40)+": "+caveat, "  ")
		}
	}
	out.WriteString(cells.Table(rows, "lrr", "", 0) + caveats)
}

// write prints the section of a limit.
func (p *limitPair) write(out *bytes.Buffer, ink cells.Ink) {
	fmt.Fprintf(out, "%s%s%s\n", ink.Bold, trace.Clip(p.name, 60), ink.Off)
	writeSide(out, "old", cmp.Or(p.old, p.unlike))
	writeSide(out, "new", p.new)
	switch {
	case p.old == nil:
		out.WriteString(cells.Wrap(p.addedText(), "  "))
	case p.new == nil:
		fmt.Fprintf(out, "  %s\n", p.removedText())
	default:
		for _, change := range p.outcomeChanges() {
			color := ink.Red
			if change.better {
				color = ink.Green
			}
			out.WriteString(color + strings.TrimSuffix(cells.Wrap(change.text, "  "), "\n") + ink.Off + "\n")
		}
	}
	if caveat := p.caveat(); caveat != "" {
		out.WriteString(cells.Wrap(caveat, "  "))
	}
	if p.old != nil && p.new != nil {
		p.writeTotals(out)
		p.writeKeys(out)
	}
}

// writeSide prints the rule of a side that has the limit.
func writeSide(out *bytes.Buffer, side string, l *limitState) {
	if l == nil {
		return
	}
	rule := cells.Wrap(l.words(describe.Words), "       ")
	// The name of the side replaces the first spaces, so that the other lines are aligned with the first.
	out.WriteString("  " + side + rule[len("  "+side):])
}

func (p *limitPair) writeTotals(out *bytes.Buffer) {
	rows := [][]string{tallyHead("", p.shadow())}
	rows = append(rows, append([]string{"old"}, p.old.row(p.old.requestedKeys(), p.shadow())...))
	rows = append(rows, p.old.planRows("  ", p.shadow())...)
	rows = append(rows, append([]string{"new"}, p.new.row(p.new.requestedKeys(), p.shadow())...))
	rows = append(rows, p.new.planRows("  ", p.shadow())...)
	out.WriteString(tallyTable(rows, "  "))
}

// shadow reports whether one of the sides, both of which have the limit, is in shadow mode.
func (p *limitPair) shadow() bool {
	return p.old.policy.Mode == runtime.ModeShadow || p.new.policy.Mode == runtime.ModeShadow
}

// writeKeys lists the keys with most changes.
func (p *limitPair) writeKeys(out *bytes.Buffer) {
	if len(p.new.key) == 0 || p.changed() == 0 {
		return
	}
	var rows [][]string
	byChanged := func(a, b *keyChanges) int {
		// Equal ones are in order of their keys, since a map has none.
		return cmp.Or(cmp.Compare(a.changed, b.changed), -strings.Compare(a.key, b.key))
	}
	for _, k := range top(maps.Values(p.byKey), maxKeysListed, byChanged) {
		if k.changed > 0 { // fewer keys may have changed than top returns
			rows = append(rows, []string{trace.Clip(k.key, 36), words.Number(k.changed) + " of " + words.Number(k.requests)})
		}
	}
	out.WriteString("  keys with most changes\n" + cells.Table(rows, "lr", "    ", 0))
}
