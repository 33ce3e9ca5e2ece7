package sqlstore

import (
	"context"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// outdatedTries is how often statements that are outdated are prepared anew for a call.
const outdatedTries = 3

// ask answers calls. If that ends because the statements are outdated, they are prepared anew, for the calls that
// were not answered.
func (s *Store) ask(ctx context.Context, calls []runtime.Call, tries int) ([]runtime.Answer, error) {
	var p *prepared
	err := retry(ctx, func() (err error) {
		p, err = s.prepare(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	answers, err := s.answer(ctx, p, calls)
	if tries == 0 || !outdated(err) {
		return answers, err
	}
	if err := s.unprepare(ctx, p); err != nil {
		return answers, err
	}
	if answers == nil {
		answers = make([]runtime.Answer, len(calls))
	}
	return answers, fill(answers, unanswered(answers), calls, func(calls []runtime.Call) ([]runtime.Answer, error) {
		return s.ask(ctx, calls, tries-1)
	})
}

// answer answers calls: by statements that take, as far as they can, the others by a glance at their row, and
// what is left in a transaction.
func (s *Store) answer(ctx context.Context, p *prepared, calls []runtime.Call) ([]runtime.Answer, error) {
	if s.setsSync(durabilityOf(calls)) {
		return s.locked(ctx, p, calls)
	}
	answers := make([]runtime.Answer, len(calls))
	rest, err := s.take(ctx, p, calls, answers)
	if err != nil || len(rest) == 0 {
		return answers, err
	}
	return answers, fill(answers, rest, calls, func(others []runtime.Call) ([]runtime.Answer, error) {
		if got, err := s.glance(ctx, p, others); got != nil || err != nil {
			return got, err
		}
		return s.locked(ctx, p, others)
	})
}

// fill has those of the calls answered that stand at some places.
func fill(answers []runtime.Answer, at []int, calls []runtime.Call, ask func([]runtime.Call) ([]runtime.Answer, error)) error {
	some := make([]runtime.Call, len(at))
	for i, place := range at {
		some[i] = calls[place]
	}
	got, err := ask(some)
	for i, a := range got {
		answers[at[i]] = a
	}
	return err
}
