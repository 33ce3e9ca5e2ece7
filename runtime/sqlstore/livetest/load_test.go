package livetest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// load is callers that take from one key of a limit, one token after the other, until they are stopped.
type load struct {
	policy *runtime.Policy
	// perNode counts what the callers of each node were told.
	perNode []told
	stopped chan struct{}
	all     sync.WaitGroup
}

// told counts the answers to calls.
type told struct {
	admitted, denied, errors atomic.Int64

	mu sync.Mutex
	// slowest is how long the slowest call took.
	slowest time.Duration
}

// took takes note of how long a call took.
func (n *told) took(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slowest = max(n.slowest, d)
}

// answers returns how many calls were answered.
func (n *told) answers() int64 { return n.admitted.Load() + n.denied.Load() }

// callers is how many take at once.
const callers = 16

// startLoad starts the callers, spread over the nodes.
func startLoad(p *runtime.Policy, nodes []runtime.Store) *load {
	l := &load{policy: p, perNode: make([]told, len(nodes)), stopped: make(chan struct{})}
	for i := range callers {
		n := i % len(nodes)
		limit := runtime.NewLimiter(nodes[n]).Limit(p, runtime.Key{})
		l.all.Go(func() { l.call(limit, &l.perNode[n]) })
	}
	return l
}

// stop stops the callers, and waits for them.
func (l *load) stop() {
	close(l.stopped)
	l.all.Wait()
}

// call takes until the load is stopped. What is not answered within a few seconds is an error, as it is to
// those who have somebody waiting.
func (l *load) call(limit runtime.Limit, count *told) {
	const patience, pause = 5 * time.Second, 10 * time.Millisecond
	for !l.isStopped() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		asked := time.Now()
		d, err := limit.Allow(ctx)
		count.took(time.Since(asked))
		cancel()
		switch {
		case err != nil:
			count.errors.Add(1)
			<-time.After(pause) // a server that is down is not to be stormed
		case d.Allowed:
			count.admitted.Add(1)
		default:
			count.denied.Add(1)
		}
	}
}

func (l *load) isStopped() bool {
	select {
	case <-l.stopped:
		return true
	default:
		return false
	}
}

// sums returns what the callers of all nodes were told.
func (l *load) sums() (admitted, denied, errors int64) {
	for i := range l.perNode {
		n := &l.perNode[i]
		admitted, denied, errors = admitted+n.admitted.Load(), denied+n.denied.Load(), errors+n.errors.Load()
	}
	return admitted, denied, errors
}

// admitted returns how many callers were told that they were admitted.
func (l *load) admitted() int64 {
	admitted, _, _ := l.sums()
	return admitted
}
