package limiter_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// exceptional is a limit with plans, overrides and exceptions, made for each test because the policies know their
// exceptions.
func exceptional(list ...runtime.Exception) (runtime.PlanPolicies, *runtime.Exceptions) {
	most := runtime.OverrideBounds{Rate: 1000, Capacity: 2000, MaxReserved: 60, Unlimited: true}
	all := append(runtime.PlanPolicies{}, planPolicies...)
	for i := range all[1:] {
		all[i+1].Overrides = most
	}
	return all.Overridable(runtime.PlanNames{free: "free", pro: "pro", enterprise: "enterprise"}), all.Except(list)
}

// TestExceptions is the table of what an exception gives a key, by each plan of a caller.
func TestExceptions(t *testing.T) {
	const unlimited = "unlimited"
	for _, row := range []struct {
		name      string
		exception runtime.Exception
		want      [3]string
	}{
		{"none", runtime.Exception{Key: "another", Mode: runtime.ModeBlock}, [3]string{"10 of 10", "60 of 60", unlimited}},
		{"plan", runtime.Exception{Key: "k", Plan: pro}, [3]string{"60 of 60", "60 of 60", "60 of 60"}},
		{"unlimited plan", runtime.Exception{Key: "k", Plan: enterprise}, [3]string{unlimited, unlimited, unlimited}},
		{"rate, and so the capacity", runtime.Exception{Key: "k", Numbers: runtime.Numbers{Rate: 500}}, [3]string{"500 of 500", "500 of 500", unlimited}},
		{"less", runtime.Exception{Key: "k", Numbers: runtime.Numbers{Rate: 5, Capacity: 2}}, [3]string{"2 of 2", "2 of 2", unlimited}},
		{"more than operators can give", runtime.Exception{Key: "k", Numbers: runtime.Numbers{Capacity: 9000}}, [3]string{"9000 of 9000", "9000 of 9000", unlimited}},
		{"block", runtime.Exception{Key: "k", Mode: runtime.ModeBlock}, [3]string{"blocked", "blocked", "blocked"}},
		{"off", runtime.Exception{Key: "k", Mode: runtime.ModeOff}, [3]string{unlimited, unlimited, unlimited}},
		{"unlimited", runtime.Exception{Key: "k", Numbers: runtime.Numbers{Unlimited: true}}, [3]string{unlimited, unlimited, unlimited}},
	} {
		all, exceptions := exceptional(row.exception)
		limits := limiter.New(&memstore.Store{})
		for i, want := range row.want {
			p, key := exceptions.For(all.For(i+1, runtime.KeyOf(runtime.String("k"))))
			require.NoError(t, p.Validate(), row.name)
			again, _ := exceptions.For(all.For(i+1, key))
			assert.Same(t, p, again, "leases go by the address of a policy")
			b, err := limits.Reservable(p, key).Peek(t.Context())
			require.NoError(t, err, row.name)
			got := fmt.Sprintf("%d of %d", b.Remaining, b.Capacity)
			switch {
			case p.Mode == runtime.ModeBlock:
				got = "blocked"
			case p.Mode.Passes():
				got = unlimited
			}
			assert.Equal(t, want, got, "%s, plan %d", row.name, i+1)
		}
		_, invalid := exceptions.For(all.For(0, runtime.KeyOf(runtime.String("k"))))
		assert.ErrorIs(t, invalid.Err(), runtime.ErrInvalidPlan, row.name)
	}
}

// A decision finds the exception of its key, of many, without memory of its own. Keys that are given the same have one
// policy.
func TestManyExceptionsCostNoMemory(t *testing.T) {
	var list []runtime.Exception
	for i := range 10_000 {
		x := runtime.Exception{Key: fmt.Sprint(2 * i), Numbers: runtime.Numbers{Rate: int64(100 + i)}}
		if i%2 == 0 {
			x.Numbers, x.Plan = runtime.Numbers{}, pro
		}
		list = append(list, x)
	}
	all, exceptions := exceptional(list...)
	policyOf := func(i int) *runtime.Policy {
		p, _ := exceptions.For(all.For(free, runtime.KeyOf(runtime.Int(i))))
		return p
	}
	for i := range list {
		p := policyOf(2 * i)
		if i%2 == 0 {
			require.Same(t, policyOf(0), p)
		} else {
			require.EqualValues(t, 100+i, p.Rate)
		}
		require.Same(t, &all[free], policyOf(2*i+1))
	}
	own, others := all.For(free, runtime.KeyOf(runtime.Int(2)))
	_, none := all.For(free, runtime.KeyOf(runtime.Int(1)))
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		exceptions.For(own, others)
		exceptions.For(own, none)
	}))
}

// What a key has used stays used when its exception comes or goes with a deploy, and a sweep goes by the exception.
func TestCountsOutliveExceptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memstore.Store{}
		limits := limiter.New(store)
		key := runtime.KeyOf(runtime.String("k"))
		before, after := runtime.Policy{Name: "calls", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 10}, runtime.Policy{}
		after = before
		exceptions := after.Except([]runtime.Exception{{Key: "k", Numbers: runtime.Numbers{Rate: 1, Capacity: 1000}}})
		must(limits.Limit(&before, key).AllowN(t.Context(), 10))
		p, _ := exceptions.For(&after, key)
		d := must(limits.Limit(p, key).AllowN(t.Context(), 990))
		assert.True(t, d.Allowed, "10 of 1,000 are used")
		time.Sleep(3 * time.Hour)
		swept, err := store.Sweep(t.Context(), &after)
		require.NoError(t, err)
		assert.Zero(t, swept, "the key is full by the limit, and not by its exception")
		b := must(limits.Limit(p, key).Peek(t.Context()))
		assert.EqualValues(t, 180, b.Remaining)
	})
}

// outcome is what a key has.
type outcome struct {
	mode                        runtime.Mode
	rate, capacity, maxReserved int64
}

func outcomeOf(p *runtime.Policy) outcome {
	if p.Mode == runtime.ModeBlock || p.Mode.Passes() {
		if p.Mode == runtime.ModeOff {
			return outcome{mode: runtime.ModeUnlimited}
		}
		return outcome{mode: p.Mode}
	}
	return outcome{p.Mode, p.Rate, p.Capacity, p.MaxReserved}
}

// numbered returns an outcome with numbers in place of its own, each at most that of most.
func (o outcome) numbered(n, most runtime.Numbers) outcome {
	if o.mode == runtime.ModeUnlimited {
		return o
	}
	if n.Capacity == 0 && o.capacity == o.rate {
		n.Capacity = n.Rate
	}
	for _, part := range []struct {
		into     *int64
		n, limit int64
	}{{&o.rate, n.Rate, most.Rate}, {&o.capacity, n.Capacity, most.Capacity}, {&o.maxReserved, n.MaxReserved, most.MaxReserved}} {
		if part.n > 0 {
			*part.into = min(part.n, part.limit)
		}
	}
	return o
}

// keyWorld is a random file with overrides in force.
type keyWorld struct {
	exception    *runtime.Exception
	blocked      bool
	own, of      *runtime.Override
	plan         int
	unbounded    runtime.Numbers
	mostByFile   runtime.Numbers
	planOutcomes map[int]outcome
}

// mostOfKey is the most that operators can give the key: what the file declares for them, and at least what it gives the
// key.
func (w *keyWorld) mostOfKey() runtime.Numbers {
	most := w.mostByFile
	if x := w.exception; x != nil && x.Numbers != (runtime.Numbers{}) && !x.Numbers.Unlimited {
		has := w.planOutcomes[free].numbered(x.Numbers, w.unbounded)
		most.Rate, most.Capacity, most.MaxReserved = max(most.Rate, has.rate), max(most.Capacity, has.capacity), max(most.MaxReserved, has.maxReserved)
	}
	return most
}

// inForce is the reference: a block, the override of the key or of the whole limit, the exception, the plan.
func (w *keyWorld) inForce() outcome {
	plain := w.planOutcomes[w.plan]
	if w.blocked {
		return outcome{mode: runtime.ModeBlock}
	}
	excepted, mode := plain, false
	if x := w.exception; x != nil {
		switch {
		case x.Plan != 0:
			excepted = w.planOutcomes[x.Plan]
		case x.Mode == runtime.ModeBlock:
			excepted, mode = outcome{mode: runtime.ModeBlock}, true
		case plain.mode == runtime.ModeUnlimited:
		case x.Mode == runtime.ModeOff || x.Numbers.Unlimited:
			excepted, mode = outcome{mode: runtime.ModeUnlimited}, true
		case x.Mode == runtime.ModeShadow:
			excepted.mode, mode = x.Mode, true
		default:
			excepted = plain.numbered(x.Numbers, w.unbounded)
		}
	}
	v := w.own
	if v == nil {
		v = w.of
	}
	numbers := runtime.Numbers{}
	if v != nil {
		numbers = runtime.Numbers{Rate: v.Rate, Capacity: v.Capacity, MaxReserved: v.MaxReserved}
	}
	switch {
	case v == nil:
		return excepted
	case v.Plan != nil:
		name, _ := v.Plan.MarshalText()
		return w.planOutcomes[map[string]int{"free": free, "pro": pro, "enterprise": enterprise}[string(name)]].numbered(numbers, w.mostByFile)
	case v.Mode == runtime.ModeShadow:
		if excepted.mode == runtime.ModeUnlimited && !mode || excepted.mode == runtime.ModeUnlimited && w.exception.Mode != runtime.ModeOff {
			return excepted
		}
		if excepted.mode == runtime.ModeUnlimited || excepted.mode == runtime.ModeBlock {
			excepted = plain
			if plain.mode == runtime.ModeUnlimited {
				excepted = w.planOutcomes[free]
			}
		}
		excepted.mode = runtime.ModeShadow
		return excepted
	case v.Mode == runtime.ModeOff:
		return outcome{mode: runtime.ModeUnlimited}
	case mode || excepted.mode != plain.mode:
		return plain.numbered(numbers, w.mostByFile)
	}
	most := w.mostByFile
	most.Rate, most.Capacity = max(most.Rate, excepted.rate), max(most.Capacity, excepted.capacity)
	return excepted.numbered(numbers, most)
}

// The policy in force is that of the reference in random worlds. With -long, there are 100,000.
func TestExceptionsStandBehindOperators(t *testing.T) {
	worlds := 1000
	if runtimetest.Long() {
		worlds = 100_000
	}
	for seed := range uint64(worlds) {
		if err := tryWorld(t, rand.New(rand.NewPCG(seed, 23))); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func tryWorld(t *testing.T, r *rand.Rand) error {
	w := keyWorld{
		plan:       1 + r.IntN(3),
		unbounded:  runtime.Numbers{Rate: runtime.MaxTokens, Capacity: runtime.MaxTokens, MaxReserved: runtime.MaxTokens},
		mostByFile: runtime.Numbers{Rate: 1000, Capacity: 2000, MaxReserved: 60},
	}
	numbers := func(most int64) (n runtime.Numbers) {
		for n == (runtime.Numbers{}) {
			n = runtime.Numbers{Rate: r.Int64N(2) * (1 + r.Int64N(most)), Capacity: r.Int64N(2) * (1 + r.Int64N(most)), MaxReserved: r.Int64N(2) * (1 + r.Int64N(60))}
		}
		return n
	}
	var list []runtime.Exception
	if r.IntN(4) > 0 {
		x := runtime.Exception{Key: "k", Reason: "test"}
		switch r.IntN(4) {
		case 0:
			x.Plan = 1 + r.IntN(3)
		case 1:
			x.Mode = []runtime.Mode{runtime.ModeBlock, runtime.ModeOff, runtime.ModeShadow}[r.IntN(3)]
		case 2:
			x.Numbers = numbers(5000)
		default:
			x.Numbers.Unlimited = r.IntN(2) == 0
			if !x.Numbers.Unlimited {
				x.Numbers = numbers(500)
			}
		}
		w.exception, list = &x, append(list, x)
	}
	list = append(list, runtime.Exception{Key: "other", Mode: runtime.ModeBlock})
	all, exceptions := exceptional(list...)
	w.planOutcomes = map[int]outcome{}
	for i := range all[1:] {
		w.planOutcomes[i+1] = outcomeOf(&all[i+1])
	}
	random := func() *runtime.Override {
		if r.IntN(2) == 0 {
			return nil
		}
		v := &runtime.Override{Until: runtime.ForGood(), Reason: "test", Author: "test"}
		switch r.IntN(3) {
		case 0:
			v.Plan = override.PlanName([]string{"free", "pro", "enterprise"}[r.IntN(3)])
		case 1:
			v.Mode = []runtime.Mode{runtime.ModeOff, runtime.ModeShadow}[r.IntN(2)]
		default:
			n := numbers(3000)
			v.Rate, v.Capacity, v.MaxReserved = n.Rate, n.Capacity, n.MaxReserved
		}
		return v
	}
	limits := limiter.New(&memstore.Store{})
	key := runtime.KeyOf(runtime.String("k"))
	w.own, w.of = random(), random()
	for v, o := range map[**runtime.Override]limiter.Overrides{&w.own: limits.Overrides(&all[free], key), &w.of: limits.OverridesForAll(&all[free])} {
		if *v == nil {
			continue
		}
		most := w.mostByFile
		if v == &w.own {
			most = w.mostOfKey()
		}
		n := runtime.Numbers{Rate: (*v).Rate, Capacity: (*v).Capacity, MaxReserved: (*v).MaxReserved}
		allowed := n.Rate <= most.Rate && n.Capacity <= most.Capacity && n.MaxReserved <= most.MaxReserved
		switch _, err := o.Set(t.Context(), **v); {
		case errors.Is(err, runtime.ErrInvalidOverride) && !allowed:
			*v = nil
		case err != nil || !allowed:
			return fmt.Errorf("%+v of at most %+v, with the exception %+v: %v", n, most, w.exception, err)
		}
	}
	if w.blocked = r.IntN(5) == 0; w.blocked {
		if _, err := limits.Overrides(&all[free], key).Block(t.Context(), runtime.Block{Until: runtime.ForGood(), Reason: "test", Author: "test"}); err != nil {
			return err
		}
	}
	d, err := limits.Reservable(exceptions.For(all.For(w.plan, key))).CheckN(t.Context(), 0)
	if err != nil && !errors.Is(err, runtime.ErrLimited) {
		return err
	}
	if want, got := w.inForce(), outcomeOf(d.Policy); want != got {
		return fmt.Errorf("want %+v, got %+v: exception %+v, own %+v, all %+v, plan %d, blocked %v", want, got, w.exception, w.own, w.of, w.plan, w.blocked)
	}
	return nil
}
