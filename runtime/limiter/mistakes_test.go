package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/override"
	"github.com/ratelimitgen/ratelimitgen/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// mistakes are errors of a store that each request would meet until the program is changed.
var mistakes = []error{
	runtime.ErrNoStore, runtime.ErrClosed, runtime.ErrNoTx, runtime.ErrNoOverrides, runtime.ErrUnknownOverride, runtime.ErrInvalidPolicy,
	&runtime.RegistrationError{}, runtime.ErrInvalidCall,
}

// A store that cannot work as the program uses it has not failed: OnError lets nothing pass, however the error is wrapped.
func TestOnErrorDoesNotApplyToMistakes(t *testing.T) {
	for _, o := range runtime.OnErrors() {
		for _, mode := range []runtime.Mode{runtime.ModeEnforce, runtime.ModeShadow} {
			for _, mistake := range mistakes {
				synctest.Test(t, func(t *testing.T) {
					watch := &spy{}
					limits := limiter.New(&faulty{Store: still(), err: fmt.Errorf("tenant 7: %w", mistake)}, limiter.Observe(watch))
					p := onError(o)
					p.Mode = mode
					for _, v := range verbs(limits) {
						require.ErrorIs(t, v.call(t.Context(), limits.Reservable(p, runtime.Key{})), mistake, "%v: %s", o, v.name)
						for _, seen := range watch.take() {
							require.Equal(t, runtime.OutcomeInvalid, seen.Outcome, "%v: %s", o, v.name)
						}
					}
				})
			}
		}
	}
}

// An override that this version does not understand may be a block.
func TestOnErrorDoesNotApplyToUnknownOverrides(t *testing.T) {
	for _, o := range runtime.OnErrors() {
		p := *overridable()
		p.OnError = o
		limits := limiter.New(followed{still(), override.New(override.Source{
			Since: func(context.Context, int64) ([]runtime.OverrideEntry, error) {
				return []runtime.OverrideEntry{{ID: 1, Limit: p.Name, What: "of a later version", Until: runtime.ForGood(), At: epoch, Reason: "r", Author: "a"}}, nil
			},
			Now: epoch.UnixNano,
		})})
		_, err := limits.Limit(&p, runtime.Key{}).Allow(t.Context())
		require.ErrorIs(t, err, runtime.ErrUnknownOverride, "%v", o)
		require.Equal(t, runtime.OriginProgram, runtime.OriginOf(err))
	}
}

// embedding decorates a store in the natural way, without Unwrap: it lacks the other methods of the store.
type embedding struct{ runtime.Store }

// What a decorator hides is an error that names the remedy, and never a request that passes.
func TestDecoratorWithoutUnwrapIsAMistake(t *testing.T) {
	for _, o := range runtime.OnErrors() {
		p := *overridable()
		p.OnError = o
		mem := still()
		limits := limiter.New(embedding{mem})
		limit := limits.Limit(&p, runtime.KeyOf(runtime.String("a")))
		_, written := limits.Overrides(&p, runtime.KeyOf(runtime.String("a"))).Block(t.Context(), runtime.Block{Until: epoch.Add(time.Hour), Reason: "r", Author: "a"})
		_, read := limits.Overrides(&p, runtime.KeyOf(runtime.String("a"))).History(t.Context())
		_, asked := limit.Allow(t.Context())
		for name, row := range map[string]struct{ got, want error }{
			"a request":      {asked, runtime.ErrNoOverrides},
			"a block":        {written, runtime.ErrNoOverrides},
			"the log":        {read, runtime.ErrNoOverrides},
			"a transaction":  {limits.WithTx(mem.Begin()).Limit(bucket("send", 1), runtime.Key{}).Require(t.Context()), runtime.ErrNoTx},
			"an erasure":     {limit.Erase(t.Context()), runtime.ErrNoErase},
			"erasure in one": {limits.WithTx(mem.Begin()).Limit(bucket("send", 1), runtime.KeyOf(runtime.String("a"))).Erase(t.Context()), runtime.ErrNoTx},
		} {
			require.ErrorIs(t, row.got, row.want, "%v: %s", o, name)
			require.ErrorContains(t, row.got, "its type is limiter_test.embedding: if it decorates another store, it needs the method Unwrap() runtime.Store", name)
			require.Equal(t, runtime.OriginProgram, runtime.OriginOf(row.got), name)
		}
	}
}

// lessor is a store that hands out leased tokens.
type lessor struct {
	*memstore.Store
	taken int64
}

func (l *lessor) TakeLocal(p *runtime.Policy, _ string, n int64) (runtime.Decision, bool) {
	l.taken += n
	return runtime.Decision{Limit: p.Name, Policy: p, Allowed: true, Taken: n}, true
}

// Each ability of a store is found behind decorators, which see the calls of Do.
func TestDecoratedStoreKeepsItsAbilities(t *testing.T) {
	mem := &lessor{Store: still()}
	inner := runtimetest.Trace(mem)
	traced := runtimetest.Trace(inner)
	limits, ctx := limiter.New(traced), t.Context()
	key := runtime.KeyOf(runtime.String("a"))
	limit := limits.Limit(overridable(), key)

	must(limit.Allow(ctx))
	require.EqualValues(t, 1, traced.Calls.Load())
	require.EqualValues(t, 1, inner.Calls.Load())

	must(limits.Overrides(overridable(), key).Block(ctx, runtime.Block{Until: epoch.Add(time.Hour), Reason: "r", Author: "a"}))
	require.False(t, must(limit.Allow(ctx)).Allowed, "the block is in force")
	require.Len(t, must(limits.Overrides(overridable(), key).History(ctx)), 1)
	require.ErrorIs(t, limit.Erase(ctx), runtime.ErrOverrideInForce)
	must(limits.Overrides(overridable(), key).End(ctx, overrideEnd))
	require.NoError(t, limit.Erase(ctx))
	require.EqualValues(t, 10, must(limit.Peek(ctx)).Remaining)

	before := traced.Calls.Load()
	tx := mem.Begin()
	require.NoError(t, limits.WithTx(tx).Limit(overridable(), key).Require(ctx))
	require.Equal(t, before, traced.Calls.Load(), "a transaction passes by a decorator without WithTx")
	require.NoError(t, tx.Rollback())
	require.EqualValues(t, 10, must(limit.Peek(ctx)).Remaining, "nothing was taken")

	p := *bucket("leased", 10)
	p.Lease = runtime.Lease{Tokens: 5, For: time.Second}
	must(limits.Limit(&p, key).Allow(ctx))
	require.EqualValues(t, 1, mem.taken)
}

// selfish is a decorator with a wrong Unwrap.
type selfish struct{ runtime.Store }

func (s selfish) Unwrap() runtime.Store { return s }

func TestUnwrapThatReturnsItselfIsBounded(t *testing.T) {
	_, err := limiter.New(selfish{still()}).Limit(overridable(), runtime.Key{}).Allow(t.Context())
	require.ErrorIs(t, err, runtime.ErrNoOverrides)
	_, err = limiter.New(runtimetest.Trace(nil)).Limit(overridable(), runtime.Key{}).Allow(t.Context())
	require.ErrorIs(t, err, runtime.ErrNoOverrides)
	require.False(t, errors.Is(err, runtime.ErrNoStore))
}
