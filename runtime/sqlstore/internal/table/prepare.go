package table

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// Prepared is a server whose table was checked, and whose driver is known, at the first use.
type Prepared struct {
	Server   *conn.Server
	Executor atomic.Pointer[conn.Executor]
	// TwoPhase means that calls may take from several shards.
	TwoPhase bool
	mu       sync.Mutex
	// sweeps is the clock by which rows and old entries of logs are deleted.
	sweeps meter.SweepClock
	// inFlight are the preparations that have not ended. The calls wait for the last one.
	inFlight []*preparation
}

// preparation is one attempt to make an executor, shared by the calls that wait for it.
type preparation struct {
	began time.Time
	stop  context.CancelFunc
	// done is closed when executor and err are set.
	done     chan struct{}
	executor *conn.Executor
	err      error
}

// prepare returns the executor, which is made at the first use, when the table must exist. If that fails, the calls that
// wait for it get the error, and the next call tries again.
func (p *Prepared) prepare(ctx context.Context) (*conn.Executor, error) {
	for {
		if p.Server.Gate.IsClosed() {
			return nil, runtime.ErrClosed
		}
		if x := p.Executor.Load(); x != nil {
			return x, nil
		}
		current, late := p.currentPreparation(ctx)
		if current == nil {
			return nil, runtime.ErrClosed
		}
		select {
		case <-current.done:
			return current.executor, current.err
		case <-late:
		case <-ctx.Done():
			// The preparation continues, for the next call.
			return nil, ctx.Err()
		}
	}
}

// PrepareRetrying returns the executor, and prepares the store before that at the first use.
func (p *Prepared) PrepareRetrying(ctx context.Context) (x *conn.Executor, err error) {
	if x = p.Executor.Load(); x != nil {
		return x, nil
	}
	err = conn.Retry(ctx, func(ctx context.Context) error {
		x, err = p.prepare(ctx)
		return err
	})
	return x, err
}

// Using runs a task that is no batch under ctx's deadline or [bounds.Timeout].
func Using[T any](ctx context.Context, p *Prepared, task func(ctx context.Context, x *conn.Executor) (T, error)) (T, error) {
	return conn.Maintain(ctx, p.Server, func(ctx context.Context) (T, error) {
		x, err := p.PrepareRetrying(ctx)
		if err != nil {
			var zero T
			return zero, err
		}
		return task(ctx, x)
	})
}

// currentPreparation returns the preparation to wait for, and what ends the wait for it. It begins one if necessary, and
// returns nil if the store is closed.
func (p *Prepared) currentPreparation(ctx context.Context) (current *preparation, late <-chan time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.inFlight)
	if n > 0 {
		current = p.inFlight[n-1]
	}
	if n == 0 || n < bounds.MaxPreparations && time.Since(current.began) >= bounds.PreparationPatience {
		// Without the deadline of ctx: one shorter than the round trips of a preparation would never let the store begin.
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), bounds.Timeout)
		begun := &preparation{began: time.Now(), stop: stop, done: make(chan struct{})}
		if !p.Server.Gate.InBackground(func() { p.runPreparation(ctx, begun) }) {
			stop()
			return nil, nil
		}
		p.inFlight, current = append(p.inFlight, begun), begun
		n++
	}
	if n < bounds.MaxPreparations {
		late = time.After(bounds.PreparationPatience - time.Since(current.began))
	}
	return current, late
}

func (p *Prepared) runPreparation(ctx context.Context, own *preparation) {
	defer own.stop()
	// If prepareNow succeeds after the timeout, it has stored its executor for the next call.
	executor, err := conn.Bounded(ctx, p.prepareNow)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, of := range p.inFlight {
		// The calls that wait for the others can go on too.
		if of == own || err == nil {
			of.executor, of.err = executor, err
			close(of.done)
			of.stop()
		}
	}
	p.inFlight = slices.DeleteFunc(p.inFlight, func(of *preparation) bool { return of == own || err == nil })
}

// Stop ends the preparations in flight, after the store was closed.
func (p *Prepared) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, of := range p.inFlight {
		of.stop()
	}
}

// prepareNow returns the executor, and makes it under ctx if necessary. Ready uses it directly, because the error
// is then the database's or the pooler's own, however long it took.
func (p *Prepared) prepareNow(ctx context.Context) (*conn.Executor, error) {
	if x := p.Executor.Load(); x != nil {
		return x, nil
	}
	x, err := p.newCheckedExecutor(ctx)
	if err != nil {
		return nil, err
	}
	return p.publish(x)
}

// newCheckedExecutor makes an executor, checks the table, and measures the database's clock.
func (p *Prepared) newCheckedExecutor(ctx context.Context) (*conn.Executor, error) {
	place := p.Server.Place()
	x, err := conn.NewExecutor(ctx, p.Server.DB, &p.Server.Dialect, &place.Queries, place.Together, place.Bounds)
	if err != nil {
		return nil, p.Server.ExplainServer(err)
	}
	if err = p.Server.Check(ctx, p.Server.DB); err != nil {
		err = p.explainMissingTable(ctx, x, err)
	} else {
		// It uses the place that the check has found.
		place = p.Server.Place()
		x.Use(&place.Queries, place.Together, place.Bounds)
		// The first measurement of the clock belongs to the preparation, so that no later call waits for it.
		_, err = p.Server.Now(ctx, p.Server.DB)
	}
	if err == nil {
		// A jump of the clock between now and the first sweep is noticed.
		p.sweepTime(p.Server.Present())
	}
	if err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// sweepTime returns the instant by which to sweep when it is now by the clock of the store. A clock of the caller is
// believed at once.
func (p *Prepared) sweepTime(now int64) int64 {
	if p.Server.Clock != nil {
		return now
	}
	return p.sweeps.At(now, time.Now())
}

// explainMissingTable replaces check's error for an invisible table by the database's own error for a query, which
// distinguishes a missing table from a missing privilege.
func (p *Prepared) explainMissingTable(ctx context.Context, x *conn.Executor, err error) error {
	if !errors.Is(err, conn.ErrInvisibleTable) {
		return err
	}
	queryErr := p.Server.Single(ctx, x, func(in conn.Session) error {
		rows := []runtime.Row{{Shard: -1}}
		return NewRowLock(in, rows, runtime.DurabilityDefault).Read(ctx, conn.ReadUnlocked, rows)
	})
	if queryErr != nil && fault.HintFor(queryErr) != "" {
		return queryErr
	}
	return err
}

// publish stores the executor for all calls, or returns the executor of another preparation that was faster.
func (p *Prepared) publish(x *conn.Executor) (*conn.Executor, error) {
	// Otherwise Close may already have released the executor, and would not release this one.
	if !p.Server.Gate.Enter() {
		x.Close()
		return nil, runtime.ErrClosed
	}
	defer p.Server.Gate.Open.Done()
	for !p.Executor.CompareAndSwap(nil, x) {
		if other := p.Executor.Load(); other != nil {
			x.Close()
			return other, nil
		}
	}
	return x, nil
}
