package sqlstore

import (
	"context"
	"sync"
)

// preparing is what the callers of prepare share. It outlives their contexts, because otherwise a deadline that is shorter
// than the round trips of a preparation would never let the store begin.
type preparing struct {
	mu sync.Mutex
	// under is the preparation under way, nil if there is none.
	under *preparation
}

// preparation is one attempt to prepare.
type preparation struct {
	// done is closed when p and err are set.
	done chan struct{}
	p    *prepared
	err  error
}

// prepare returns the statements, which are prepared at the first use, when the table must exist. That goes on in the
// background when ctx ends. If it fails, those who wait for it get the error, and the next call tries again.
func (s *Store) prepare(ctx context.Context) (*prepared, error) {
	if s.isClosed() {
		return nil, ErrClosed
	}
	if p := s.prepared.Load(); p != nil {
		return p, nil
	}
	under := s.preparation(ctx)
	if under == nil {
		return nil, ErrClosed
	}
	select {
	case <-under.done:
		return under.p, under.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// preparation returns the preparation under way, and begins one if there is none. It returns nil if the store is closed.
func (s *Store) preparation(ctx context.Context) *preparation {
	s.preparing.mu.Lock()
	defer s.preparing.mu.Unlock()
	if s.preparing.under != nil {
		return s.preparing.under
	}
	under := &preparation{done: make(chan struct{})}
	if !s.inBackground(func() { s.runPreparation(context.WithoutCancel(ctx), under) }) {
		return nil
	}
	s.preparing.under = under
	return under
}

// preparationTimeout is less than a call has, so that a call after one that met a connection that does not answer is not
// bound to the same connection.
const preparationTimeout = Timeout / 4

// runPreparation ends a preparation after [preparationTimeout]. If it succeeds later, its statements are used all the same.
func (s *Store) runPreparation(ctx context.Context, under *preparation) {
	ctx, cancel := context.WithTimeout(ctx, preparationTimeout)
	defer cancel()
	under.p, under.err = bounded(ctx, s.prepareNow)
	s.preparing.mu.Lock()
	defer s.preparing.mu.Unlock()
	s.preparing.under = nil
	close(under.done)
}

// prepareNow returns the statements, and prepares them under ctx if nobody has. Its error is the database's or the
// pooler's own, however long they took for it.
func (s *Store) prepareNow(ctx context.Context) (*prepared, error) {
	if p := s.prepared.Load(); p != nil {
		return p, nil
	}
	p, err := s.prepareChecked(ctx)
	if err != nil {
		return nil, err
	}
	return s.keep(p)
}

// prepareChecked finds out how to run the statements, compares the table with what it must be, and measures the database's clock.
func (s *Store) prepareChecked(ctx context.Context) (*prepared, error) {
	p, err := s.newPrepared(ctx)
	if err != nil {
		return nil, err
	}
	if err = s.check(ctx, s.db); err != nil {
		err = s.blameTable(ctx, p, err)
	} else {
		_, err = s.now(ctx, s.db)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// keep returns the statements that are used from now on: those of a preparation that was faster, if there are some.
func (s *Store) keep(p *prepared) (*prepared, error) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		p.close()
		return nil, ErrClosed
	}
	for !s.prepared.CompareAndSwap(nil, p) {
		if other := s.prepared.Load(); other != nil {
			p.close()
			return other, nil
		}
	}
	return p, nil
}

// release releases the statements of a store that is closed.
func (s *Store) release() { s.prepared.Swap(nil).close() }
