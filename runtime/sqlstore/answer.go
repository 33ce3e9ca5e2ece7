package sqlstore

import (
	"cmp"
	"context"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// outdatedTries is how often a call is tried again that met an outdated statement, beyond once for each connection.
const outdatedTries = 3

// ask answers calls. If that ends because of a statement that a driver has prepared and that is outdated, the driver
// prepares it again for the calls that were not answered, each connection its own.
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
	again := outdated(err) && tries > -s.db.Stats().OpenConnections
	if !again && !ownData(err) {
		return answers, err
	}
	if answers == nil {
		answers = make([]runtime.Answer, len(calls))
	}
	rest := unanswered(answers)
	if again {
		return answers, fill(answers, rest, calls, func(calls []runtime.Call) ([]runtime.Answer, error) {
			return s.ask(ctx, calls, tries-1)
		})
	}
	return answers, s.part(ctx, answers, rest, calls, err)
}

// part answers the calls at some places, which have failed together with err because of what some of them bring: in
// halves, so that only those fail. That is at most two statements a call.
func (s *Store) part(ctx context.Context, answers []runtime.Answer, rest []int, calls []runtime.Call, err error) error {
	if len(rest) < 2 {
		return err
	}
	half := func(at []int) error {
		return fill(answers, at, calls, func(calls []runtime.Call) ([]runtime.Answer, error) {
			return s.ask(ctx, calls, outdatedTries)
		})
	}
	first, second := half(rest[:len(rest)/2]), half(rest[len(rest)/2:])
	return cmp.Or(first, second)
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
