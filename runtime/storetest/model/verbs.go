package model

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// requireN returns what AllowN would.
func requireN(ctx context.Context, l limiter.Limit, n int64) (d runtime.Decision, err error) {
	err = l.RequireN(ctx, n)
	var limited *runtime.LimitedError
	switch {
	case errors.As(err, &limited):
		return limited.Decision, nil
	case err == nil:
		// Nothing else is known of an allowance.
		return runtime.Decision{Allowed: true, Taken: -1}, nil
	}
	return d, err
}

// tooLate makes a request after the caller's deadline: it must not pass.
func (w *World) tooLate(limits *limiter.Limiter, q request) bool {
	ctx, cancel := context.WithTimeout(context.Background(), -time.Second)
	want := context.DeadlineExceeded
	if w.r.IntN(2) == 0 {
		ctx, cancel = context.WithCancel(context.Background())
		cancel()
		want = context.Canceled
	}
	defer cancel()
	p := q.l.of(q.plan)
	calls := map[string]func() (bool, error){
		"Allow":  func() (bool, error) { d, err := limits.Limit(p, q.k.of).Allow(ctx); return d.Allowed, err },
		"All":    func() (bool, error) { d, err := limits.All(ctx, limits.Limit(p, q.k.of)); return d.Allowed, err },
		"Charge": func() (bool, error) { d, err := limits.Limit(p, q.k.of).Charge(ctx, 1); return d.Allowed, err },
		"Wait":   func() (bool, error) { err := limits.Limit(p, q.k.of).Wait(ctx); return err == nil, err },
	}
	names := slices.Sorted(maps.Keys(calls))
	name := oneOf(w.r, names...)
	if allowed, err := calls[name](); allowed || !errors.Is(err, want) {
		w.failf("%s after the caller's deadline: allowed %v, error %v", name, allowed, err)
	}
	return true
}

// reserve makes a reservation.
func (w *World) reserve(ctx context.Context, limits *limiter.Limiter, q request, now int64, state, where string) bool {
	p := q.l.of(q.plan)
	var r *limiter.Reservation
	var err error
	if p.Capacity == 0 {
		r, err = limits.ReserveOnly(p, q.k.of).ReserveN(ctx, q.n)
	} else {
		r, err = limits.Reservable(p, q.k.of).ReserveN(ctx, q.n)
	}
	var d runtime.Decision
	if r != nil {
		d = r.Decision
		if want := time.Duration(min(math.MaxInt64-int64(d.Jitter), int64(d.Delay))) + d.Jitter; d.Allowed && r.Delay() != want {
			w.failf("the delay with jitter is %v, want %v", r.Delay(), want)
		}
	}
	before := len(w.open)
	w.judge(q, d, err, now, state, where)
	switch {
	case r == nil:
	case len(w.open) > before:
		w.open[len(w.open)-1].reservation = r
	case q.n > 0 && state == "answers":
		// Denied, or allowed without being counted.
		w.open = append(w.open, &taken{request: q, d: d, reservation: r, tx: w.tx, life: q.k.life, sweeps: w.sweeps, edits: q.l.edits})
	}
	return true
}

// wait waits until tokens can be used.
func (w *World) wait(limits *limiter.Limiter, verb string, q request) bool {
	p := q.l.of(q.plan)
	now := w.clock.now()
	t := q.l.at(q.k, q.plan, now)
	q.op, q.reserve = runtime.Take, p.Reserves() || p.Mode == runtime.ModeUnlimited && p.Overrides.MaxReserved > 0
	if len(q.l.ends(q.k, now)) > 0 || t.mode == runtime.ModeEnforce && q.reserve && !q.l.loose() && !q.passes(now) && q.n <= q.most(t) {
		// When it will have reserved cannot be seen.
		return false
	}
	bound := 3000 * time.Hour
	if w.r.IntN(2) == 0 {
		bound = time.Duration(1 + w.r.Int64N(2*int64(q.l.counted().Period)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	limit := limits.Limit(p, q.k.of)
	var err error
	begun := time.Now()
	if verb == "wait" {
		err = limit.WaitN(ctx, q.n)
	} else {
		var item limiter.ReserveItem = limit.N(q.n)
		if p.Capacity == 0 && p.Mode != runtime.ModeUnlimited {
			item = limits.ReserveOnly(p, q.k.of).N(q.n)
		}
		err = limits.Group(item).Wait(ctx)
	}
	slept := time.Since(begun)
	w.logf("%s %s %s plan %d n %d, at most %v: %v after %v", verb, p.Name, q.k.of, q.plan, q.n, bound, err, slept)
	switch {
	case q.n == 0 || t.lifted():
		if err != nil || slept > 0 {
			w.failf("the wait for nothing: %v after %v", err, slept)
		}
	case t.mode == runtime.ModeBlock:
		if !errors.Is(err, runtime.ErrLimited) || slept > 0 {
			w.failf("the wait for a blocked key: %v after %v", err, slept)
		}
	case t.mode == runtime.ModeShadow && q.l.loose():
		// Whether it has taken cannot be seen.
		q.k.history, q.l.back = nil, true
		w.open = slices.DeleteFunc(w.open, func(t *taken) bool { return t.k == q.k })
	case t.mode == runtime.ModeShadow:
		if err != nil || slept > 0 {
			w.failf("the wait in shadow mode: %v after %v", err, slept)
		}
		// As one that is enforced, it does not reserve what would be due after the deadline.
		if q.n <= q.most(t) && q.margin(now, t).Sign() >= 0 && (!q.reserve || q.usable(now, now+int64(bound), t)) {
			w.take(q, runtime.Decision{Taken: -1}, t, now, q.n)
		}
	case q.n > q.most(t):
		if !errors.Is(err, runtime.ErrExceedsCapacity) {
			w.failf("the wait for more than can pass: %v", err)
		}
	case q.l.loose():
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			w.failf("the wait: %v after %v", err, slept)
		}
		switch {
		case err != nil:
		case q.l.traits["lease"] == "yes":
			q.k.leased = append(q.k.leased, use{now + int64(slept), q.n})
		case q.reserve:
			w.take(q, runtime.Decision{Taken: -1}, t, now, q.n)
		default:
			w.take(q, runtime.Decision{Taken: -1}, t, now+int64(slept), q.n)
		}
	case err != nil:
		if !errors.Is(err, context.DeadlineExceeded) || slept > 0 {
			w.failf("the wait: %v after %v", err, slept)
		}
		last := now + int64(bound) - 1_000_000
		if t.reserved == 0 && q.margin(last, t).Sign() >= 0 || t.reserved > 0 && q.usable(now, last, t) {
			w.failf("the wait has failed although tokens can be used within %v", bound)
		}
	case q.reserve:
		if !q.usableNearly(now, now+int64(slept), t) {
			w.failf("the wait for a reservation has ended too early, after %v", slept)
		}
		if early := now + int64(slept) - int64(q.l.counted().Jitter) - 2000; early > now && q.usable(now, early, t) {
			w.failf("the wait for a reservation has ended too late, after %v", slept)
		}
		w.take(q, runtime.Decision{Taken: -1}, t, now, q.n)
	default:
		end := now + int64(slept)
		if !q.mayPass(end) {
			w.failf("the wait has ended too early, after %v", slept)
		}
		if early := end - int64(q.l.counted().Jitter) - 2000; early > now && q.passes(early) {
			w.failf("the wait has ended too late, after %v", slept)
		}
		w.take(q, runtime.Decision{Taken: -1}, q.l.at(q.k, q.plan, end), end, q.n)
	}
	return true
}
