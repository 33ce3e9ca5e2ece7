package model

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Backend is a store that worlds can use.
type Backend interface {
	runtime.OverrideStore
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
	limiter *runtime.Limiter
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
	reservation *runtime.Reservation
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
	w.limiter = runtime.NewLimiter(store)
	return w
}

// run sends requests, of which some have the wanted values, and returns the first difference from the model.
func (w *World) run(steps int, want map[string]string) error {
	for i := 0; i < steps && w.err == nil && !w.ended; i++ {
		wanted := map[string]string{}
		if i%3 > 0 {
			wanted = want
		}
		w.pass(wanted)
		switch choose(w.r, wanted, "in") {
		case "commit":
			w.transaction(wanted, true)
		case "rollback":
			w.transaction(wanted, false)
		default:
			w.step(w.limiter, wanted, "store")
		}
	}
	for _, l := range w.limits {
		for _, k := range l.keys {
			w.checkLeased(l, k)
		}
	}
	if w.err != nil {
		limits := ""
		for _, l := range w.limits {
			limits += fmt.Sprintf("%+v\n", l.policies)
		}
		return fmt.Errorf("%w\n%s%s", w.err, limits, strings.Join(w.trace, "\n"))
	}
	return nil
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

// pass lets time pass, or puts the clock back.
func (w *World) pass(want map[string]string) {
	l := oneOf(w.r, w.limits...)
	period := int64(l.counted().Period)
	w.back = false
	switch {
	case choose(w.r, want, "clock") == "back" && (want["clock"] != "" || w.r.IntN(4) == 0):
		w.back, w.ended = true, w.ended || w.unsure
		for _, l := range w.limits {
			l.back = true
		}
		// An hour is how long a store keeps ended entries for such a clock.
		w.latest = max(w.latest, w.clock.now())
		w.clock.skew.Add(-w.r.Int64N(max(1, min(2*period, w.clock.now()-max(w.earliest, w.latest-int64(50*time.Minute))))))
	case w.r.IntN(3) == 0:
	case w.r.IntN(12) == 0:
		time.Sleep(time.Duration(w.r.Int64N(min(3*period, int64(100*24*time.Hour)))))
	default:
		time.Sleep(time.Duration(w.r.Int64N(min(period, int64(40*24*time.Hour))/8 + 1)))
	}
}

// transaction sends requests in a transaction, and ends it.
func (w *World) transaction(want map[string]string, commit bool) {
	tx, err := w.env.Begin()
	if err != nil {
		w.failf("begin: %v", err)
		return
	}
	type saved struct {
		at  *event
		was event
	}
	before, leased, lives := map[*key]history{}, map[*key][]use{}, map[*key]int{}
	var events []saved
	for _, l := range w.limits {
		for _, k := range l.keys {
			before[k], leased[k], lives[k] = slices.Clone(k.history), k.leased, k.life
			for _, e := range k.history {
				events = append(events, saved{e, *e})
			}
		}
	}
	open := slices.Clone(w.open)
	where := map[bool]string{true: "commit", false: "rollback"}[commit]
	limiter := w.limiter.WithTx(tx)
	w.transactions++
	w.tx = w.transactions
	defer func() { w.tx = 0 }()
	wanted := maps.Clone(want)
	for range 1 + w.r.IntN(3) {
		w.step(limiter, wanted, where)
	}
	w.logf("%s", where)
	end := tx.Rollback
	if commit {
		end = tx.Commit
	}
	if err := end(); err != nil {
		w.failf("%s: %v", where, err)
	}
	if commit {
		return
	}
	for k, h := range before {
		k.history, k.leased, k.life, k.seen, k.reported = h, leased[k], lives[k], nil, false
	}
	for _, s := range events {
		*s.at = s.was
	}
	// Tokens that were given back in the transaction are not tried again.
	w.open = slices.DeleteFunc(open, func(t *taken) bool { return !slices.Contains(w.open, t) })
}

// lookAt sees what a key of a limit with shards has before a request.
func (w *World) lookAt(limiter *runtime.Limiter, l *limit, k *key, plan int) {
	if l.names == nil {
		plan = 0
	} else if plan == 0 {
		plan = 1
	}
	if !l.at(k, plan, w.clock.now()).counts() {
		return
	}
	b, err := limiter.Limit(l.of(plan), k.of).Peek(context.Background())
	if err != nil {
		w.failf("peek: %v", err)
	}
	k.just, k.justBy = b.Value, l.at(k, plan, w.clock.now())
}

// step sends one request.
func (w *World) step(limiter *runtime.Limiter, want map[string]string, where string) {
	if w.err != nil || w.ended {
		return
	}
	l := w.limits[0]
	if w.r.IntN(3) == 0 {
		l = oneOf(w.r, w.limits...)
	}
	k := oneOf(w.r, l.keys...)
	verb, state := choose(w.r, want, "verb"), "answers"
	again := k.denied != nil && w.r.IntN(3) == 0
	if again && want["verb"] == "" {
		// Whether a denial still holds shows only if the same is asked again, perhaps after a change.
		verb = oneOf(w.r, "allow", "check", "charge", "cancel", verb)
	}
	if v, ok := want["store"]; ok || w.r.IntN(20) == 0 {
		if state = v; !ok {
			state = oneOf(w.r, Fields["store"]...)
		}
	}
	tags := maps.Clone(l.traits)
	tags["verb"], tags["in"], tags["store"] = verb, where, state
	tags["edited"], tags["clock"] = "no", "forward"
	if l.edits > 0 {
		tags["edited"] = "yes"
	}
	if w.back {
		tags["clock"] = "back"
	}
	plan := 0
	if l.names != nil {
		plan = 1 + w.r.IntN(3)
		if v, ok := want["plan"]; ok {
			plan = max(1, slices.Index(l.names, v))
		}
	}
	if _, wanted := want["plan"]; again && !wanted {
		plan = k.denied.plan
	}
	tags["plan"] = "none"
	if plan > 0 {
		tags["plan"] = l.names[plan]
	}
	w.putInForce(l, k, plan, want["force"], where)
	tags["force"] = l.inForce(k, plan, w.clock.now())
	if verb == "edit" || verb == "sweep" {
		delete(tags, "plan")
		delete(tags, "force")
	}
	for field, v := range tags {
		for other, u := range tags {
			if field < other && Impossible(Value{field, v}, Value{other, u}) != "" {
				return
			}
		}
	}
	for _, l := range w.limits {
		if state != "answers" || l.traits["lease"] == "yes" || l.traits["shards"] == "1" {
			continue
		}
		for _, k := range l.keys {
			k.just = math.NaN()
			if verb != "edit" && w.err == nil {
				w.lookAt(limiter, l, k, plan)
			}
		}
	}
	w.store.state = state
	q := request{l: l, k: k, plan: plan, n: oneOf(w.r, 0, 1, 1, 1, 2, 3, 5, 10, w.r.Int64N(40))}
	if again {
		q.n = k.denied.n
	}
	before := len(w.trace)
	done := w.perform(limiter, verb, q, state, where)
	w.store.state = "answers"
	if !done {
		return
	}
	w.Steps++
	if len(w.trace) == before {
		w.logf("%s %s %s plan %d n %d", verb, l.policies[len(l.policies)-1].Name, k.of, plan, q.n)
	}
	w.Pairs.Add(tags)
	if state == "answers" && w.err == nil {
		w.compare(limiter, l, k, plan, "after "+verb)
	}
}
