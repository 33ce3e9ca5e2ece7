package page

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/diff"
	"github.com/ratelimitgen/ratelimitgen/gen/draw"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/sim"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// Recording has the decisions on a trace: for each limit and group the number of requests by outcome, and for each limit
// the tokens and requests of its busiest key, in the part of the trace in which it was limited most.
type Recording struct {
	subjects map[string]*recorded
}

// recorded is what a recording has of a limit or a group.
type recorded struct {
	// tallies count the requests by the outcome on each side; unanswered ones are those of a side without the limit.
	tallies [sides]tally
	// keys are the keys of requests, and busiest the one that is drawn.
	keys    map[string]*busyness
	busiest string
	marks   [sides][]draw.Mark
	// from is the instant at which the drawing begins, and length how long it is.
	from   int64
	length time.Duration
	// curves are the tokens in that time, up to the step next.
	curves [sides][]draw.Point
	next   int
}

// The sides of a recording: the old version, which may be missing, and the new one.
const (
	oldSide = iota
	newSide
	sides
)

// tally counts requests by their outcome.
type tally struct {
	outcomes   [sim.Outcomes]int
	unanswered int
}

// busyness orders keys.
type busyness struct {
	requests, limited int
	// sides has the key as each side encodes it, if it has decided a request.
	sides [sides]string
}

// Record replays a trace through a file, and through its old version unless that is nil. It calls open before each of
// several passes over the trace, and closeIt after it. Invalid lines are passed to onFault in the first pass, and skipped in
// the others; an error of onFault, or of reading, ends it.
func Record(file, old *spec.File, open func() (trace *trace.Reader, closeIt func() error, err error), onFault func(*trace.Fault) error) (*Recording, error) {
	r := &Recording{subjects: map[string]*recorded{}}
	pass := func(before func(*trace.Line), after func(*trace.Line, [sides]sim.Answer), c *sim.Comparison) error {
		in, closeIt, err := open()
		if err != nil {
			return err
		}
		c.Prepare(in)
		err = in.Replay(func(l *trace.Line) error {
			before(l)
			oldAnswer, newAnswer, err := c.DecideBoth(l)
			if err == nil {
				after(l, [sides]sim.Answer{oldAnswer, newAnswer})
			}
			return err
		}, onFault)
		onFault = func(*trace.Fault) error { return nil }
		return errors.Join(err, closeIt())
	}
	nothing := func(*trace.Line) {}
	if err := pass(nothing, r.count, sim.NewComparison(old, file)); err != nil {
		return nil, err
	}
	r.chooseKeys()
	if err := pass(nothing, r.mark, sim.NewComparison(old, file)); err != nil {
		return nil, err
	}
	limits := file.Limits
	if old != nil {
		limits = slices.Concat(old.Limits, limits) // the new version of a limit is the last
	}
	for _, l := range limits {
		if s := r.subjects[l.Policy.Name]; s != nil {
			s.choosePart(draw.Unit(&l.Policy))
		}
	}
	c := sim.NewComparison(old, file)
	s := newSampling(r, c)
	if err := pass(s.sample, func(l *trace.Line, _ [sides]sim.Answer) { s.sample(l) }, c); err != nil {
		return nil, err
	}
	s.end()
	return r, nil
}

func (r *Recording) subject(name string) *recorded {
	s := r.subjects[name]
	if s == nil {
		s = &recorded{keys: map[string]*busyness{}}
		r.subjects[name] = s
	}
	return s
}

// keyOf returns the key of answers. A side that cannot decide a request has none.
func keyOf(answers [sides]sim.Answer) string {
	return cmp.Or(answers[newSide].Key, answers[oldSide].Key)
}

// outcomeOf returns the outcome with which an answer is drawn, and false if the side has not answered.
func outcomeOf(a sim.Answer) (sim.Outcome, bool) {
	switch a.Outcome {
	case sim.Partly:
		return sim.Allowed, a.Answered
	case sim.TooLarge, sim.NoPlan:
		return sim.Denied, a.Answered
	}
	return a.Outcome, a.Answered
}

// count counts the outcomes of a line, in the first pass.
func (r *Recording) count(l *trace.Line, answers [sides]sim.Answer) {
	s := r.subject(l.Limit)
	k := s.keys[keyOf(answers)]
	if k == nil {
		k = &busyness{}
		s.keys[keyOf(answers)] = k
	}
	k.requests++
	for side, a := range answers {
		k.sides[side] = cmp.Or(a.Key, k.sides[side])
		o, ok := outcomeOf(a)
		if !ok {
			s.tallies[side].unanswered++
			continue
		}
		s.tallies[side].outcomes[o]++
		if o != sim.Allowed {
			k.limited++
		}
	}
}

// chooseKeys finds the busiest key of each limit: the one that was limited most often, or else has most requests.
func (r *Recording) chooseKeys() {
	for _, s := range r.subjects {
		first := true
		var best busyness
		for key, k := range s.keys {
			order := cmp.Or(cmp.Compare(k.limited, best.limited), cmp.Compare(k.requests, best.requests),
				-cmp.Compare(key, s.busiest))
			if first || order > 0 {
				first, best, s.busiest = false, *k, key
			}
		}
	}
}

// mark collects the requests of the busiest keys, in the second pass.
func (r *Recording) mark(l *trace.Line, answers [sides]sim.Answer) {
	s := r.subjects[l.Limit]
	if s == nil || keyOf(answers) != s.busiest {
		return
	}
	for side, a := range answers {
		if o, ok := outcomeOf(a); ok {
			s.marks[side] = append(s.marks[side], draw.Mark{At: time.Duration(l.At), Outcome: o, Locked: a.PenaltyFor,
				Crossed: a.Crossed})
		}
	}
}

// choosePart finds the part of the trace to draw for a limit: some units of its own time, with the most requests that
// were limited.
func (s *recorded) choosePart(unit time.Duration) {
	const units = 4
	marks := slices.Concat(s.marks[oldSide], s.marks[newSide])
	slices.SortStableFunc(marks, func(a, b draw.Mark) int { return cmp.Compare(a.At, b.At) })
	if len(marks) == 0 {
		return
	}
	span := marks[len(marks)-1].At - marks[0].At
	s.length = max(unit, min(span, units*unit))
	most, limited, last := -1, 0, 0
	for first, m := range marks {
		for ; last < len(marks) && marks[last].At <= m.At+s.length; last++ {
			if marks[last].Outcome != sim.Allowed {
				limited++
			}
		}
		if limited > most {
			most, s.from = limited, int64(m.At)
		}
		if marks[first].Outcome != sim.Allowed {
			limited--
		}
	}
	// A little earlier, so that the first mark is not on the axis.
	margin := s.length / 16
	s.from, s.length = s.from-int64(margin), s.length+2*margin
}

// sampling is the third pass: it collects the tokens of the busiest keys in the part that is drawn.
type sampling struct {
	r       *Recording
	replays [sides]*sim.Replay
	// names are the limits with a part to draw.
	names []string
}

func newSampling(r *Recording, c *sim.Comparison) *sampling {
	s := &sampling{r: r}
	s.replays[oldSide], s.replays[newSide] = c.Sides()
	for name, of := range r.subjects {
		if of.length > 0 {
			s.names = append(s.names, name)
		}
	}
	slices.Sort(s.names)
	return s
}

// sample adds the tokens before or after a line to the curves that it may bend: a group changes its members.
func (s *sampling) sample(l *trace.Line) {
	group := s.replays[oldSide].HasGroup(l.Limit) || s.replays[newSide].HasGroup(l.Limit)
	for _, name := range s.names {
		if group || name == l.Limit {
			s.advance(name, l.At)
		}
	}
}

// end completes the curves.
func (s *sampling) end() {
	for _, name := range s.names {
		of := s.r.subjects[name]
		s.advance(name, of.from+int64(of.length))
	}
}

// curveSteps is at how many times a curve is calculated, besides those of requests.
const curveSteps = 400

// advance adds the tokens at the steps up to an instant, and at the instant.
func (s *sampling) advance(name string, to int64) {
	of := s.r.subjects[name]
	step := max(1, int64(of.length)/curveSteps)
	for ; of.next <= curveSteps && of.from+int64(of.next)*step < to; of.next++ {
		s.add(name, of, of.from+int64(of.next)*step)
	}
	if of.from <= to && to <= of.from+int64(of.length) {
		s.add(name, of, to)
	}
}

// add adds the tokens at an instant to the curves of both sides.
func (s *sampling) add(name string, of *recorded, at int64) {
	for side, replay := range s.replays {
		if tokens, ok := replay.Left(name, of.keys[of.busiest].sides[side], at); ok {
			of.curves[side] = append(of.curves[side], draw.Point{At: time.Duration(at - of.from), Tokens: tokens})
		}
	}
}

// tallyWords returns the numbers of a limit or a group, or "" if it has no requests.
func (r *Recording) tallyWords(name string) string {
	s := r.subjects[name]
	if s == nil {
		return ""
	}
	var parts []string
	requests := 0
	for _, t := range s.tallies {
		n := t.unanswered
		var counts []string
		for _, o := range draw.Outcomes() {
			if c := t.outcomes[o]; c > 0 {
				n += c
				counts = append(counts, words.Number(int64(c))+" "+o.String())
			}
		}
		requests = max(requests, n)
		if len(counts) > 0 {
			parts = append(parts, words.List(counts, "and"))
		}
	}
	if parts = slices.Compact(parts); len(parts) == 2 {
		parts[0], parts[1] = "old version: "+parts[0], "new version: "+parts[1]
	}
	return fmt.Sprintf("In the recording: %s of %s; %s.", count(requests, "request"), count(len(s.keys), "key"),
		strings.Join(parts, "; "))
}

// picture draws the busiest key of a limit. It returns false if the recording has no requests of the limit.
func (r *Recording) picture(limit, title string, pair diff.PlanPair) (draw.Picture, bool) {
	s := r.subjects[limit]
	if s == nil || s.length == 0 {
		return draw.Picture{}, false
	}
	var runs []draw.Run
	for side, l := range [sides]*spec.Limit{pair.Old, pair.New} {
		if l == nil {
			continue
		}
		run := draw.Run{Policy: &l.Policy, Curve: s.curves[side]}
		run.Edges = draw.Edges(&l.Policy, s.keys[s.busiest].sides[side], s.from, s.length)
		for _, m := range s.marks[side] {
			if m.At -= time.Duration(s.from); 0 <= m.At && m.At <= s.length {
				run.Marks = append(run.Marks, m)
			}
		}
		runs = append(runs, run)
	}
	runs[len(runs)-1].Left = cmp.Or(pair.New, pair.Old).Left()
	return draw.Tokens(title, draw.Story{Length: s.length}, runs...), true
}

// caption says when the drawing of a limit begins. what is on its vertical axis.
func (r *Recording) caption(limit, what string) string {
	s := r.subjects[limit]
	if s == nil {
		return what + " over time"
	}
	return what + " of the busiest key from " + time.Unix(0, s.from).UTC().Format("2006-01-02 15:04:05 UTC") +
		" on, and its requests"
}

func count(n int, thing string) string { return words.Count(int64(n), thing) }
