// Package limiter has the verbs of limits. A [Limiter] connects limits with a [runtime.Store], and returns handles for
// one key of one limit: [Limit], [ReservableLimit], [ReserveOnlyLimit] and [SlotLimit], and [Overrides] for operators.
// A [Group] takes from several of them at once.
package limiter

import (
	"context"
	"database/sql"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/ability"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/recent"
)

// Limiter connects limits with a [runtime.Store]. Generated code wraps one; for a limit written in Go, make one
// directly:
//
//	limits := limiter.New(store)
//	d, err := limits.Limit(&policy, runtime.KeyOf(runtime.Int64(userID))).Allow(ctx)
//
// The zero Limiter has no store, and all methods of its limits return [runtime.ErrNoStore].
type Limiter struct {
	store runtime.Store
	// What store can do beyond Do, nil if it cannot: found once, because a decorated store is searched for it.
	log     override.Reader
	leases  localTaker
	waiters waitQueue
	// local decides while the store fails.
	local localMemory
	// inTx means that store is in a transaction of the caller, and base is the store outside of it.
	inTx bool
	base runtime.Store
	// settles means that requests go to base when the transaction has ended.
	settles bool
	// observer may be nil.
	observer runtime.Observer
	// warn receives warnings; it may be nil.
	warn func(context.Context, runtime.Warning)
	// hash hashes parts of keys with a secret; nil without one.
	hash *keyHash
	// mode relaxes all limits; nil without one.
	mode *relaxation
}

// localTaker is a store that holds leased tokens, which it has already taken, and can hand them out in this process.
type localTaker interface {
	// TakeLocal takes n tokens of a key from those that the store holds. If it returns false, nothing was taken, and the
	// request goes to Do. The policy has a Lease, but may be invalid.
	TakeLocal(p *runtime.Policy, key string, n int64) (runtime.Decision, bool)
}

// New returns a limiter with its counts in store. The options may have it observed: see [Observe].
func New(store runtime.Store, options ...Option) *Limiter {
	l := (&Limiter{}).in(store)
	for _, option := range options {
		option(l)
	}
	if l.mode != nil && l.log != nil {
		l.log.OverrideView().Relax(l.mode.mode)
	}
	return l
}

// in sets the store.
func (l *Limiter) in(store runtime.Store) *Limiter {
	l.store = store
	l.log, _ = ability.Of[override.Reader](store)
	l.leases, _ = ability.Of[localTaker](store)
	return l
}

// WithTx returns a limiter that keeps its counts inside a transaction of the caller, which must be of the database that
// holds the counts: tokens are taken if and only if tx commits. The methods of its limits return [runtime.ErrNilTx] if tx
// is nil, and [runtime.ErrNoTx] if the store does not support transactions.
func (l *Limiter) WithTx(tx runtime.Tx) *Limiter {
	return l.inside(func(store runtime.Store) runtime.Store { return runtime.InTx(store, tx) })
}

// WithConn is [Limiter.WithTx] for a transaction that the caller has begun by a statement, such as BEGIN, on a connection.
// If none is open when a method is called, the error is [runtime.ErrNoTx].
func (l *Limiter) WithConn(conn *sql.Conn) *Limiter {
	return l.inside(func(store runtime.Store) runtime.Store { return runtime.InConn(store, conn) })
}

func (l *Limiter) inside(tx func(runtime.Store) runtime.Store) *Limiter {
	if l == nil || l.store == nil {
		return l
	}
	return (&Limiter{inTx: true, base: l.store, observer: l.observer, warn: l.warn, hash: l.hash, mode: l.mode}).in(tx(l.store))
}

// settler returns the limiter that settles reservations of l: for reservations of a transaction, one that goes on
// without it when it has ended.
func (l *Limiter) settler() *Limiter {
	if l == nil || !l.inTx || l.settles {
		return l
	}
	return (&Limiter{inTx: true, base: l.base, settles: true, observer: l.observer, warn: l.warn, hash: l.hash, mode: l.mode}).in(l.store)
}

// Option configures a [Limiter].
type Option func(*Limiter)

// Observe makes o observe the decisions of a limiter. Several options of this kind add up. Without one, nothing is
// measured.
func Observe(o runtime.Observer) Option {
	return func(l *Limiter) {
		switch {
		case o == nil:
		case l.observer == nil:
			l.observer = o
		default:
			l.observer = both{l.observer, o}
		}
	}
}

// OnWarn makes warn receive the takes that cross a threshold of their limit: see [runtime.Thresholds]. Several options of
// this kind add up. It costs nothing for limits without thresholds.
//
//	limit := limits.New(store, limiter.OnWarn(func(ctx context.Context, w runtime.Warning) {
//		slog.WarnContext(ctx, w.String())
//	}))
//
// It is called as an [runtime.Observer] is: on the goroutine of the caller, after the decision and before the caller gets
// it, while no lock is held. Only the process that has made the request gets the warning, once. If the answer is lost, or
// the process ends, the warning is lost. For an e-mail that must be sent, write a row in the transaction that takes the
// tokens, if [runtime.Decision.Crossed] is not 0.
func OnWarn(warn func(ctx context.Context, w runtime.Warning)) Option {
	return func(l *Limiter) {
		switch first := l.warn; {
		case warn == nil:
		case first == nil:
			l.warn = warn
		default:
			l.warn = func(ctx context.Context, w runtime.Warning) {
				first(ctx, w)
				warn(ctx, w)
			}
		}
	}
}

// HashKeys makes the hashes of the parts of keys that are of the type hashed string HMAC-SHA-256 with a secret of the
// deployment, of at least [runtime.MinKeySecret] bytes: without it, whoever can read the table can find telephone
// numbers and e-mail addresses by trying all of them. With a shorter secret, requests of such limits fail.
//
// All processes need the same secret, and operators too. With another secret, every key is another one, with a full count
// and without its blocks and overrides: so an id of the secret, from which it cannot be calculated, is registered with the
// types of the key, and a store refuses another secret, or none, with [runtime.ErrForeignCounts]. Give Migrate, Ready and
// Sweep the policies of [runtime.Catalog.HashKeys]; Adopt replaces the secret.
func HashKeys(secret []byte) Option {
	// Not nil, so that an empty secret is refused.
	secret = append([]byte{}, secret...)
	hash := &keyHash{secret: secret}
	return func(l *Limiter) { l.hash = hash }
}

// keyHash hashes parts of keys with a secret.
type keyHash struct {
	secret []byte
	// policies has the policies that were used lately with the id of the secret.
	policies recent.Table[*runtime.Policy, *runtime.Policy]
}

// policy returns p with the id of the secret.
func (h *keyHash) policy(p *runtime.Policy) *runtime.Policy {
	if p == nil {
		return nil
	}
	return *h.policies.Of(p, func(p *runtime.Policy) *runtime.Policy { return p.Inside().HashedWith(h.secret) })
}

// Mode makes all limits of a limiter no stricter than a mode, for environments in which they must not deny: with
// [runtime.ModeShadow] they count and report what they would deny, and with [runtime.ModeOff] they do nothing. A limit that
// is less strict in limits.yaml stays so: one that is off is off with ModeShadow too. A block, of a limit or of a key, is
// relaxed like a limit. [runtime.ModeEnforce] changes nothing; with another mode, all requests fail with
// [runtime.ErrInvalidPolicy].
//
//	mode := runtime.ModeEnforce
//	if os.Getenv("ENVIRONMENT") == "staging" {
//		mode = runtime.ModeShadow
//	}
//	limit := limits.New(store, limiter.Mode(mode))
//
// It shows in the metrics, as [runtime.Policy.Relaxed] of the policy of a decision or an observation, and by the store: in
// the log of its Start, in package operate and in the console.
func Mode(m runtime.Mode) Option {
	mode := &relaxation{mode: m}
	return func(l *Limiter) {
		if l.mode = mode; m == runtime.ModeEnforce {
			l.mode = nil
		}
	}
}

// relaxation is the mode of [Mode].
type relaxation struct {
	mode runtime.Mode
	// policies has the policies that were used lately with the mode.
	policies recent.Table[*runtime.Policy, *runtime.Policy]
}

// policy returns p with the mode.
func (r *relaxation) policy(p *runtime.Policy) *runtime.Policy {
	if p == nil {
		return nil
	}
	return *r.policies.Of(p, func(p *runtime.Policy) *runtime.Policy { return p.Inside().RelaxedTo(r.mode) })
}

// both is two observers.
type both struct{ first, second runtime.Observer }

func (b both) Decided(ctx context.Context, o runtime.Observation) {
	b.first.Decided(ctx, o)
	b.second.Decided(ctx, o)
}

// override replaces the policies of a call by those in force for their keys. The requests are copied before they are
// changed, because a reservation keeps the policies that the caller has given. The error is about limits whose policies
// are not replaced. now is the instant at which the policies are in force, 0 if no key of the call has any.
func (l *Limiter) override(ctx context.Context, c *runtime.Call) (changed bool, now int64, err error) {
	var view *override.View
	var snapshot *override.Snapshot
	// One instant for the whole call: requests for one key must have one policy.
	present := func() int64 {
		if now == 0 {
			now = view.Now()
		}
		return now
	}
	for i := range c.Requests {
		q := &c.Requests[i]
		if !q.Policy.Overridable() {
			continue
		}
		if snapshot == nil {
			if view, snapshot, err = l.overrides(ctx); err != nil {
				return false, 0, err
			}
		}
		p, problem := snapshot.Policy(q.Policy, q.Key, present)
		switch {
		case problem != nil && q.Op == runtime.Reset:
			// It deletes the row, whatever is in force.
			continue
		case problem != nil:
			// The others still apply: OnError must not let a request pass whose key is blocked.
			err = problem
			continue
		case p == q.Policy:
			continue
		case !changed:
			c.Requests, changed = slices.Clone(c.Requests), true
		}
		c.Requests[i].Policy = p
	}
	return changed, now, err
}

// overrides returns what this process holds in memory, after reading it at the first use.
func (l *Limiter) overrides(ctx context.Context) (*override.View, *override.Snapshot, error) {
	if l.log == nil {
		return nil, nil, ability.Missing(runtime.ErrNoOverrides, l.store)
	}
	view, in := l.log.OverrideView(), override.Reader(nil)
	if l.inTx {
		in = l.log
	}
	snapshot, err := view.Load(ctx, in)
	return view, snapshot, err
}

// unread reports whether a request of a policy has to wait until the overrides have been read.
func (l *Limiter) unread(p *runtime.Policy) bool {
	return l.log != nil && p.Overridable() && !l.log.OverrideView().InUse()
}

// inForceNow returns the policy in force for a key without a request to the store. It is false if the overrides have
// not been read, or have a problem.
func (l *Limiter) inForceNow(p *runtime.Policy, key string) (*runtime.Policy, bool) {
	if !p.Overridable() {
		return p, true
	}
	if l == nil || l.log == nil || !l.log.OverrideView().InUse() {
		return nil, false
	}
	p, err := l.log.OverrideView().PolicyOf(p, key)
	return p, err == nil
}
