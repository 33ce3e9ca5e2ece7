package limiter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
)

// held keeps the observations of a request until they can be reported: the observations of a Wait, because only its
// last try is, and those that are made under a lock.
type held struct {
	// begun is when a Wait began, and tries how often it has tried.
	begun time.Time
	tries int
	last  []runtime.Observation
	// warnings are those of the last try too: a try that is denied crosses no threshold.
	warnings []runtime.Warning
}

// observing reports the decisions of a limiter. Without an observer, and without a function for warnings, it does nothing.
type observing struct {
	observer runtime.Observer
	warn     func(context.Context, runtime.Warning)
	inTx     bool
}

func (l *Limiter) observing() observing {
	if l == nil {
		return observing{}
	}
	return observing{l.observer, l.warn, l.inTx}
}

// hold returns nil if nothing is to be reported, given whether the limits have thresholds.
func (b observing) hold(warns bool) *held {
	if b.observer == nil && (b.warn == nil || !warns) {
		return nil
	}
	return &held{begun: time.Now()}
}

// release reports the observations that were held, for a request that ended with err.
func (b observing) release(ctx context.Context, h *held, err error) {
	if h == nil {
		return
	}
	// A Wait whose last try was denied, and which then fails otherwise, was interrupted while it waited.
	interrupted := err != nil && !errors.Is(err, runtime.ErrLimited)
	for _, o := range h.last {
		if interrupted && (o.Outcome == runtime.OutcomeDenied || o.Outcome == runtime.OutcomeDeniedByOther) {
			o.Outcome, o.Waited = runtime.OutcomeCanceled, time.Since(h.begun)
			o.SetErr(err)
		}
		b.decided(ctx, o)
	}
	for _, w := range h.warnings {
		b.warned(ctx, w)
	}
}

func (b observing) decided(ctx context.Context, o runtime.Observation) {
	if ctx == nil {
		ctx = context.Background() // the request was refused for it, or does not depend on it
	}
	b.observer.Decided(ctx, o)
}

// retry drops the observations of the last try. h may be nil.
func (h *held) retry() {
	if h != nil {
		h.last, h.tries = h.last[:0], h.tries+1
	}
}

// report reports an observation, or keeps it in h.
func (b observing) report(ctx context.Context, o runtime.Observation, h *held) {
	if h == nil {
		b.decided(ctx, o)
		return
	}
	if h.tries > 1 {
		o.Waited = time.Since(h.begun)
		if o.Outcome == runtime.OutcomeAllowed {
			o.Outcome = runtime.OutcomeDelayed
		}
	}
	h.last = append(h.last, o)
}

// observes reports whether a request is observed. A Check of no tokens is not, because it reads a key for a client or
// an operator, whose polling would count as denials while the key is blocked.
func (b observing) observes(q *runtime.Request) bool {
	return b.observer != nil && q.Op != runtime.Peek && (q.Op != runtime.Check || q.Count != 0)
}

// begin returns the present, or the zero time without an observer: then no time is read.
func (b observing) begin() (now time.Time) {
	if b.observer != nil {
		now = time.Now()
	}
	return now
}

// observe reports the answer to a call, which may be an error, or keeps it in h. The call began at begun, and has the
// policies by which it was decided.
func (b observing) observe(ctx context.Context, c runtime.Call, answer runtime.Answer, err error, begun time.Time, h *held) {
	if b.warn != nil {
		for i := range answer.Decisions {
			b.crossed(ctx, c.Requests[i].Key, &answer.Decisions[i], h)
		}
	}
	if b.observer == nil || c.Requests[0].Op == runtime.Peek {
		return
	}
	took := time.Since(begun)
	h.retry()
	invalid, one := errors.AsType[*batch.RequestError](err)
	for i := range c.Requests {
		// The other requests of the call were not decided, and are not at fault.
		if b.observes(&c.Requests[i]) && (!one || i == invalid.Index) {
			b.report(ctx, b.observation(ctx, c, i, &answer, err, took), h)
		}
	}
}

// observeInvalid reports the error of a request that could not be completed, of a call of some limits.
func (b observing) observeInvalid(ctx context.Context, q *runtime.Request, index, limits int, err error) {
	if !b.observes(q) {
		return
	}
	o := b.observation(ctx, runtime.Call{Requests: []runtime.Request{*q}}, 0, &runtime.Answer{Source: runtime.SourceNone}, err, 0)
	o.Index, o.Limits = index, limits
	b.report(ctx, o, nil)
}

// observeLeased reports the decision on a request whose tokens were leased, or keeps it in h.
func (b observing) observeLeased(ctx context.Context, q *runtime.Request, d *runtime.Decision, h *held) {
	b.crossed(ctx, q.Key, d, h)
	if b.observer == nil {
		return
	}
	o := runtime.Observation{
		Limit: d.Limit, Policy: d.Policy, Op: q.Op, Outcome: runtime.OutcomeAllowed, Source: runtime.SourceLease, Limits: 1, Count: q.Count,
		Taken: d.Taken, Remaining: d.Remaining, Crossed: d.Crossed,
	}
	o.SetKey(q.Key)
	h.retry()
	b.report(ctx, o, h)
}

// observeSettled keeps the observations of calls with one request each, that were executed together.
func (b observing) observeSettled(ctx context.Context, calls []runtime.Call, answers []runtime.Answer, err error,
	begun time.Time, h *held) {
	if h == nil {
		return
	}
	took := time.Since(begun)
	for i, c := range calls {
		var a runtime.Answer
		if i < len(answers) {
			a = answers[i]
		}
		for j := range a.Decisions {
			b.crossed(ctx, c.Requests[j].Key, &a.Decisions[j], h)
		}
		if b.observer == nil {
			continue
		}
		failed := a.Err
		if !a.Answered() {
			failed = err
		}
		o := b.observation(ctx, c, 0, &a, failed, took)
		o.Index, o.Limits = i, len(calls)
		b.report(ctx, o, h)
	}
}

// observation returns the observation of a request of a call, given the answer or error of the call and how long it
// took.
func (b observing) observation(ctx context.Context, c runtime.Call, i int, answer *runtime.Answer, err error,
	took time.Duration) runtime.Observation {
	q := &c.Requests[i]
	o := runtime.Observation{
		Policy: q.Policy, Op: q.Op, Source: answer.Source, InTx: b.inTx, Index: i, Limits: len(c.Requests), Count: q.Count,
	}
	o.SetKey(q.Key)
	if q.Policy != nil {
		o.Limit = q.Policy.Name
	}
	if err != nil {
		o.Outcome = outcomeOfError(ctx, err, answer.Source)
		o.SetErr(err)
	} else {
		describe(&o, q, &answer.Decisions[i], answer.Allowed())
	}
	// The source is that of the whole call, because this limit may have needed no counts.
	if answer.Source != runtime.SourceNone && answer.Source != runtime.SourceDenyCache {
		o.Duration = took
	}
	return o
}

// describe sets what a decision says, given whether the whole call was allowed.
func describe(o *runtime.Observation, q *runtime.Request, d *runtime.Decision, allowed bool) {
	o.Outcome = outcomeOf(q, d, allowed)
	o.Crossed = d.Crossed
	o.Taken, o.Remaining, o.Delay, o.RetryAfter = d.Taken, d.Remaining, d.UsableAfter, d.RetryAfter
	o.PenaltyFor, o.Reason = d.PenaltyFor, d.Reason()
	switch {
	case d.FailedLocal != nil:
		o.Source = runtime.SourceMemory
		o.SetErr(d.FailedLocal)
	case d.FailedOpen != nil:
		o.SetErr(d.FailedOpen)
	case !q.UsesRows():
		o.Source = runtime.SourceNone
	}
}

func outcomeOf(q *runtime.Request, d *runtime.Decision, allowed bool) runtime.Outcome {
	switch q.Op {
	case runtime.Charge:
		return runtime.OutcomeCharged
	case runtime.Refund:
		return runtime.OutcomeRefunded
	case runtime.Reset:
		return runtime.OutcomeReset
	case runtime.Renew:
		return runtime.OutcomeRenewed
	case runtime.Release:
		return runtime.OutcomeReleased
	}
	switch {
	case !d.Allowed:
		return runtime.OutcomeDenied
	case !allowed:
		return runtime.OutcomeDeniedByOther
	case d.FailedOpen != nil:
		return runtime.OutcomeFailedOpen
	case d.FailedLocal != nil:
		return runtime.OutcomeFailedLocal
	case d.Shadowed && d.TakenAt.IsZero():
		return runtime.OutcomeShadowDenied
	case d.Shadowed:
		return runtime.OutcomeShadowDelayed
	case q.Op == runtime.Check:
		return runtime.OutcomeChecked
	case d.UsableAfter > 0:
		return runtime.OutcomeDelayed
	}
	return runtime.OutcomeAllowed
}

func outcomeOfError(ctx context.Context, err error, source runtime.Source) runtime.Outcome {
	if errors.Is(err, runtime.ErrSlotLost) {
		return runtime.OutcomeSlotLost
	}
	if runtime.OriginOf(err) != runtime.OriginStore {
		return runtime.OutcomeInvalid
	}
	// A deadline that passes while the store decides is the fault of the store.
	if cause := ctx.Err(); errors.Is(cause, context.Canceled) || cause != nil && source == runtime.SourceNone {
		return runtime.OutcomeCanceled
	}
	return runtime.OutcomeError
}

// warns reports whether a limit has thresholds.
func warns(p *runtime.Policy) bool { return p != nil && p.Warn[0] != 0 }

func anyWarns(requests []runtime.Request) bool {
	return slices.ContainsFunc(requests, func(q runtime.Request) bool { return warns(q.Policy) })
}

// crossed reports a threshold that a request for a key has crossed, or keeps it in h.
func (b observing) crossed(ctx context.Context, key string, d *runtime.Decision, h *held) {
	switch {
	case b.warn == nil || d.Crossed == 0:
	case h != nil:
		h.warnings = append(h.warnings, runtime.WarningOf(d, key, b.inTx))
	default:
		b.warned(ctx, runtime.WarningOf(d, key, b.inTx))
	}
}

func (b observing) warned(ctx context.Context, w runtime.Warning) {
	if ctx == nil {
		ctx = context.Background()
	}
	b.warn(ctx, w)
}
