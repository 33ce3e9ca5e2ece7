package conn

import "sync"

// Gate counts the calls of a store, which end before it is closed.
type Gate struct {
	mu     sync.RWMutex
	closed bool
	// Open counts the calls that entered before closed was set.
	Open sync.WaitGroup
}

// Enter counts a call, unless the store is closed. Each call that enters must end with Open.Done.
func (g *Gate) Enter() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	// Under the lock, so that Close does not begin to wait between the two.
	if !g.closed {
		g.Open.Add(1)
	}
	return !g.closed
}

// InBackground runs f in a goroutine for which Close waits, unless the store is closed.
func (g *Gate) InBackground(f func()) bool {
	if !g.Enter() {
		return false
	}
	go func() {
		defer g.Open.Done()
		f()
	}()
	return true
}

// IsClosed reports whether Close was called.
func (g *Gate) IsClosed() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.closed
}

// Close refuses later calls. It does not wait for those that are open.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}
