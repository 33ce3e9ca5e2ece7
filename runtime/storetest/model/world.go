package model

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/override"
)

// Backend is a store that worlds can use.
type Backend interface {
	override.Store
	runtime.TxStore
	Sweep(ctx context.Context, policies ...*runtime.Policy) (int, error)
}

// Env is a store and its transactions. The store must have the clock of the world.
type Env struct {
	Backend
	Begin func() (Tx, error)
}

// Tx is a transaction of a store.
type Tx interface {
	runtime.Tx
	Commit() error
	Rollback() error
}

// Clock is the clock of a world: the time of a bubble of package synctest, which jumps ahead when everybody sleeps, and
// a distance from it, which can become smaller.
type Clock struct{ skew atomic.Int64 }

// Now returns the time.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.skew.Load())) }

func (c *Clock) now() int64 { return c.Now().UnixNano() }

// World is some limits, and the requests that they have got.
type World struct {
	Pairs
	// Steps counts requests, Settled those that were settled, Less those after which fewer tokens were given back than were
	// unused and not yet back by themselves.
	Steps, Settled, Less int

	r       *rand.Rand
	clock   *Clock
	env     Env
	store   *breakable
	limiter *limiter.Limiter
	limits  []*limit
	// open can be given back, and closed was.
	open, closed []*taken
	back         bool
	// tx is the number of the transaction that is open, 0 without one, and transactions how many there were.
	tx, transactions int
	// latest is the latest time that the clock has shown before it went back.
	// earliest is how far it may go back: a key that was reset keeps the window of that time.
	latest, earliest int64
	trace            []string
	err              error
	// ended means that the model does not know any more what a key has, and unsure that it will not if the clock goes back.
	ended, unsure bool
	// lives numbers the lives of keys, which begin with a reset or a sweep.
	lives int
	// sweeps counts the sweeps.
	sweeps int
	// jitters has the jitter of tokens by the instant at which they are due.
	jitters map[due]time.Duration
}

// breakable is a store that fails, or does not answer.
type breakable struct {
	Backend
	state string
}

var errBroken = errors.New("broken on purpose")

func (b *breakable) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	switch b.state {
	case "fails":
		return nil, errBroken
	case "silent":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return b.Backend.Do(ctx, calls)
}

// leasing is a breakable store with leases.
type leasing struct{ *breakable }

func (l leasing) TakeLocal(p *runtime.Policy, key string, n int64) (runtime.Decision, bool) {
	return l.Backend.(runtime.LocalTaker).TakeLocal(p, key, n)
}

// taken is tokens that a request has taken, and that can be given back.
type taken struct {
	request
	d runtime.Decision
	// reservation is nil for a request that has not reserved.
	reservation *limiter.Reservation
	event       *event
	// tx is the number of the transaction that has taken them, 0 for none.
	tx int
	// life is the one of the key in which they were taken.
	life int
	// sweeps is how many sweeps there were before. One may delete shards that are full, so that others do not know any more
	// how many were taken since.
	sweeps int
	// edits is how many edits of the limit there were before: a reservation charges by the numbers by which it was made.
	edits int
	// together means that the call has taken from the key by several requests: of those, shards may return less.
	together bool
}

// newWorld returns a world with limits and requests that have the wanted values of fields. It is nil if random numbers were not
// valid together.
func newWorld(r *rand.Rand, name string, clock *Clock, env Env, pairs Pairs, want map[string]string) *World {
	w := &World{r: r, clock: clock, env: env, Pairs: pairs, store: &breakable{Backend: env.Backend}}
	for i := range 1 + r.IntN(3) {
		wanted := want
		if i > 0 {
			wanted = nil
		}
		l, ok := newLimit(r, name+strconv.Itoa(i), wanted)
		for try := 0; !ok && (i > 0 || try < 200); try++ {
			l, ok = newLimit(r, name+strconv.Itoa(i), wanted)
		}
		if !ok {
			return nil
		}
		w.limits = append(w.limits, l)
	}
	if m, ok := env.Backend.(interface {
		Migrate(ctx context.Context, policies ...*runtime.Policy) error
	}); ok {
		if err := m.Migrate(context.Background(), w.policies()...); err != nil {
			w.failf("migrate: %v", err)
		}
	}
	var store runtime.Store = w.store
	if _, ok := env.Backend.(runtime.LocalTaker); ok {
		store = leasing{w.store}
	}
	w.limiter = limiter.New(store)
	return w
}

// failf records a difference.
func (w *World) failf(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func (w *World) logf(format string, args ...any) {
	w.trace = append(w.trace, w.clock.Now().UTC().Format("2006-01-02 15:04:05.000000000 ")+fmt.Sprintf(format, args...))
}

// deadline is the caller's, for a store that is silent.
const deadline = 50 * time.Millisecond

// left judges what a decision says is left after the request.
func (w *World) left(q request, d runtime.Decision, t terms, now int64) {
	if w.err != nil || !t.counts() || q.l.loose() || t.unlimited {
		return
	}
	tokens, _ := q.tokens(now, t).Float64()
	close := 1e-6 + noise(t, q.k.history.missing(now, t, false))
	switch {
	case t.windows.kind == precise && int64(len(q.k.history)) >= t.rate && tokens < 0:
	case d.Value > tokens+close || d.Value < tokens-close && (d.Allowed || q.l.traits["denyCache"] == "no"):
		// A denial that is repeated from memory has the tokens left before.
		w.failf("%v tokens are said to be left, want %v: %s", d.Value, tokens, describe(d))
	case d.Allowed || q.l.traits["denyCache"] == "no":
		w.remaining("a decision", q, now, t, d.Remaining)
	}
}

// policies returns the policies of all plans.
func (w *World) policies() (all []*runtime.Policy) {
	for _, l := range w.limits {
		for i := range l.policies {
			if i > 0 || l.names == nil {
				all = append(all, l.of(i))
			}
		}
	}
	return all
}

// describe returns a decision with its numbers.
func describe(d runtime.Decision) string {
	taken := "never"
	if !d.TakenAt.IsZero() {
		taken = d.TakenAt.UTC().Format("15:04:05.000000000")
	}
	return fmt.Sprintf("%v; taken %d at %s, value %v, shadowed %v, delay %v, jitter %v, retry after %v, reset after %v, full after %v",
		d, d.Taken, taken, d.Value, d.Shadowed, d.Delay, d.Jitter, d.RetryAfter, d.ResetAfter, d.FullAfter)
}

// remaining judges the whole tokens that are said to be left: those are the ones that a request can take.
func (w *World) remaining(when string, q request, now int64, t terms, n int64) {
	tokens, _ := q.tokens(now, t).Float64()
	least, most := math.Floor(tokens-q.surplus(t)), math.Floor(tokens+q.lenience(now, t))
	if float64(n) < min(least, runtime.MaxTokens) && n >= 0 || float64(n) > max(0, most) || n < 0 {
		w.failf("%s: %d whole tokens are said to remain of %v", when, n, tokens)
	}
}
