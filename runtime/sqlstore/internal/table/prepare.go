package table

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// Prepared is a server whose table was checked, and whose driver is known, at the first use.
type Prepared struct {
	*conn.Server
	Executor atomic.Pointer[conn.Executor]
	mu       sync.Mutex
	// current is the preparation in flight, or nil.
	current *preparation
}

// preparation is one attempt to make an executor, shared by the calls that wait for it.
type preparation struct {
	// done is closed when executor and err are set.
	done     chan struct{}
	executor *conn.Executor
	err      error
}

// prepare returns the executor, which is made at the first use, when the table must exist. If that fails, the calls that
// wait for it get the error, and the next call tries again.
func (p *Prepared) prepare(ctx context.Context) (*conn.Executor, error) {
	if p.IsClosed() {
		return nil, conn.ErrClosed
	}
	if x := p.Executor.Load(); x != nil {
		return x, nil
	}
	current := p.currentPreparation(ctx)
	if current == nil {
		return nil, conn.ErrClosed
	}
	select {
	case <-current.done:
		return current.executor, current.err
	case <-ctx.Done():
		// The preparation continues, for the next call.
		return nil, ctx.Err()
	}
}

func (p *Prepared) PrepareRetrying(ctx context.Context) (x *conn.Executor, err error) {
	err = conn.Retry(ctx, func() error {
		x, err = p.prepare(ctx)
		return err
	})
	return x, err
}

// Using runs a task of an operator under ctx's deadline or [conn.Timeout].
func Using[T any](ctx context.Context, p *Prepared, task func(ctx context.Context, x *conn.Executor) (T, error)) (T, error) {
	return conn.Maintain(ctx, p.Server, func(ctx context.Context) (T, error) {
		x, err := p.prepare(ctx)
		if err != nil {
			var zero T
			return zero, err
		}
		return task(ctx, x)
	})
}

// currentPreparation returns the preparation in flight, and begins one if necessary. It returns nil if the store is
// closed.
func (p *Prepared) currentPreparation(ctx context.Context) *preparation {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil {
		return p.current
	}
	current := &preparation{done: make(chan struct{})}
	// Without ctx's deadline: one shorter than the round trips of a preparation would never let the store begin.
	if !p.InBackground(func() { p.runPreparation(context.WithoutCancel(ctx), current) }) {
		return nil
	}
	p.current = current
	return current
}

// preparationTimeout is shorter than a call's, so that the call after one whose connection does not respond gets a new
// preparation and with it another connection.
const preparationTimeout = conn.Timeout / 4

// runPreparation ends a preparation after [preparationTimeout].
func (p *Prepared) runPreparation(ctx context.Context, current *preparation) {
	ctx, cancel := context.WithTimeout(ctx, preparationTimeout)
	defer cancel()
	// If prepareNow succeeds after the timeout, it has stored its executor for the next call.
	current.executor, current.err = conn.Bounded(ctx, p.prepareNow)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = nil
	close(current.done)
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
	x, err := conn.NewExecutor(ctx, p.DB, &p.Dialect, &p.Queries, p.Together, p.Bounds)
	if err != nil {
		return nil, p.ExplainServer(err)
	}
	if err = p.Check(ctx, p.DB); err != nil {
		err = p.explainMissingTable(ctx, x, err)
	} else {
		// The first measurement of the clock belongs to the preparation, so that no later call waits for it.
		_, err = p.Now(ctx, p.DB)
	}
	if err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// explainMissingTable replaces check's error for an invisible table by the database's own error for a query, which
// distinguishes a missing table from a missing privilege.
func (p *Prepared) explainMissingTable(ctx context.Context, x *conn.Executor, err error) error {
	if !errors.Is(err, conn.ErrInvisibleTable) {
		return err
	}
	queryErr := p.Single(ctx, x, func(in conn.Session) error {
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
	p.Gate.Mu.RLock()
	defer p.Gate.Mu.RUnlock()
	// Close may already have released the executor, and would not release this one.
	if p.Closed {
		x.Close()
		return nil, conn.ErrClosed
	}
	for !p.Executor.CompareAndSwap(nil, x) {
		if other := p.Executor.Load(); other != nil {
			x.Close()
			return other, nil
		}
	}
	return x, nil
}
