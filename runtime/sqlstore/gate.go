package sqlstore

import "sync"

// gate counts the calls of a store, which end before it is closed.
type gate struct {
	mu     sync.RWMutex
	closed bool
	// open counts the calls that entered before closed was set.
	open sync.WaitGroup
}

// enter counts a call, unless the store is closed. Each call that enters must end with open.Done.
func (g *gate) enter() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	// Under the lock, so that Close does not begin to wait between the two.
	if !g.closed {
		g.open.Add(1)
	}
	return !g.closed
}

// inBackground runs f in a goroutine for which Close waits, unless the store is closed.
func (g *gate) inBackground(f func()) bool {
	if !g.enter() {
		return false
	}
	go func() {
		defer g.open.Done()
		f()
	}()
	return true
}

func (g *gate) isClosed() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.closed
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}
