package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/denycache"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/lease"
)

// front is what stands before the database: what this process holds and remembers, for limits that ask for it,
// and then the group, in which calls that arrive together go together.
type front struct {
	leases *lease.Store
	group  *group.Store
}

func newFront(behind runtime.Store, lanes int, o Options) front {
	// A database with one writer is better off with a queue here than with one of its own.
	if o.Batch == 1 && lanes != 1 {
		lanes = group.NoLanes
	}
	g := group.New(behind, group.Options{Lanes: lanes, Batch: o.Batch})
	return front{lease.New(denycache.New(g, o.Clock), o.Clock), g}
}

func (f front) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	return f.leases.Do(ctx, calls)
}

// TakeLocal implements [runtime.LocalTaker].
func (f front) TakeLocal(p *runtime.Policy, key string, n int64) (runtime.Decision, bool) {
	return f.leases.TakeLocal(p, key, n)
}

// close waits for calls in flight, and gives back what is leased, until ctx ends.
func (f front) close(ctx context.Context) error {
	return errors.Join(f.leases.Shutdown(ctx), f.group.Shutdown(ctx))
}

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

// fullCodes are the codes of SQLite for a volume without room: SQLITE_FULL, and SQLITE_IOERR_WRITE and
// SQLITE_IOERR_SHMSIZE, which a quota and the log's index end in.
var fullCodes = []int{13, 778, 4874}

// volumeFull reports whether a statement has failed, and done nothing, because there was no room for it.
func volumeFull(err error) bool {
	var coded interface{ Code() int }
	return errors.As(err, &coded) && slices.Contains(fullCodes, coded.Code())
}

// withRoom runs fn, and runs it again if the volume was full and the database could make room: a log that keeps the
// changes of thousands of transactions fills a small volume although the table would fit ten times.
func (s *Store) withRoom(ctx context.Context, fn func() error) error {
	err := fn()
	if s.dialect.Reclaim == "" || !volumeFull(err) {
		return err
	}
	if _, reclaimErr := s.db.ExecContext(ctx, s.dialect.Reclaim); reclaimErr != nil {
		return err
	}
	return fn()
}

// askWithRoom answers calls. What was answered before the volume was full is not asked again.
func (s *Store) askWithRoom(ctx context.Context, calls []runtime.Call) (answers []runtime.Answer, err error) {
	err = s.withRoom(ctx, func() error {
		if answers == nil {
			answers, err = s.ask(ctx, calls, outdatedTries)
			return err
		}
		return fill(answers, unanswered(answers), calls, func(rest []runtime.Call) ([]runtime.Answer, error) {
			return s.ask(ctx, rest, outdatedTries)
		})
	})
	return answers, err
}

// unanswered returns the places of the calls that have no answer.
func unanswered(answers []runtime.Answer) (at []int) {
	for i, a := range answers {
		if !a.Given() {
			at = append(at, i)
		}
	}
	return at
}

// grace is how long a driver has to return after its context has ended. Its error says more than ours.
const grace = 50 * time.Millisecond

// bounded runs f under a context that has a deadline, that of ctx or [Timeout], and returns soon after it has ended. If f
// has not returned by then, as some drivers do not, it goes on in the background.
func bounded[T any](ctx context.Context, f func(ctx context.Context) (T, error)) (T, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, Timeout)
		defer cancel()
	}
	return await(ctx, func() (T, error) { return f(ctx) }, nil)
}

// await runs f, which does not return when ctx ends if a driver does not, and returns soon after ctx has ended. If f
// returns a value later than that, in the background, drop is called with it.
func await[T any](ctx context.Context, f func() (T, error), drop func(T)) (T, error) {
	ended := ctx.Done()
	if ended == nil {
		return f()
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	var late <-chan time.Time
	for {
		select {
		case r := <-done:
			return r.value, r.err
		case <-ended:
			ended, late = nil, time.After(grace)
		case <-late:
			if drop != nil {
				go func() {
					if r := <-done; r.err == nil {
						drop(r.value)
					}
				}()
			}
			var zero T
			return zero, fmt.Errorf("the database has not answered: %w", ctx.Err())
		}
	}
}
