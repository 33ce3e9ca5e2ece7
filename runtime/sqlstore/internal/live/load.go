package live

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// Load is callers that take from one key of a limit, one token after the other, until they are stopped.
type Load struct {
	Policy *runtime.Policy
	// PerNode Counts the results of the callers of each node.
	PerNode []Counts
	stopped chan struct{}
	all     sync.WaitGroup
}

// Counts counts the results of calls.
type Counts struct {
	Admitted, Denied, Errors atomic.Int64

	mu sync.Mutex
	// slowest is the longest duration of a call.
	slowest time.Duration
}

func (n *Counts) took(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slowest = max(n.slowest, d)
}

// Answers returns how many calls returned a decision.
func (n *Counts) Answers() int64 { return n.Admitted.Load() + n.Denied.Load() }

// Callers is how many take at once.
const Callers = 16

// StartLoad starts the callers, spread over the nodes.
func StartLoad(p *runtime.Policy, nodes []runtime.Store) *Load {
	l := &Load{Policy: p, PerNode: make([]Counts, len(nodes)), stopped: make(chan struct{})}
	for i := range Callers {
		n := i % len(nodes)
		limit := limiter.New(nodes[n]).Limit(p, runtime.Key{})
		l.all.Go(func() { l.call(limit, &l.PerNode[n]) })
	}
	return l
}

// Stop stops the callers, and waits for them.
func (l *Load) Stop() {
	close(l.stopped)
	l.all.Wait()
}

// Await waits for a condition, and ends the test if it does not come.
func (l *Load) Await(t *testing.T, expected string, come func() bool) {
	t.Helper()
	if !assert.Eventually(t, come, time.Minute, 5*time.Millisecond, expected) {
		l.Stop()
		t.FailNow()
	}
}

// Finish is Compare for a load with faults.
func (l *Load) Finish(t *testing.T, store runtime.Store) {
	t.Helper()
	l.Compare(t, store)
	_, _, errors := l.Sums()
	assert.NotZero(t, errors, "there were no faults")
}

// Compare stops the load and compares the decisions with the stored row. A call that returned an error may have taken
// its token.
func (l *Load) Compare(t *testing.T, store runtime.Store) {
	t.Helper()
	l.Stop()
	admitted, denied, errors := l.Sums()
	b := Must(limiter.New(store).Limit(l.Policy, runtime.Key{}).Peek(t.Context()))(t)
	taken := l.Policy.Capacity - b.Remaining
	over := max(0, admitted-l.Policy.Capacity)
	assert.Zero(t, over, "over-admitted")
	assert.GreaterOrEqual(t, taken, admitted, "tokens stored as taken")
	assert.LessOrEqual(t, taken, admitted+errors, "tokens stored as taken")
	t.Logf("%d calls: %d admitted of %d, %d denied, %d errors, %d over-admitted; %d stored as taken",
		admitted+denied+errors, admitted, l.Policy.Capacity, denied, errors, over, taken)
}

// call takes until the load is stopped. A call that takes longer than a few seconds is an error.
func (l *Load) call(limit limiter.Limit, count *Counts) {
	const patience, pause = 5 * time.Second, 10 * time.Millisecond
	for !l.isStopped() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		began := time.Now()
		d, err := limit.Allow(ctx)
		count.took(time.Since(began))
		cancel()
		switch {
		case err != nil:
			count.Errors.Add(1)
			<-time.After(pause) // without it, a server that is down would be flooded with connections
		case d.Allowed:
			count.Admitted.Add(1)
		default:
			count.Denied.Add(1)
		}
	}
}

func (l *Load) isStopped() bool {
	select {
	case <-l.stopped:
		return true
	default:
		return false
	}
}

// Sums returns the results of all nodes.
func (l *Load) Sums() (admitted, denied, errors int64) {
	for i := range l.PerNode {
		n := &l.PerNode[i]
		admitted, denied, errors = admitted+n.Admitted.Load(), denied+n.Denied.Load(), errors+n.Errors.Load()
	}
	return admitted, denied, errors
}

// Admitted returns how many calls were allowed.
func (l *Load) Admitted() int64 {
	admitted, _, _ := l.Sums()
	return admitted
}

// Slowest returns the longest duration of a call since it was last called.
func (l *Load) Slowest() (longest time.Duration) {
	for i := range l.PerNode {
		n := &l.PerNode[i]
		n.mu.Lock()
		longest, n.slowest = max(longest, n.slowest), 0
		n.mu.Unlock()
	}
	return longest
}
