package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/denycache"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/lease"
)

var (
	_ runtime.TxStore    = (*Store)(nil)
	_ runtime.LocalTaker = (*Store)(nil)
)

// connect builds the stages of a call: leases -> deny cache -> group commit -> backend.
func (s *Store) connect(o Options) {
	// A database with one writer is better off with the group's queue than with its own lock, also without batches.
	s.group = group.New(backend{s}, group.Options{OneWriter: s.dialect.OneWriter, Batch: o.Batch, Inline: backend{s}.inline})
	s.denials = denycache.New(s.group, o.Clock)
	s.leases = lease.New(s.denials, o.Clock)
}

// Do implements [runtime.Store]. The error is that of ctx or of the database, or [ErrClosed].
//
// Do returns when ctx ends, and after [Timeout] at the latest, even if a connection does not respond. A call that finds the
// store idle runs in the goroutine of its caller, if the driver is pgx or go-sql-driver, or an Upserter runs in this process.
// With these drivers, it then returns within 50 ms of the end of ctx, after which they close the connection, or with the
// decision, if its statement has been executed by then. SQLite cannot interrupt a statement that waits for its disk, and a
// caller whose context has no deadline then may wait as long; callers with a deadline, such as that of a limit's timeout, do
// not.
//
// Other statements run in another goroutine, because a driver may ignore a context. The statement's context then ends, upon
// which pgx and go-sql-driver close the connection, and later calls use another one. A COMMIT of go-sql-driver, and anything
// of lib/pq, continues until the operating system gives the connection up, which takes up to 16 minutes if packets are
// dropped, and counts against [sql.DB.SetMaxOpenConns] for that long. For go-sql-driver, set readTimeout and writeTimeout in
// the data source name to a few seconds; for lib/pq, give its Connector a Dialer whose connections have the socket option
// TCP_USER_TIMEOUT.
func (s *Store) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if err := s.guarded(ctx); err != nil {
		return nil, err
	}
	answers, err := s.firstStage(calls).Do(ctx, calls)
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		err = s.explainWait(err)
	}
	return answers, err
}

// firstStage returns the first stage that one of the calls' limits uses.
func (s *Store) firstStage(calls []runtime.Call) runtime.Store {
	// Most limits have neither a lease nor a deny cache.
	switch leased, cached := stagesOf(calls); {
	case leased:
		return s.leases
	case cached:
		return s.denials
	}
	return s.group
}

// stagesOf reports whether any of the calls is about a limit with a lease, or with a deny cache.
func stagesOf(calls []runtime.Call) (leased, cached bool) {
	for _, c := range calls {
		for _, q := range c.Requests {
			if q.Policy != nil {
				leased = leased || q.Policy.Lease.Tokens > 0
				cached = cached || q.Policy.DenyCache > 0
			}
		}
	}
	return leased, cached
}

// TakeLocal implements [runtime.LocalTaker].
func (s *Store) TakeLocal(p *runtime.Policy, key string, n int64) (runtime.Decision, bool) {
	if s.usable() != nil {
		return runtime.Decision{}, false
	}
	return s.leases.TakeLocal(p, key, n)
}

// backend is the last stage of the pipeline: it decides batches in the database.
type backend struct{ store *Store }

// Do implements [runtime.Store].
func (b backend) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	s := b.store
	if !s.enter() {
		return nil, ErrClosed
	}
	// The backend has the only gate: calls that the group has given up are still counted here.
	defer s.open.Done()
	answers := make([]runtime.Answer, len(calls))
	sent, err := s.circuit.send(ctx, s.db)
	if err != nil {
		return answers, err
	}
	err = s.decide(ctx, calls, answers)
	if err != nil {
		err = s.recoverFrom(ctx, calls, answers, outdatedTries, err)
	}
	s.circuit.received(ctx, sent, err)
	if s.madeRoom(ctx, err) {
		// Calls answered before the volume was full are not decided a second time.
		err = answerAt(unanswered(answers), calls, answers, func(rest []runtime.Call, answers []runtime.Answer) error {
			return s.decideAndRecover(ctx, rest, answers, outdatedTries)
		})
	}
	return answers, s.explain(ctx, err)
}

// outdatedTries is how often calls are decided again after an outdated statement, in addition to once for each open
// connection.
const outdatedTries = 3

func (s *Store) decideAndRecover(ctx context.Context, calls []runtime.Call, answers []runtime.Answer, tries int) error {
	err := s.decide(ctx, calls, answers)
	if err == nil {
		return nil
	}
	return s.recoverFrom(ctx, calls, answers, tries, err)
}

// recoverFrom decides the calls that err has left unanswered again if that can help: after an outdated statement, which the
// driver prepares again on each connection, and after a value that the database refuses, such as a key that
// violates a constraint. Otherwise it returns err.
func (s *Store) recoverFrom(ctx context.Context, calls []runtime.Call, answers []runtime.Answer, tries int, err error) error {
	rest := unanswered(answers)
	again := func(at []int, tries int) error {
		return answerAt(at, calls, answers, func(calls []runtime.Call, answers []runtime.Answer) error {
			return s.decideAndRecover(ctx, calls, answers, tries)
		})
	}
	switch {
	case outdated(err) && tries > -s.db.Stats().OpenConnections:
		// Each connection has its own prepared statement, and each may be outdated.
		return again(rest, tries-1)
	case refusedValue(err) && len(rest) > 1:
		// In halves, so that only the calls with such a value fail: at most two statements a call.
		first := again(rest[:len(rest)/2], outdatedTries)
		second := again(rest[len(rest)/2:], outdatedTries)
		if first == nil {
			return second
		}
		return first
	}
	return err
}

// answerAt runs decide on the calls at these indexes and stores their answers.
func answerAt(at []int, calls []runtime.Call, answers []runtime.Answer, decide func([]runtime.Call, []runtime.Answer) error) error {
	some, got := make([]runtime.Call, len(at)), make([]runtime.Answer, len(at))
	for i, index := range at {
		some[i] = calls[index]
	}
	err := decide(some, got)
	for i, a := range got {
		answers[at[i]] = a
	}
	return err
}

// unanswered returns the indexes of the calls that have no answer.
func unanswered(answers []runtime.Answer) (at []int) {
	for i, a := range answers {
		if !a.Answered() {
			at = append(at, i)
		}
	}
	return at
}

// madeRoom reports whether err was a full volume and the database has made room on it: SQLite's log keeps the changes of
// thousands of transactions, and fills a small volume although the table would fit ten times.
func (s *Store) madeRoom(ctx context.Context, err error) bool {
	if s.dialect.Reclaim == "" || !volumeFull(err) {
		return false
	}
	_, err = s.db.ExecContext(ctx, s.dialect.Reclaim)
	// If there is no more room either, the first error is the better one.
	return err == nil
}

// withRoom runs fn, and a second time if the volume was full and the database has made room on it.
func (s *Store) withRoom(ctx context.Context, fn func() error) error {
	err := fn()
	if s.madeRoom(ctx, err) {
		return fn()
	}
	return err
}

// grace is how long a driver has to return after its context has ended. Its error has more details than ours.
const grace = 50 * time.Millisecond

// maintain runs a task of an operator, such as Migrate, under ctx's deadline or [Timeout].
func maintain[T any](ctx context.Context, s *Store, task func(ctx context.Context) (T, error)) (T, error) {
	if err := s.guarded(ctx); err != nil {
		var zero T
		return zero, err
	}
	value, err := bounded(ctx, func(ctx context.Context) (T, error) {
		return through(ctx, s.circuit, s.db, func() (T, error) { return task(ctx) })
	})
	return value, s.explain(ctx, err)
}

// bounded runs f under a context that has a deadline, ctx's or [Timeout], and returns soon after it has ended. If f
// has not returned by then, as with some drivers, it continues in the background.
func bounded[T any](ctx context.Context, f func(ctx context.Context) (T, error)) (T, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, Timeout)
		defer cancel()
	}
	return await(ctx, func() (T, error) { return f(ctx) }, nil)
}

// await runs f and returns soon after ctx has ended, even if f does not, as with drivers that ignore the context. If f
// returns a value later, in the background, await passes it to drop.
func await[T any](ctx context.Context, f func() (T, error), drop func(T)) (T, error) {
	ended := ctx.Done()
	if ended == nil {
		return f()
	}
	type result struct {
		value T
		err   error
	}
	// Buffered, so that the goroutine can end after await has returned.
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
			// A nil channel blocks, so the next turn of the loop waits for the result and the grace period only.
			ended, late = nil, time.After(grace)
		case <-late:
			if drop != nil {
				// A connection or transaction that arrives late must be released.
				go func() {
					if r := <-done; r.err == nil {
						drop(r.value)
					}
				}()
			}
			var zero T
			return zero, fmt.Errorf("the database has not responded: %w", ctx.Err())
		}
	}
}

// explain adds to an error of the database its cause and a hint: the end of the context, or of the store, shows up in
// the driver as something else.
func (s *Store) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	err = s.withHint(err)
	cause := ctx.Err()
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		// A driver's own clock may be a moment ahead of the context's.
		cause = context.DeadlineExceeded
	}
	if s.isClosed() {
		cause = ErrClosed
	}
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}
