package sqlstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// prepared is a server whose table was checked, and whose driver is known, at the first use.
type prepared struct {
	*server
	executor atomic.Pointer[executor]
	mu       sync.Mutex
	// current is the preparation in flight, or nil.
	current *preparation
}

// preparation is one attempt to make an executor, shared by the calls that wait for it.
type preparation struct {
	// done is closed when executor and err are set.
	done     chan struct{}
	executor *executor
	err      error
}

// prepare returns the executor, which is made at the first use, when the table must exist. If that fails, the calls that
// wait for it get the error, and the next call tries again.
func (p *prepared) prepare(ctx context.Context) (*executor, error) {
	if p.isClosed() {
		return nil, ErrClosed
	}
	if x := p.executor.Load(); x != nil {
		return x, nil
	}
	current := p.currentPreparation(ctx)
	if current == nil {
		return nil, ErrClosed
	}
	select {
	case <-current.done:
		return current.executor, current.err
	case <-ctx.Done():
		// The preparation continues, for the next call.
		return nil, ctx.Err()
	}
}

func (p *prepared) prepareRetrying(ctx context.Context) (x *executor, err error) {
	err = retry(ctx, func() error {
		x, err = p.prepare(ctx)
		return err
	})
	return x, err
}

// using runs a task of an operator under ctx's deadline or [Timeout].
func using[T any](ctx context.Context, p *prepared, task func(ctx context.Context, x *executor) (T, error)) (T, error) {
	return maintain(ctx, p.server, func(ctx context.Context) (T, error) {
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
func (p *prepared) currentPreparation(ctx context.Context) *preparation {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil {
		return p.current
	}
	current := &preparation{done: make(chan struct{})}
	// Without ctx's deadline: one shorter than the round trips of a preparation would never let the store begin.
	if !p.inBackground(func() { p.runPreparation(context.WithoutCancel(ctx), current) }) {
		return nil
	}
	p.current = current
	return current
}

// preparationTimeout is shorter than a call's, so that the call after one whose connection does not respond gets a new
// preparation and with it another connection.
const preparationTimeout = Timeout / 4

// runPreparation ends a preparation after [preparationTimeout].
func (p *prepared) runPreparation(ctx context.Context, current *preparation) {
	ctx, cancel := context.WithTimeout(ctx, preparationTimeout)
	defer cancel()
	// If prepareNow succeeds after the timeout, it has stored its executor for the next call.
	current.executor, current.err = bounded(ctx, p.prepareNow)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = nil
	close(current.done)
}

// prepareNow returns the executor, and makes it under ctx if necessary. Ready uses it directly, because the error
// is then the database's or the pooler's own, however long it took.
func (p *prepared) prepareNow(ctx context.Context) (*executor, error) {
	if x := p.executor.Load(); x != nil {
		return x, nil
	}
	x, err := p.newCheckedExecutor(ctx)
	if err != nil {
		return nil, err
	}
	return p.publish(x)
}

// newCheckedExecutor makes an executor, checks the table, and measures the database's clock.
func (p *prepared) newCheckedExecutor(ctx context.Context) (*executor, error) {
	x, err := newExecutor(ctx, p.db, &p.dialect, &p.queries)
	if err != nil {
		return nil, p.explainServer(err)
	}
	if err = p.check(ctx, p.db); err != nil {
		err = p.explainMissingTable(ctx, x, err)
	} else {
		// The first measurement of the clock belongs to the preparation, so that no later call waits for it.
		_, err = p.now(ctx, p.db)
	}
	if err != nil {
		x.close()
		return nil, err
	}
	return x, nil
}

// explainMissingTable replaces check's error for an invisible table by the database's own error for a query, which
// distinguishes a missing table from a missing privilege.
func (p *prepared) explainMissingTable(ctx context.Context, x *executor, err error) error {
	if !errors.Is(err, errInvisibleTable) {
		return err
	}
	queryErr := p.single(ctx, x, func(in session) error {
		rows := []runtime.Row{{Shard: -1}}
		return newRowLock(in, rows, runtime.DurabilityDefault).read(ctx, readUnlocked, rows)
	})
	if queryErr != nil && hintFor(queryErr) != "" {
		return queryErr
	}
	return err
}

// publish stores the executor for all calls, or returns the executor of another preparation that was faster.
func (p *prepared) publish(x *executor) (*executor, error) {
	p.gate.mu.RLock()
	defer p.gate.mu.RUnlock()
	// Close may already have released the executor, and would not release this one.
	if p.closed {
		x.close()
		return nil, ErrClosed
	}
	for !p.executor.CompareAndSwap(nil, x) {
		if other := p.executor.Load(); other != nil {
			x.close()
			return other, nil
		}
	}
	return x, nil
}
