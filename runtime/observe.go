package runtime

import (
	"context"
	"errors"
	"time"
)

// held keeps the observations of a request until they can be reported: those of a Wait, because only its last try is, and
// those that are made under a lock.
type held struct {
	// begun is when a Wait began, and tries how often it has tried.
	begun time.Time
	tries int
	last  []Observation
}

// hold returns nil without an observer.
func (l *Limiter) hold() *held {
	if l == nil || l.observer == nil {
		return nil
	}
	return &held{begun: time.Now()}
}

// release reports the observations that were held, for a request that ended with err.
func (l *Limiter) release(ctx context.Context, h *held, err error) {
	if h == nil {
		return
	}
	// A Wait whose last try was denied, and which then fails otherwise, was interrupted while it waited.
	interrupted := err != nil && !errors.Is(err, ErrLimited)
	for _, o := range h.last {
		if interrupted && (o.Outcome == OutcomeDenied || o.Outcome == OutcomeDeniedByOther) {
			o.Outcome, o.Waited = OutcomeCanceled, time.Since(h.begun)
			o.SetErr(err)
		}
		l.observer.Decided(ctx, o)
	}
}

// retry drops the observations of the last try. h may be nil.
func (h *held) retry() {
	if h != nil {
		h.last, h.tries = h.last[:0], h.tries+1
	}
}

// report reports an observation, or keeps it in h.
func (l *Limiter) report(ctx context.Context, o Observation, h *held) {
	if h == nil {
		l.observer.Decided(ctx, o)
		return
	}
	if h.tries > 1 {
		o.Waited = time.Since(h.begun)
		if o.Outcome == OutcomeAllowed {
			o.Outcome = OutcomeDelayed
		}
	}
	h.last = append(h.last, o)
}

// observes reports whether a request is observed. A Check of no tokens is not, because it reads a key for a client or an
// operator, whose polling would count as denials while the key is blocked.
func (l *Limiter) observes(q *Request) bool {
	return l != nil && l.observer != nil && q.Op != Peek && (q.Op != Check || q.Count != 0)
}

// begin returns the present, or the zero time without an observer: then no time is read.
func (l *Limiter) begin() (now time.Time) {
	if l != nil && l.observer != nil {
		now = time.Now()
	}
	return now
}

// observe reports the answer to a call, which may be an error, or keeps it in h. The call began at begun, and has the
// policies by which it was decided.
func (l *Limiter) observe(ctx context.Context, c Call, answer Answer, err error, begun time.Time, h *held) {
	if l == nil || l.observer == nil || c.Requests[0].Op == Peek {
		return
	}
	took := time.Since(begun)
	h.retry()
	invalid, one := errors.AsType[*RequestError](err)
	for i := range c.Requests {
		// The other requests of the call were not decided, and are not at fault.
		if l.observes(&c.Requests[i]) && (!one || i == invalid.Index) {
			l.report(ctx, l.observation(ctx, c, i, &answer, err, took), h)
		}
	}
}

// observeInvalid reports the error of a request that could not be completed, of a call of some limits.
func (l *Limiter) observeInvalid(ctx context.Context, q *Request, index, limits int, err error) {
	if !l.observes(q) {
		return
	}
	o := l.observation(ctx, Call{[]Request{*q}}, 0, &Answer{Source: SourceNone}, err, 0)
	o.Index, o.Limits = index, limits
	l.report(ctx, o, nil)
}

// observeRefunds keeps the observations of calls with one request each, that were executed together.
func (l *Limiter) observeRefunds(ctx context.Context, calls []Call, answers []Answer, err error, begun time.Time, h *held) {
	if h == nil {
		return
	}
	took := time.Since(begun)
	for i, c := range calls {
		var a Answer
		if i < len(answers) {
			a = answers[i]
		}
		failed := a.Err
		if !a.Answered() {
			failed = err
		}
		o := l.observation(ctx, c, 0, &a, failed, took)
		o.Index, o.Limits = i, len(calls)
		l.report(ctx, o, h)
	}
}

// observation returns that of a request of a call, given the answer or error of the call and how long it took.
func (l *Limiter) observation(ctx context.Context, c Call, i int, answer *Answer, err error, took time.Duration) Observation {
	q := &c.Requests[i]
	o := Observation{
		Policy: q.Policy, Op: q.Op, Source: answer.Source, InTx: l.inTx, Index: i, Limits: len(c.Requests), Count: q.Count,
	}
	o.SetKey(q.Key)
	if q.Policy != nil {
		o.Limit = q.Policy.Name
	}
	if err != nil {
		o.Outcome = outcomeOfError(ctx, err, answer.Source)
		o.SetErr(err)
	} else {
		o.decide(q, &answer.Decisions[i], answer.Allowed())
	}
	if o.Source != SourceNone && o.Source != SourceDenyCache {
		o.Duration = took
	}
	return o
}

// decide sets what a decision says, given whether the whole call was allowed.
func (o *Observation) decide(q *Request, d *Decision, allowed bool) {
	o.Outcome = outcomeOf(q, d, allowed)
	o.Taken, o.Remaining, o.Delay, o.RetryAfter = d.Taken, d.Remaining, d.Delay, d.RetryAfter
	switch {
	case d.FailedLocal != nil:
		o.Source = SourceMemory
		o.SetErr(d.FailedLocal)
	case d.FailedOpen != nil:
		o.SetErr(d.FailedOpen)
	case !q.UsesRows():
		o.Source = SourceNone
	}
}

func outcomeOf(q *Request, d *Decision, allowed bool) Outcome {
	switch q.Op {
	case Charge:
		return OutcomeCharged
	case Refund:
		return OutcomeRefunded
	case Reset:
		return OutcomeReset
	}
	switch {
	case !d.Allowed:
		return OutcomeDenied
	case !allowed:
		return OutcomeDeniedByOther
	case d.FailedOpen != nil:
		return OutcomeFailedOpen
	case d.FailedLocal != nil:
		return OutcomeFailedLocal
	case d.Shadowed && d.TakenAt.IsZero():
		return OutcomeShadowDenied
	case d.Shadowed:
		return OutcomeShadowDelayed
	case q.Op == Check:
		return OutcomeChecked
	case d.Delay > 0:
		return OutcomeDelayed
	}
	return OutcomeAllowed
}

// invalidRequests are the errors that another request would not have.
var invalidRequests = []error{ErrInvalidCount, ErrExceedsCapacity, ErrInvalidPolicy, ErrInvalidKey, ErrInvalidCall, ErrInvalidPlan}

func outcomeOfError(ctx context.Context, err error, source Source) Outcome {
	for _, invalid := range invalidRequests {
		if errors.Is(err, invalid) {
			return OutcomeInvalid
		}
	}
	// A deadline that passes while the store decides is the fault of the store.
	if cause := ctx.Err(); errors.Is(cause, context.Canceled) || cause != nil && source == SourceNone {
		return OutcomeCanceled
	}
	return OutcomeError
}
