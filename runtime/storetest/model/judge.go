package model

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// Clock is the clock of a world: the time of a bubble of package synctest, which jumps ahead when everybody sleeps, and
// a distance from it, which can become smaller.
type Clock struct {
	skew atomic.Int64
	// watchers are called when a store reads the clock.
	watchers atomic.Pointer[[]func()]
	// latest is the latest time that it has shown before it went back, and earliest how far it may go back.
	latest, earliest int64
}

// Now returns the time, to a store.
func (c *Clock) Now() time.Time {
	if all := c.watchers.Load(); all != nil {
		for _, watcher := range *all {
			watcher()
		}
	}
	return c.time()
}

func (c *Clock) time() time.Time { return time.Now().Add(time.Duration(c.skew.Load())) }

func (c *Clock) now() int64 { return c.time().UnixNano() }

// watch has f called when a store reads the clock, until stop is called. Both are called by one goroutine.
func (c *Clock) watch(f func()) (stop func()) {
	before := c.watchers.Load()
	all := []func(){f}
	if before != nil {
		all = append(all, *before...)
	}
	c.watchers.Store(&all)
	return func() { c.watchers.Store(before) }
}

// goBack puts the clock back by less than a time, and by less than the hour for which a store keeps ended entries for
// such a clock.
func (c *Clock) goBack(r *rand.Rand, most int64) {
	c.latest = max(c.latest, c.now())
	c.skew.Add(-r.Int64N(max(1, min(most, c.now()-max(c.earliest, c.latest-int64(50*time.Minute))))))
}

// journal has the trace of a world until the first difference from the model.
type journal struct {
	clock  *Clock
	counts counts
	trace  []string
	err    error
}

// ledger has the tokens that were taken and can be given back.
type ledger struct {
	// open can be given back, and closed was.
	open, closed []*taken
	// tx is the number of the transaction that is open, 0 without one.
	tx int
	// sweeps counts the sweeps.
	sweeps int
}

// judge compares answers with the model, which it keeps.
type judge struct {
	journal
	ledger
	// jitters has the jitter of tokens by the instant at which they are due.
	jitters map[due]time.Duration
}

// counts has the numbers of answers that agree with the model.
type counts struct {
	// requests is how many there were, renumbered how many with other numbers of the caller than the one before for the
	// key, and inPenalty how many answers were about a key with a penalty in force.
	requests, renumbered, inPenalty int
	// balances counts the comparisons of what a key has used, and of when its window ends. settled counts settlements,
	// and less those after which fewer tokens were given back than were unused and not yet back by themselves.
	balances, settled, less int
	// departed counts the requests whose callers have left without an answer.
	departed int
	// crossed counts the requests that have crossed a threshold.
	crossed int
	// lost counts the requests of holders that have found that a slot was lost.
	lost int
}

func (c *counts) add(o counts) {
	for _, sum := range []struct{ of, with *int }{{&c.requests, &o.requests}, {&c.renumbered, &o.renumbered},
		{&c.inPenalty, &o.inPenalty},
		{&c.balances, &o.balances}, {&c.settled, &o.settled}, {&c.less, &o.less}, {&c.departed, &o.departed}, {&c.lost, &o.lost}, {&c.crossed, &o.crossed}} {
		*sum.of += *sum.with
	}
}

func (c counts) String() string {
	return fmt.Sprintf("%d requests agree, %d of them with other numbers of the caller than the one before, and %d balances with what was used and when windows end; "+
		"%d were settled, after %d of which less was given back than was unused; %d were about a key with a penalty; %d have crossed a threshold; %d callers have left without an answer",
		c.requests, c.renumbered, c.balances, c.settled, c.less, c.inPenalty, c.crossed, c.departed)
}

// due is a key of a limit and the instant at which its tokens are due.
type due struct {
	k  *key
	at int64
}

// taken is tokens that a request has taken, and that can be given back.
type taken struct {
	request
	d runtime.Decision
	// reservation is nil for a request that has not reserved.
	reservation reservation
	// resumed means that the reservation was settled by a copy made from its text, which can be settled again.
	resumed bool
	event   *event
	// tx is the number of the transaction that has taken them, 0 for none.
	tx int
	// life is the one of the key in which they were taken.
	life int
	// sweeps is how many sweeps there were before. One may delete shards that are full, so that others do not know any
	// more how many were taken since.
	sweeps int
	// edits is how many edits of the limit there were before: a reservation charges by the numbers by which it was
	// made.
	edits int
	// together means that the call has taken from the key by several requests: of those, shards may return less.
	together bool
}

// turn is a moment at which requests are sent.
type turn struct {
	ctx    context.Context
	limits *limiter.Limiter
	// state is what the store does, and where is "store", or how the transaction ends: they are values of fields.
	state, where string
	now          int64
	// leaves means that the caller's context ends.
	leaves bool
}

// answered reports whether the store decides.
func (at turn) answered() bool { return at.state == "answers" }

// deadline is the caller's, for a store that is silent.
const deadline = 50 * time.Millisecond

// opens reports whether a limit learns of a failure before its caller gives up.
func (at turn) opens(p *runtime.Policy) bool {
	return at.state == "fails" || p.Timeout > 0 && p.Timeout < deadline
}

// failf records a difference.
func (j *journal) failf(format string, args ...any) {
	if j.err == nil {
		j.err = fmt.Errorf(format, args...)
	}
}

func (j *journal) logf(format string, args ...any) {
	j.trace = append(j.trace, j.clock.time().UTC().Format("2006-01-02 15:04:05.000000000 ")+fmt.Sprintf(format, args...))
}

// report returns the difference, with the policies and the trace, or nil.
func (j *journal) report(policies ...*runtime.Policy) error {
	if j.err == nil {
		return nil
	}
	limits := ""
	for _, p := range policies {
		limits += fmt.Sprintf("%+v\n", *p)
	}
	return fmt.Errorf("%w\n%s%s", j.err, limits, strings.Join(j.trace, "\n"))
}

// describe returns a decision with its numbers.
func describe(d runtime.Decision) string {
	taken := "never"
	if !d.TakenAt.IsZero() {
		taken = d.TakenAt.UTC().Format("15:04:05.000000000")
	}
	return fmt.Sprintf("%v; taken %d at %s, value %v, shadowed %v, delay %v, jitter %v, retry after %v, reset after %v, full after %v",
		d, d.Taken, taken, d.Value, d.Shadowed, d.UsableAfter, d.Jitter, d.RetryAfter, d.ResetAfter, d.FullAfter)
}

// first checks that an instant is the first one at which all requests have enough tokens for something: they have then,
// they have not a microsecond earlier, and they have not when an override ends before.
func (j *judge) first(what string, requests []request, now int64, wait time.Duration, enough slack) {
	at := now + int64(wait)
	early, ends := at, []int64(nil)
	for _, q := range requests {
		if at < now || !enough.nearly(q, at) {
			j.failf("%s %v is too early", what, wait)
			return
		}
		ends = append(ends, q.l.ends(q.k, now)...)
		for _, t := range []terms{q.at(now), q.at(at)} {
			if !t.unlimited {
				rounding := noise(t, q.missing(now, t)) * float64(t.period) / float64(max(1, t.Rate))
				early = min(early, at-1000-int64(math.Ceil(rounding))-2)
			}
		}
	}
	if early >= now && allHave(requests, early, enough) {
		j.failf("%s %v is too late: it holds %v before", what, wait, time.Duration(at-early))
	}
	for _, end := range ends {
		if end <= early && allHave(requests, end, enough) {
			j.failf("%s %v is too late: it holds when an override ends after %v", what, wait, time.Duration(end-now))
		}
	}
}

// allHave reports whether all requests have enough tokens at an instant.
func allHave(requests []request, at int64, enough slack) bool {
	for _, q := range requests {
		if enough(q, at) < 0 {
			return false
		}
	}
	return true
}

// failure judges the answer of a store that has failed or does not answer.
func (j *judge) failure(q request, d runtime.Decision, err error, at turn) {
	t, p := q.at(j.clock.now()), q.l.counted()
	// An override of a plan may bring another timeout, but plans of a world have the same.
	opens := at.opens(p)
	j.logf("%v %s %s n %d while the store %s: %+v, %v", q.op, p.Name, q.k.of, q.n, at.state, d, err)
	usesStore := t.counts() || t.mode == runtime.ModeBlock && !t.unlimited && !q.decides() ||
		(t.lifted() || t.unlimited) && q.op == runtime.Reset
	passes := p.OnError == runtime.FailOpen || t.mode == runtime.ModeShadow
	switch {
	case q.l.leased():
		// Leased tokens are there whether the store answers or not.
		if d.Allowed && d.FailedOpen == nil && d.FailedLocal == nil && !d.TakenAt.IsZero() {
			q.k.leased = append(q.k.leased, use{j.clock.now(), d.Taken})
		}
	case !usesStore:
		if err != nil {
			j.failf("an error although the store is not needed: %v", err)
		}
	case q.decides() && q.refused(j.clock.now()) != nil:
		if err == nil {
			j.failf("a count that never fits has passed")
		}
	case !q.decides() || !opens || p.OnError == runtime.FailClosed && !passes:
		if err == nil {
			j.failf("no error of a store that %s: %+v", at.state, d)
		} else if !at.answered() && !opens && q.decides() && !errors.Is(err, context.DeadlineExceeded) {
			j.failf("the error is %v, want the caller's deadline", err)
		}
	case err != nil:
		j.failf("an error although the limit passes when the store fails: %v", err)
	case d.Allowed && d.Taken == -1:
		// Require says no more.
	case passes:
		if !d.Allowed || d.FailedOpen == nil && q.n > 0 {
			j.failf("not allowed: %+v", d)
		}
	case d.FailedLocal == nil && q.n > 0:
		j.failf("not decided locally: %+v", d)
	case d.Allowed && q.n > 0 && q.k.reported && q.l.constant() && !q.l.loose():
		// No more than what the store has last reported to this process, which has made all requests.
		if q.op == runtime.TakeUpTo {
			q.n = max(1, d.Taken)
		}
		if now := j.clock.now(); !slack(toPass).nearly(q, now) {
			j.failf("%d tokens were taken locally, and the store had %v less before", q.n, q.margin(now, t))
		}
	}
	if !d.TakenAt.IsZero() && !q.l.leased() {
		j.failf("tokens were taken from a store that %s: %+v", at.state, d)
	}
}

// answer judges the answer to a request for one key, and counts the tokens that it took.
func (j *judge) answer(q request, d runtime.Decision, err error, at turn) {
	if !at.answered() {
		j.failure(q, d, err, at)
		return
	}
	j.logf("%v %s %s plan %d class %d numbers %v n %d reserve %v in %s: %s %v", q.op, q.policy().Name, q.k.of, q.plan, q.class,
		q.numbers, q.n, q.reserve, at.where, describe(d), err)
	if want := q.refused(at.now); want != nil || err != nil {
		if !errors.Is(err, want) || (want == nil) != (err == nil) {
			j.failf("the error is %v, want %v", err, want)
		}
		return
	}
	t := q.at(at.now)
	crossed := j.crossing(q, t, at.now)
	j.count(q, d, t, at.now)
	if d.Taken != -1 {
		crossed(d)
		j.left(q, d, t, at.now)
		j.jitter(q, d, at.now)
	}
}

// count judges a decision by the terms in force, and counts how many tokens it took.
func (j *judge) count(q request, d runtime.Decision, t terms, now int64) {
	switch {
	case q.n == 0:
		if !d.Allowed || !d.TakenAt.IsZero() || d.RetryAfter != 0 || d.Jitter != 0 && d.BlockedFor == 0 || d.UsableAfter != 0 {
			j.failf("a request for no tokens: %+v", d)
		}
	case t.lifted() || t.unlimited && q.op == runtime.Charge:
		if !d.Allowed || !d.TakenAt.IsZero() {
			j.failf("in mode %v: %+v", t.mode, d)
		}
	case t.mode == runtime.ModeBlock && q.decides():
		want, until := q.blockedFor(now)
		// It lasts until the first instant at which nothing blocks the key any more.
		if d.Allowed || d.BlockedFor != want || d.RetryAfter != want && (d.RetryAfter < want || q.passes(until)) {
			j.failf("blocked for %v: %s, and %v in BlockedFor", want, describe(d), d.BlockedFor)
		}
	case q.op == runtime.Charge:
		if !d.Allowed || d.Taken != q.n {
			j.failf("a charge: %+v", d)
		}
		j.take(q, d, t, now)
	case !q.l.leased():
		j.decided(q, d, t, now)
	case d.Taken == -1:
		q.k.leased = append(q.k.leased, use{now, q.n})
	case d.Allowed && q.op != runtime.Check:
		q.k.leased = append(q.k.leased, use{now + int64(d.UsableAfter), d.Taken})
	}
}

// decided judges the decision of a limit that counts.
func (j *judge) decided(q request, d runtime.Decision, t terms, now int64) {
	asked := q
	if q.op == runtime.TakeUpTo {
		asked.n, q.n = 1, j.upTo(q, d, t, now)
	}
	can, must := q.expected(now, t)
	if q.l.loose() {
		can, must = can || q.op == runtime.TakeUpTo && !q.looked(t), must && d.Taken != -1
	}
	allowed := d.Allowed
	if t.mode == runtime.ModeShadow {
		allowed = j.shadowed(q, d, can)
	}
	if !allowed && q.op != runtime.Check && asked.n <= q.most(t) {
		q.k.penalize(now, t)
	}
	switch {
	case allowed && !can, !allowed && must:
		j.failf("allowed %v by %s, and it has %v more than needed (missing %v)", allowed, q.policy().Name, q.margin(now, t),
			float(q.missing(now, t)))
	case !allowed && t.mode == runtime.ModeEnforce:
		j.denied(asked, d, now)
	case !allowed:
	case q.op == runtime.Check:
		if !d.TakenAt.IsZero() || d.Taken != 0 && t.mode != runtime.ModeShadow {
			j.failf("a check took tokens: %+v", d)
		}
	default:
		j.take(q, d, t, now)
		if q.reserve && t.mode == runtime.ModeEnforce && !q.l.sharded() {
			j.first("the delay", []request{q.with(0)}, now, d.UsableAfter, toUse)
		}
		if !q.reserve && d.UsableAfter != 0 || d.RetryAfter != 0 || d.Jitter > 0 && d.UsableAfter == 0 {
			j.failf("waits of an allowance: %+v", d)
		}
	}
}

// crossing returns what judges, after a request, which threshold it is said to have crossed: by the tokens that its key
// lacked before and lacks then, at one instant. Where one of them is as near to a threshold as roundings may be, either is
// right.
func (j *judge) crossing(q request, t terms, now int64) func(d runtime.Decision) {
	warn := q.l.counted().Warn // the same for all plans that have numbers
	if warn.Len() == 0 || q.l.loose() || t.unlimited || !t.counts() {
		return func(d runtime.Decision) {
			if d.Crossed != 0 && (d.TakenAt.IsZero() || warn.Len() == 0) {
				j.failf("%d%% are said to be crossed: %s", d.Crossed, describe(d))
			}
		}
	}
	before := q.missing(now, t)
	return func(d runtime.Decision) {
		after, want := q.missing(now, t), uint8(0)
		for _, percent := range warn[:warn.Len()] {
			reached := func(missing, more float64) bool {
				return 100*math.Ceil(missing-1e-6+more) >= float64(int64(percent)*t.Capacity)
			}
			was, is, close := float(before), float(after), 1e-7+noise(t, after)
			if reached(was, close) != reached(was, -close) || reached(is, close) != reached(is, -close) {
				return
			}
			if !reached(was, 0) && reached(is, 0) && !d.TakenAt.IsZero() {
				want = percent
			}
		}
		if d.Crossed != want {
			j.failf("%d%% are said to be crossed, want %d%%, of %d, from %v used to %v", d.Crossed, want, t.Capacity,
				float(before), float(after))
		}
		if want > 0 {
			j.counts.crossed++
		}
	}
}

// upTo judges how many tokens TakeUpTo has taken: as many as there are. It returns the number, and at least one.
func (j *judge) upTo(q request, d runtime.Decision, t terms, now int64) int64 {
	tokens, looked := q.tokens(now, t), q.looked(t)
	if looked {
		tokens = q.k.just - float64(t.left())
	}
	least, most := math.Floor(tokens-noise(t, new(big.Rat))), math.Floor(tokens+q.lenience(now, t))
	taken := d.Taken
	if d.Shadowed {
		taken = int64(most)
	}
	wrong := float64(taken) < min(least, float64(q.n)) || float64(taken) > most && taken > 0
	if q.l.sharded() {
		wrong = looked && !d.Shadowed && float64(taken) < math.Floor(min(tokens-1e-6, float64(q.n)))
	}
	if d.Allowed && wrong {
		j.failf("%d tokens were taken of %v", taken, tokens)
	}
	return max(1, min(taken, q.n))
}

// shadowed judges a decision in shadow mode, and returns whether the request would pass without it, or can if that is
// not said.
func (j *judge) shadowed(q request, d runtime.Decision, can bool) bool {
	if !d.Allowed || d.UsableAfter != 0 || d.RetryAfter != 0 || d.Jitter != 0 {
		j.failf("in shadow mode: %+v", d)
	}
	switch {
	case q.l.loose() && q.op == runtime.Check:
		can = !d.Shadowed
	case d.Taken != -1 && q.op != runtime.Check:
		can = !d.TakenAt.IsZero()
	}
	if q.op != runtime.TakeUpTo && d.Taken != -1 && can == d.Shadowed && !q.reserve {
		j.failf("in shadow mode, and would pass %v: %+v", can, d)
	}
	return can
}

// denied judges a denial.
func (j *judge) denied(q request, d runtime.Decision, now int64) {
	q.k.denied = &q
	switch {
	case d.Taken != 0 || !d.TakenAt.IsZero() || d.RetryAfter <= 0:
		j.failf("a denial: %+v", d)
	case q.l.loose():
	case d.RetryAfter != runtime.Never:
		j.first("the retry after", []request{q}, now, d.RetryAfter, toPass)
	default:
		j.never([]request{q}, now, now+int64(80*365*24*time.Hour))
	}
}

// never checks that requests of which no retry is said to pass do not when an override ends, or at a later instant. The
// model has no calendar so late.
func (j *judge) never(requests []request, now int64, later ...int64) {
	for _, q := range requests {
		if q.l.counted().Calendar.Unit != 0 {
			later = nil
		}
	}
	for _, q := range requests {
		for _, at := range append(q.l.ends(q.k, now), later...) {
			if at > now && allHave(requests, at, toPass) {
				j.failf("no retry is said to pass, but one does after %v", time.Duration(at-now))
			}
		}
	}
}

// take counts tokens that a request has taken.
func (j *judge) take(q request, d runtime.Decision, t terms, now int64) {
	known := d.Taken != -1
	if known && (d.TakenAt.IsZero() || d.Taken != q.n && !d.Shadowed) {
		j.failf("taken %d at %v, want %d", d.Taken, d.TakenAt, q.n)
	}
	if q.k.forgiven(now, t) {
		q.k.penalties = nil
	}
	e := taking(q.n, now, t)
	q.k.history = append(q.k.history, e)
	q.k.writtenBy(t)
	if known {
		j.opened(q, d, e)
	}
}

// opened adds what can be given back.
func (b *ledger) opened(q request, d runtime.Decision, e *event) *taken {
	t := &taken{request: q, d: d, event: e, tx: b.tx, life: q.k.life, sweeps: b.sweeps, edits: q.l.edits}
	b.open = append(b.open, t)
	return t
}

// jitter judges the jitter of an answer: those that have to wait have one, the same for the same instant.
func (j *judge) jitter(q request, d runtime.Decision, now int64) {
	most, wait := q.l.counted().Jitter, max(d.RetryAfter, d.BlockedFor)
	if d.Allowed {
		wait = max(d.UsableAfter, d.BlockedFor)
	}
	switch {
	case d.Jitter < 0 || d.Jitter > most || wait == 0 && d.Jitter != 0:
		j.failf("the jitter is %v, at most %v is right, for a wait of %v", d.Jitter, most, wait)
	case wait == 0 || wait == runtime.Never:
	case most >= time.Second && d.Jitter == 0:
		// It is one of at least a thousand million.
		j.failf("there is no jitter for a wait of %v", wait)
	default:
		of := due{q.k, now + int64(wait)}
		if before, ok := j.jitters[of]; ok && before != d.Jitter {
			j.failf("the jitter is %v, and was %v for the same instant", d.Jitter, before)
		}
		if j.jitters == nil {
			j.jitters = map[due]time.Duration{}
		}
		j.jitters[of] = d.Jitter
	}
}

// left judges what a decision says is left after the request.
func (j *judge) left(q request, d runtime.Decision, t terms, now int64) {
	if j.err != nil || !t.counts() || q.l.loose() || t.unlimited {
		return
	}
	j.penalty("a decision", q, now, t, d.PenaltyFor)
	tokens, close := q.tokens(now, t), q.close(now, t)
	// A denial of a sliding window that is repeated from memory has the tokens left before.
	current := d.Allowed || q.l.traits["denyCache"] == "no" || q.l.counted().Kind.Linear()
	switch {
	case d.Value > tokens+close || d.Value < tokens-close && current:
		j.failf("%v tokens are said to be left, want %v: %s", d.Value, tokens, describe(d))
	case current:
		j.remaining("a decision", q, now, t, d.Remaining)
	}
}

// penalty judges for how long a penalty is said to last.
func (j *judge) penalty(when string, q request, now int64, t terms, lasts time.Duration) {
	want := time.Duration(0)
	if until := q.k.penalized(now, t); until > 0 {
		want = time.Duration(until - now)
		j.counts.inPenalty++
	}
	if lasts != want {
		j.failf("%s: the penalty is said to last for %v, want %v: %+v of %v", when, lasts, want, q.k.penalties,
			time.Unix(0, now).UTC())
	}
}

// remaining judges the whole tokens that are said to be left: those are the ones that a request can take.
func (j *judge) remaining(when string, q request, now int64, t terms, n int64) {
	tokens := q.tokens(now, t)
	if q.k.penalized(now, t) > 0 {
		if n != 0 {
			j.failf("%s: %d whole tokens are said to remain during a penalty", when, n)
		}
		return
	}
	least, most := math.Floor(tokens-q.surplus(t)), math.Floor(tokens+q.lenience(now, t))
	if float64(n) < min(least, runtime.MaxTokens) && n >= 0 || float64(n) > max(0, most) || n < 0 {
		j.failf("%s: %d whole tokens are said to remain of %v", when, n, tokens)
	}
}
