package model

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"iter"
	"math/rand/v2"
	"strconv"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// Backend is a store that worlds can use.
type Backend interface {
	override.Store
	runtime.TxStore
	runtime.Eraser
	Sweep(ctx context.Context, policies ...*runtime.Policy) (int, error)
}

// Env is a store and its transactions. The store must have the clock of the world.
type Env struct {
	Backend
	Begin func() (runtime.Tx, error)
	// DB is the pool of the store, or nil.
	DB *sql.DB
	// Remote means that the store is a server: its calls take so long that contexts end meanwhile, and it locks rows.
	Remote bool
	// Apart means that the log of operators is in another database than the counts, so that no transaction of a caller erases a
	// key that has entries.
	Apart bool
}

// world is some limits, and the requests that they have got.
type world struct {
	judge
	// unmet are the pairs of values that no request has had.
	unmet pairs

	r       *rand.Rand
	env     Env
	store   *breakable
	limiter *limiter.Limiter
	limits  []*limit
	// transactions is how many there were.
	transactions int
	// lastEnd is the latest end of an entry that the store has forgotten. An erasure has it read the log again.
	lastEnd int64
	// lives numbers the lives of keys, which begin with a reset or a sweep.
	lives int
}

// breakable is a store that fails, loses its answers, or does not answer.
type breakable struct {
	Backend
	state string
	clock *Clock
}

var errBroken = errors.New("broken on purpose")

func (b *breakable) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	switch b.state {
	case "fails":
		return nil, errBroken
	case "loses":
		_, err := b.Backend.Do(ctx, calls)
		return nil, cmp.Or(err, errBroken)
	case "silent":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	do := func() ([]runtime.Answer, error) { return b.Backend.Do(ctx, calls) }
	if d, ok := ctx.Value(departing{}).(*departure); ok {
		return d.during(b.clock, do)
	}
	return do()
}

// leases is a store that holds leased tokens.
type leases interface {
	TakeLocal(p *runtime.Policy, key string, n int64) (runtime.Decision, bool)
}

// leasing is a breakable store with leases.
type leasing struct {
	*breakable
	leases
}

// newWorld returns a world with some limits, with values whose pairs were not met.
func newWorld(r *rand.Rand, name string, clock *Clock, env Env, unmet pairs) *world {
	w := &world{judge: judge{journal: journal{clock: clock}}, r: r, env: env, unmet: unmet,
		store: &breakable{Backend: env.Backend, clock: clock}}
	for i := range 1 + r.IntN(3) {
		l, ok := newLimit(r, name+strconv.Itoa(i), unmet)
		for !ok {
			l, ok = newLimit(r, name+strconv.Itoa(i), unmet)
		}
		w.limits = append(w.limits, l)
	}
	w.migrate(env, w.policies()...)
	var store runtime.Store = w.store
	if l, ok := env.Backend.(leases); ok {
		store = leasing{w.store, l}
	}
	w.limiter = limiter.New(store)
	return w
}

// migrate makes the tables that some policies need, if the store has any.
func (j *journal) migrate(env Env, policies ...*runtime.Policy) {
	if m, ok := env.Backend.(interface {
		Migrate(ctx context.Context, policies ...*runtime.Policy) error
	}); ok {
		if err := m.Migrate(context.Background(), policies...); err != nil {
			j.failf("migrate: %v", err)
		}
	}
}

// policies returns the policies of all plans.
func (w *world) policies() (all []*runtime.Policy) {
	for _, l := range w.limits {
		of := l.inUse(l.policies)
		for i := range of {
			all = append(all, &of[i])
		}
	}
	return all
}

// keys returns the keys of all limits.
func (w *world) keys() iter.Seq2[*limit, *key] {
	return func(yield func(*limit, *key) bool) {
		for _, l := range w.limits {
			for _, k := range l.keys {
				if !yield(l, k) {
					return
				}
			}
		}
	}
}
