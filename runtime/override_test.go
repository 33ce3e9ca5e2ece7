package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// overridable returns a bucket of 10 tokens an hour, of which operators can make 100 or none at all.
func overridable() *runtime.Policy {
	return &runtime.Policy{
		Name: "calls", Kind: runtime.TokenBucket, Rate: 10, Period: time.Hour, Capacity: 10,
		Overrides: runtime.OverrideBounds{Rate: 100, Capacity: 100, Unlimited: true},
	}
}

// overriding is a limiter on a MemStore with a clock that stands still.
type overriding struct {
	*testing.T
	now     time.Time
	store   *runtime.MemStore
	limiter *runtime.Limiter
	policy  *runtime.Policy
}

func newOverriding(t *testing.T, p *runtime.Policy) *overriding {
	o := &overriding{T: t, now: epoch, policy: p}
	o.store = &runtime.MemStore{Clock: func() time.Time { return o.now }}
	o.limiter = runtime.NewLimiter(o.store)
	return o
}

func (o *overriding) key(key string) runtime.OverridableLimit {
	return o.limiter.Overridable(o.policy, runtime.KeyOf(runtime.String(key)))
}

func (o *overriding) override(of interface {
	Override(context.Context, runtime.Override) (runtime.OverrideEntry, error)
}, v runtime.Override) runtime.OverrideEntry {
	o.Helper()
	v.Reason, v.Author = "a test", "me"
	if v.Until.IsZero() {
		v.Until = o.now.Add(time.Hour)
	}
	e, err := of.Override(o.Context(), v)
	require.NoError(o, err)
	return e
}

func (o *overriding) block(of interface {
	Block(context.Context, runtime.Block) (runtime.OverrideEntry, error)
}, until time.Duration) {
	o.Helper()
	_, err := of.Block(o.Context(), runtime.Block{Until: o.now.Add(until), Reason: "abuse", Author: "me"})
	require.NoError(o, err)
}

func (o *overriding) blockForGood(of interface {
	Block(context.Context, runtime.Block) (runtime.OverrideEntry, error)
}) {
	o.Helper()
	_, err := of.Block(o.Context(), runtime.Block{Until: runtime.ForGood, Reason: "abuse", Author: "me"})
	require.NoError(o, err)
}

var ending = runtime.OverrideEnd{Reason: "over", Author: "me"}

// left returns the tokens that a request could take, and the entry that is in force; -1 if requests are denied.
func (o *overriding) left(key string) (tokens, entry int64) {
	o.Helper()
	d, err := o.key(key).CheckN(o.Context(), 0)
	require.NoError(o, err)
	entry, _ = d.Override()
	if !d.Allowed {
		return -1, entry
	}
	return d.Remaining, entry
}

// A window that ends under smaller numbers forgets the use beyond them, as package operate documents for operators.
func TestWindowThatEndsUnderAnOverrideForgets(t *testing.T) {
	for _, row := range []struct {
		until time.Duration // of the override
		left  int64         // after it, of 10 tokens an hour and at most 30
	}{{10 * time.Minute, 10}, {time.Hour + time.Minute, 30}} {
		p := overridable()
		p.Kind, p.Capacity, p.Start = runtime.FixedWindow, 30, runtime.StartOffset(0)
		o := newOverriding(t, p)
		o.now = o.now.Truncate(time.Hour)
		_, err := o.key("a").AllowN(t.Context(), 30)
		require.NoError(t, err)
		o.override(o.key("a"), runtime.Override{Capacity: 4, Until: o.now.Add(row.until)})
		o.now = o.now.Add(time.Hour)
		_, err = o.key("a").AllowN(t.Context(), 0)
		require.NoError(t, err)
		_, err = o.key("a").Charge(t.Context(), 4)
		require.NoError(t, err)
		o.now = o.now.Add(time.Minute)
		b, err := o.key("a").Peek(t.Context())
		require.NoError(t, err)
		require.Equal(t, row.left-4, b.Remaining)
	}
}

// A denial by a block says when the block ends, and a Peek agrees with it.
func TestEndOfABlock(t *testing.T) {
	o := newOverriding(t, overridable())
	ctx := t.Context()
	whole := o.limiter.WholeLimit(o.policy)
	for _, row := range []struct {
		do          func()
		retry       time.Duration
		text, peek  string
		left, value float64
	}{
		{func() { o.block(o.key("a"), time.Hour) }, time.Hour, "denied, retry after 1h", "blocked for 1h with 7 of 10 left, full after 18m", 0, 7},
		{func() { o.now = o.now.Add(10 * time.Minute) }, 50 * time.Minute, "denied, retry after 50m", "blocked for 50m with 8 of 10 left, full after 8m", 0, 8 + 2./3},
		// Of two blocks, the one that ends last.
		{func() { o.block(whole, time.Minute) }, 50 * time.Minute, "denied, retry after 50m", "blocked for 50m with 8 of 10 left, full after 8m", 0, 8 + 2./3},
		{func() { o.block(whole, time.Hour) }, time.Hour, "denied, retry after 1h", "blocked for 1h with 8 of 10 left, full after 8m", 0, 8 + 2./3},
		{func() { o.now = o.now.Add(time.Hour - 1) }, 1, "denied, retry after 1ms", "blocked for 1ms with 10 of 10 left", 0, 10},
		{func() { o.now = o.now.Add(1) }, 0, "allowed, 10 left", "10 of 10 left", 10, 10},
		{func() { o.block(o.key("a"), time.Hour); o.blockForGood(whole) }, runtime.Never, "denied, no retry passes", "blocked with 10 of 10 left", 0, 10},
	} {
		if row.retry == time.Hour && row.value == 7 {
			_, err := o.key("a").AllowN(ctx, 3)
			require.NoError(t, err)
		}
		row.do()
		d, err := o.key("a").CheckN(ctx, 0)
		require.NoError(t, err)
		require.Equal(t, row.retry, d.RetryAfter)
		require.Equal(t, row.text, d.String())
		b, err := o.key("a").Peek(ctx)
		require.NoError(t, err)
		require.Equal(t, row.peek, b.String())
		require.Equal(t, row.retry, b.BlockedFor, "as long as a request is denied")
		require.Equal(t, row.left, float64(b.Remaining))
		require.InDelta(t, row.value, b.Value, 1e-6)
		// A call that needs the store for another limit.
		ds, err := o.limiter.All(ctx, o.key("a").CheckedN(0), o.limiter.Limit(bucket("other", 5), runtime.Key{}).CheckedN(0))
		require.NoError(t, err)
		require.Equal(t, row.retry, ds.RetryAfter)
		require.Equal(t, row.retry == 0, ds.Allowed)
		r, err := o.limiter.Group(o.key("a").N(0)).Reserve(ctx)
		require.NoError(t, err)
		require.Equal(t, row.retry, r.Decisions.RetryAfter)
	}
}

// A limit that limits.yaml blocks has no end of its block, whatever an operator does.
func TestBlockOfABlockedLimitHasNoEnd(t *testing.T) {
	p := overridable()
	p.Mode = runtime.ModeBlock
	o := newOverriding(t, p)
	o.block(o.key("a"), time.Hour)
	d, err := o.key("a").Allow(t.Context())
	require.NoError(t, err)
	require.Equal(t, runtime.Never, d.RetryAfter)
}

// The longest wait of several limits is that of the call, whether it is the end of a block or the next token.
func TestBlockBesideADenial(t *testing.T) {
	for end, want := range map[time.Duration]time.Duration{time.Minute: 6 * time.Minute, time.Hour: time.Hour} {
		o := newOverriding(t, overridable())
		_, err := o.key("empty").AllowN(t.Context(), 10)
		require.NoError(t, err)
		o.block(o.key("blocked"), end)
		ds, err := o.limiter.All(t.Context(), o.key("empty"), o.key("blocked"))
		require.NoError(t, err)
		require.Equal(t, want, ds.RetryAfter)
		require.Equal(t, []string{"calls", "calls"}, ds.DeniedBy())
	}
}

// While the store fails, a block is known from memory, and so is its end.
func TestEndOfABlockWhileTheStoreFails(t *testing.T) {
	for _, onError := range []runtime.OnError{runtime.FailOpen, runtime.FailLocal} {
		p := overridable()
		p.OnError = onError
		o := newOverriding(t, p)
		o.now = time.Now() // the counts in memory are by this clock
		store := &faulty{MemStore: o.store}
		o.limiter = runtime.NewLimiter(store)
		o.block(o.key("blocked"), time.Hour)
		store.err = errors.New("down")
		ds, err := o.limiter.All(t.Context(), o.key("blocked"), o.key("other"))
		require.NoError(t, err)
		require.False(t, ds.Allowed)
		require.InDelta(t, time.Hour, ds.RetryAfter, float64(time.Minute))
	}
}

// Clients of a block come back as spread out as those of a denial.
func TestJitterAfterABlock(t *testing.T) {
	p := overridable()
	p.Jitter = time.Minute
	o := newOverriding(t, p)
	o.block(o.limiter.WholeLimit(p), time.Hour)
	seen := map[time.Duration]bool{}
	for i := range 10 {
		d, err := o.key(fmt.Sprint(i)).Allow(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Hour, d.RetryAfter)
		require.LessOrEqual(t, d.Jitter, time.Minute)
		seen[d.RetryIn()] = true
	}
	require.Len(t, seen, 10)
}

func TestPrecedenceOfOverrides(t *testing.T) {
	o := newOverriding(t, overridable())
	ctx := t.Context()
	whole := o.limiter.WholeLimit(o.policy)
	for _, row := range []struct {
		do          func()
		left, other int64
	}{
		{func() {}, 10, 10},
		{func() { o.override(whole, runtime.Override{Capacity: 20}) }, 20, 20},
		{func() { o.override(o.key("a"), runtime.Override{Capacity: 30}) }, 30, 20},
		{func() { o.override(o.key("a"), runtime.Override{Rate: 50}) }, 50, 20}, // of a limit with equal rate and capacity, both
		{func() { o.override(o.key("a"), runtime.Override{Rate: 50, Capacity: 30}) }, 30, 20},
		{func() { o.block(o.key("a"), time.Minute) }, -1, 20},
		{func() { o.block(whole, 2*time.Minute) }, -1, -1},
		{func() { o.now = o.now.Add(time.Minute) }, -1, -1},
		{func() { o.now = o.now.Add(time.Minute) }, 30, 20}, // the blocks have ended, the overrides have not
		{func() { o.override(o.key("a"), runtime.Override{Mode: runtime.ModeOff}) }, runtime.MaxTokens, 20},
		{func() { o.block(o.key("a"), time.Minute) }, -1, 20},
		{func() { _, err := o.key("a").Unblock(ctx, ending); require.NoError(t, err) }, runtime.MaxTokens, 20},
		{func() { o.block(o.key("a"), time.Minute) }, -1, 20},
		{func() { _, err := o.key("a").EndOverride(ctx, ending); require.NoError(t, err) }, 20, 20},
		{func() { o.now = o.now.Add(time.Hour - 2*time.Minute) }, 10, 10},
	} {
		row.do()
		left, _ := o.left("a")
		require.Equal(t, row.left, left)
		other, _ := o.left("b")
		require.Equal(t, row.other, other)
	}
	_, err := o.key("a").EndOverride(ctx, ending)
	require.ErrorIs(t, err, runtime.ErrNoOverride)
	_, err = o.key("a").Unblock(ctx, ending)
	require.ErrorIs(t, err, runtime.ErrNoOverride)
	history, err := o.key("a").Overrides(ctx)
	require.NoError(t, err)
	var what string
	for _, e := range history {
		what += fmt.Sprintf("%d %s, ", e.ID, e.What)
	}
	require.Equal(t, "2 numbers, 3 numbers, 4 numbers, 5 block, 7 off, 8 block, 9 unblock, 10 block, 11 none, ", what)
	require.Equal(t, runtime.OverrideEntry{
		ID: 2, Limit: "calls", Key: "a", What: "numbers", Capacity: 30, Most: o.policy.Overrides,
		Until: epoch.Add(time.Hour).UTC(), At: epoch.UTC(), Reason: "a test", Author: "me",
	}, history[0])
	wholes, err := whole.Overrides(ctx)
	require.NoError(t, err)
	require.Len(t, wholes, 2)
}

func TestOverrideEndsByTheClockAlone(t *testing.T) {
	o := newOverriding(t, overridable())
	e := o.override(o.key("a"), runtime.Override{Capacity: 50, Until: o.now.Add(time.Minute)})
	o.now = o.now.Add(time.Minute - 1)
	left, entry := o.left("a")
	require.Equal(t, []int64{50, e.ID}, []int64{left, entry})
	o.now = o.now.Add(1)
	left, entry = o.left("a")
	require.Equal(t, []int64{10, 0}, []int64{left, entry})

	o.override(o.key("a"), runtime.Override{Capacity: 50, Until: runtime.ForGood})
	o.now = o.now.AddDate(200, 0, 0)
	left, _ = o.left("a")
	require.Equal(t, int64(50), left)
}

func TestInvalidOverrideIsNotWritten(t *testing.T) {
	o := newOverriding(t, overridable())
	until := o.now.Add(time.Hour)
	for _, row := range []struct {
		v    runtime.Override
		want string
	}{
		{runtime.Override{Rate: 5, Reason: "r", Author: "a"}, "Until is not set"},
		{runtime.Override{Rate: 5, Until: o.now, Reason: "r", Author: "a"}, "is not after the present"},
		{runtime.Override{Rate: 5, Until: time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC), Reason: "r", Author: "a"}, "set ForGood"},
		{runtime.Override{Rate: 5, Until: until, Author: "a"}, "needs a reason"},
		{runtime.Override{Rate: 5, Until: until, Reason: " ", Author: "a"}, "needs a reason"},
		{runtime.Override{Rate: 5, Until: until, Reason: "r"}, "needs an author"},
		{runtime.Override{Rate: 5, Until: until, Reason: "r\x00", Author: "a"}, "control characters"},
		{runtime.Override{Until: until, Reason: "r", Author: "a"}, "changes nothing"},
		{runtime.Override{Rate: 101, Until: until, Reason: "r", Author: "a"}, "rate 101 is more than 100, the most that limits.yaml declares"},
		{runtime.Override{Capacity: 101, Until: until, Reason: "r", Author: "a"}, "capacity 101 is more than 100"},
		{runtime.Override{Rate: -1, Until: until, Reason: "r", Author: "a"}, "rate -1 is negative"},
		{runtime.Override{MaxReserved: 1, Until: until, Reason: "r", Author: "a"}, "the limit has maxReserved 0, which overrides cannot change"},
		{runtime.Override{Mode: runtime.ModeOff, Rate: 1, Until: until, Reason: "r", Author: "a"}, "neither a plan nor numbers"},
		{runtime.Override{Mode: runtime.ModeBlock, Until: until, Reason: "r", Author: "a"}, "use the method Block"},
		{runtime.Override{Mode: 99, Until: until, Reason: "r", Author: "a"}, "Mode(99) is not a Mode"},
		{runtime.Override{Plan: runtime.PlanText("pro"), Until: until, Reason: "r", Author: "a"}, "the limit has no plans"},
	} {
		_, err := o.key("a").Override(t.Context(), row.v)
		require.ErrorIs(t, err, runtime.ErrInvalidOverride, row.want)
		require.ErrorContains(t, err, row.want)
		require.ErrorContains(t, err, `limit "calls": `)
	}
	_, err := o.key("a").Block(t.Context(), runtime.Block{Until: until, Author: "a"})
	require.ErrorContains(t, err, "needs a reason")
	o.policy.Overrides.Unlimited = false
	_, err = o.key("a").Override(t.Context(), runtime.Override{Mode: runtime.ModeShadow, Until: until, Reason: "r", Author: "a"})
	require.ErrorContains(t, err, "cannot be lifted")
	_, err = runtime.NewLimiter(o.store).WithTx(o.store.Begin()).Overridable(o.policy, runtime.Key{}).Block(t.Context(), runtime.Block{Until: until, Reason: "r", Author: "a"})
	require.ErrorIs(t, err, runtime.ErrInvalidOverride)
	entries, err := o.store.OverridesSince(t.Context(), 1)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestInvalidBoundsAreRefused(t *testing.T) {
	for _, row := range []struct {
		edit func(p *runtime.Policy)
		want string
	}{
		{func(p *runtime.Policy) { p.Overrides.Rate = 9 }, "less than the limit's own numbers"},
		{func(p *runtime.Policy) { p.Overrides.Rate = 0 }, "have no rate"},
		{func(p *runtime.Policy) { p.Overrides.Capacity = 5 }, "less than the limit's own numbers"},
		{func(p *runtime.Policy) { p.Overrides.MaxReserved = 5 }, "cannot give reservations"},
		{func(p *runtime.Policy) { p.Overrides.Rate = runtime.MaxTokens + 1 }, "more than 1000000000000000"},
		{func(p *runtime.Policy) { p.Capacity, p.MaxReserved, p.Overrides.MaxReserved = 0, 1, 1 }, "cannot give a capacity"},
		{func(p *runtime.Policy) { p.Kind, p.Overrides.Capacity = runtime.SlidingWindow, 50 }, "equal rate and capacity"},
		{func(p *runtime.Policy) {
			p.Kind, p.Precise, p.Overrides.Rate, p.Overrides.Capacity = runtime.SlidingWindow, true, 2000, 2000
		}, "up to 1000"},
	} {
		p := overridable()
		row.edit(p)
		require.ErrorContains(t, p.Validate(), row.want)
	}
}

func TestOverrideByPlan(t *testing.T) {
	bounds := runtime.OverrideBounds{Rate: 200, Capacity: 200, Unlimited: true}
	policies := runtime.PlanPolicies{
		free: {Name: "calls", Kind: runtime.TokenBucket, Rate: 10, Period: time.Hour, Capacity: 10, Overrides: bounds},
		pro:  {Name: "calls", Kind: runtime.TokenBucket, Rate: 100, Period: time.Minute, Capacity: 100, Overrides: bounds},
		3:    {Name: "calls", Kind: runtime.TokenBucket, Mode: runtime.ModeUnlimited, Overrides: bounds},
	}.Overridable(runtime.PlanNames{"", "free", "pro", "all"})
	o := newOverriding(t, nil)
	of := func(plan int) runtime.OverridableLimit {
		return o.limiter.Overridable(policies.For(plan, runtime.KeyOf(runtime.String("a"))))
	}
	capacity := func(plan int) int64 {
		b, err := of(plan).Peek(t.Context())
		require.NoError(t, err)
		return b.Capacity
	}
	o.override(of(free), runtime.Override{Plan: runtime.PlanText("pro")})
	require.Equal(t, []int64{100, 100, 100}, []int64{capacity(free), capacity(pro), capacity(3)})
	o.override(of(free), runtime.Override{Plan: runtime.PlanText("pro"), Capacity: 200})
	require.Equal(t, []int64{200, 200, 200}, []int64{capacity(free), capacity(pro), capacity(3)})
	o.override(of(free), runtime.Override{Plan: runtime.PlanText("all")})
	require.Equal(t, int64(runtime.MaxTokens), capacity(free))
	o.override(of(free), runtime.Override{Capacity: 50})
	require.Equal(t, []int64{50, 50, runtime.MaxTokens}, []int64{capacity(free), capacity(pro), capacity(3)}, "an unlimited plan has no numbers")
	o.block(of(3), time.Minute)
	for _, plan := range []int{free, pro, 3} {
		d, err := of(plan).Allow(t.Context())
		require.NoError(t, err)
		require.False(t, d.Allowed)
	}
	_, err := of(free).Override(t.Context(), runtime.Override{Plan: runtime.PlanText("gold"), Until: runtime.ForGood, Reason: "r", Author: "a"})
	require.ErrorIs(t, err, runtime.ErrInvalidPlan)
	require.ErrorIs(t, err, runtime.ErrInvalidOverride)
	_, err = of(3).Override(t.Context(), runtime.Override{Rate: 5, Until: runtime.ForGood, Reason: "r", Author: "a"})
	require.ErrorContains(t, err, "the plan of the key is unlimited")
	o.override(o.limiter.WholeLimit(&policies[3]), runtime.Override{Rate: 5})
}

// A key whose numbers are changed back and forth gets no more than one policy with the largest numbers grants, and the
// tokens that it has used stay used.
func TestFlipsOfOverridesMintNothing(t *testing.T) {
	for _, kind := range runtime.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			p := &runtime.Policy{
				Name: "calls", Kind: kind, Rate: 10, Period: time.Hour, Capacity: 10,
				Overrides: runtime.OverrideBounds{Rate: 200, Capacity: 200},
			}
			o := newOverriding(t, p)
			random := rand.New(rand.NewPCG(2, 2))
			taken := int64(0)
			for i := range 1000 {
				switch i % 3 {
				case 0:
					o.override(o.key("a"), runtime.Override{Rate: 1 + random.Int64N(200)})
				case 1:
					o.override(o.key("a"), runtime.Override{Rate: 200})
				case 2:
					_, err := o.key("a").EndOverride(t.Context(), ending)
					require.NoError(t, err)
				}
				d, err := o.key("a").AllowUpTo(t.Context(), 1+random.Int64N(3))
				require.NoError(t, err)
				taken += d.Taken
				require.LessOrEqual(t, taken, int64(200), "flip %d", i)
			}
			require.Equal(t, int64(200), taken)
		})
	}
}

// Whatever an entry says, and whatever the limit is now, the policy that it puts in force is valid and within the bounds.
func TestPolicyInForceIsValid(t *testing.T) {
	d := roll(11)
	for range 20_000 {
		p := d.policy(t, runtime.Kinds()...)
		p.Name = "calls"
		p.Overrides = runtime.OverrideBounds{Rate: p.Rate * 2, Capacity: p.Capacity * 2, MaxReserved: p.MaxReserved * 2, Unlimited: d.IntN(2) == 0}
		p.Overrides.Rate = min(p.Overrides.Rate, runtime.MaxTokens)
		if p.Precise {
			p.Overrides.Rate = min(p.Overrides.Rate, runtime.MaxPreciseRate)
		}
		p.Overrides.Capacity = min(p.Overrides.Capacity, runtime.MaxTokens)
		p.Overrides.MaxReserved = min(p.Overrides.MaxReserved, runtime.MaxTokens)
		if !p.Kind.Linear() {
			p.Overrides.Capacity = p.Overrides.Rate
		}
		require.NoError(t, p.Validate())
		number := func() int64 { return d.Int64N(3) * d.Int64N(1+p.Rate*2) }
		what := []string{runtime.OverrideNumbers, runtime.OverrideBlock, runtime.OverrideOff, runtime.OverrideShadow, runtime.OverrideUnlimited}[d.IntN(5)]
		most := runtime.OverrideBounds{Rate: 1 << 60, Capacity: 1 << 60, MaxReserved: 1 << 60, Unlimited: true}
		store := &runtime.MemStore{}
		_, err := store.AppendOverride(t.Context(), runtime.OverrideEntry{
			Limit: "calls", Key: "a", What: what, Rate: number(), Capacity: number(), MaxReserved: number(), Most: most,
			Until: runtime.ForGood, Reason: "r", Author: "a",
		})
		require.NoError(t, err)
		b, err := runtime.NewLimiter(store).Limit(&p, inAnyCalendar(&p, runtime.KeyOf(runtime.String("a")))).Peek(t.Context())
		require.NoError(t, err, "%+v", p)
		if b.Capacity != runtime.MaxTokens {
			require.Equal(t, p.Capacity == 0, b.Capacity == 0)
			require.LessOrEqual(t, b.Capacity, max(p.Capacity, p.Overrides.Capacity))
		}
	}
}

// inAnyCalendar gives a key what the calendar of a policy needs.
func inAnyCalendar(p *runtime.Policy, key runtime.Key) runtime.Key {
	if p.Calendar.ZonePerKey {
		key = key.In(time.UTC)
	}
	if p.Calendar.Anniversary {
		key = key.Since(epoch)
	}
	return key
}

func TestReservationSettledAfterItsOverride(t *testing.T) {
	p := overridable()
	p.MaxReserved, p.Overrides.MaxReserved = 5, 50
	o := newOverriding(t, p)
	limit := o.limiter.OverridableReservable(p, runtime.KeyOf(runtime.String("a")))

	o.override(limit, runtime.Override{Capacity: 100, Until: o.now.Add(time.Minute)})
	r, err := limit.ReserveN(t.Context(), 80)
	require.NoError(t, err)
	require.True(t, r.Allowed)
	o.now = o.now.Add(time.Minute)
	b, err := limit.Peek(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 10-80+10.0/60, b.Value, 1e-9, "what was used stays used")
	require.NoError(t, r.Settle(t.Context(), 70))
	b, err = limit.Peek(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 10-70+10.0/60, b.Value, 1e-9)

	// What an override has let pass uncounted is not charged when it has ended.
	o.override(limit, runtime.Override{Mode: runtime.ModeOff, Until: o.now.Add(time.Minute)})
	r, err = limit.ReserveN(t.Context(), 80)
	require.NoError(t, err)
	o.now = o.now.Add(time.Minute)
	before, err := limit.Peek(t.Context())
	require.NoError(t, err)
	require.NoError(t, r.Settle(t.Context(), 80))
	after, err := limit.Peek(t.Context())
	require.NoError(t, err)
	require.Equal(t, before.Value, after.Value)
}

func TestOverrideAppliesToCallsOverSeveralLimits(t *testing.T) {
	o := newOverriding(t, overridable())
	other := bucket("other", 10)
	o.override(o.key("a"), runtime.Override{Capacity: 30})
	ds, err := o.limiter.All(t.Context(), o.key("a").N(25), o.limiter.Limit(other, runtime.Key{}).N(5), o.key("a").N(5))
	require.NoError(t, err)
	require.True(t, ds.Allowed)
	require.Same(t, ds.Each[0].Policy, ds.Each[2].Policy)
	rs, err := o.limiter.ReserveAll(t.Context(), o.key("b").N(5), o.limiter.Limit(other, runtime.Key{}).N(5))
	require.NoError(t, err)
	o.block(o.key("b"), time.Minute)
	require.NoError(t, rs.Cancel(t.Context()), "a block does not keep tokens from being given back")
	o.now = o.now.Add(time.Minute)
	left, _ := o.left("b")
	require.Equal(t, int64(10), left)
	ds, err = o.limiter.All(t.Context(), o.key("c"), o.limiter.Limit(other, runtime.Key{}))
	require.NoError(t, err)
	require.True(t, ds.Allowed)
	o.block(o.key("c"), time.Minute)
	ds, err = o.limiter.All(t.Context(), o.key("c"), o.limiter.Limit(other, runtime.Key{}))
	require.NoError(t, err)
	require.Equal(t, []string{"calls"}, ds.DeniedBy())
}

func TestOverridesInTransactions(t *testing.T) {
	o := newOverriding(t, overridable())
	o.override(o.key("a"), runtime.Override{Capacity: 30})
	tx := o.store.Begin()
	d, err := o.limiter.WithTx(tx).Overridable(o.policy, runtime.KeyOf(runtime.String("a"))).AllowN(t.Context(), 30)
	require.NoError(t, err)
	require.True(t, d.Allowed)
	require.NoError(t, tx.Commit())
}

// logStore is a store whose log of overrides may be slow to arrive, fail, or lose its end.
type logStore struct {
	*runtime.MemStore
	view  *runtime.OverrideView
	mu    sync.Mutex
	log   []runtime.OverrideEntry
	err   error
	reads int
}

func newLogStore(mem *runtime.MemStore, background func(func(context.Context))) *logStore {
	s := &logStore{MemStore: mem}
	s.view = runtime.NewOverrideView(runtime.OverrideSource{
		Since: s.OverridesSince, Now: func() int64 { return time.Now().UnixNano() }, Background: background,
	})
	return s
}

func (s *logStore) OverrideView() *runtime.OverrideView { return s.view }

func (s *logStore) OverridesSince(_ context.Context, id int64) (entries []runtime.OverrideEntry, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	for _, e := range s.log {
		if e.ID >= id && len(entries) < runtime.OverridePage {
			entries = append(entries, e)
		}
	}
	return entries, s.err
}

func (s *logStore) set(err error, log ...runtime.OverrideEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log, s.err = log, err
}

func entry(id int64, key, what string, until time.Time) runtime.OverrideEntry {
	return runtime.OverrideEntry{ID: id, Limit: "calls", Key: key, What: what, Capacity: 100, Until: until, Reason: "r", Author: "a"}
}

func TestViewReadsOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := newLogStore(&runtime.MemStore{}, func(f func(context.Context)) { go f(ctx) })
		limit := runtime.NewLimiter(s).Overridable(overridable(), runtime.KeyOf(runtime.String("a")))
		allowed := func() bool {
			d, err := limit.Check(t.Context())
			require.NoError(t, err)
			return d.Allowed
		}
		down := errors.New("down")
		s.set(down)
		_, err := limit.Allow(t.Context())
		require.ErrorIs(t, err, down, "a process that has never read them does not know whether the key is blocked")
		s.set(nil)
		require.True(t, allowed())
		require.Equal(t, 2, s.reads)

		block := entry(1, "a", runtime.OverrideBlock, time.Now().Add(time.Hour))
		s.set(nil, block)
		time.Sleep(runtime.DefaultOverridesEvery)
		synctest.Wait()
		require.False(t, allowed())
		for range 100 {
			allowed()
		}
		reads := s.reads
		require.LessOrEqual(t, reads, 4)
		s.set(down)
		time.Sleep(10 * runtime.DefaultOverridesEvery)
		synctest.Wait()
		require.False(t, allowed(), "what is in force stays in force if it cannot be read")
		require.Equal(t, 10, s.reads-reads)
		// As after a failover that has lost the last entry, whose number another one has now.
		s.set(nil, entry(1, "b", runtime.OverrideBlock, time.Now().Add(time.Hour)))
		time.Sleep(runtime.DefaultOverridesEvery)
		synctest.Wait()
		require.True(t, allowed())
		stop()
		synctest.Wait()
		reads = s.reads
		time.Sleep(time.Hour)
		require.Equal(t, reads, s.reads)
	})
}

func TestOnErrorDecidesWhileOverridesAreUnread(t *testing.T) {
	s := newLogStore(&runtime.MemStore{}, nil)
	s.set(errors.New("down"))
	p := overridable()
	p.OnError = runtime.FailOpen
	d, err := runtime.NewLimiter(s).Limit(p, runtime.Key{}).Allow(t.Context())
	require.NoError(t, err)
	require.Error(t, d.FailedOpen)
	p.OnError = runtime.FailLocal
	d, err = runtime.NewLimiter(s).Limit(p, runtime.Key{}).Allow(t.Context())
	require.NoError(t, err)
	require.Error(t, d.FailedLocal)
	p.OnError, p.Mode = runtime.FailClosed, runtime.ModeOff
	_, err = runtime.NewLimiter(s).Limit(p, runtime.Key{}).Allow(t.Context())
	require.Error(t, err, "the key may be blocked")
	_, err = runtime.NewLimiter(struct{ runtime.Store }{s}).Limit(p, runtime.Key{}).Allow(t.Context())
	require.ErrorIs(t, err, runtime.ErrNoOverrides)
}

func TestUnknownEntryFailsItsKey(t *testing.T) {
	s := newLogStore(&runtime.MemStore{}, nil)
	p := overridable()
	limiter := runtime.NewLimiter(s)
	s.set(nil, entry(1, "a", "slower", runtime.ForGood), entry(2, "b", runtime.OverridePlan, runtime.ForGood),
		entry(3, "c", "slower", time.Unix(1, 0)))
	_, err := limiter.Limit(p, runtime.KeyOf(runtime.String("a"))).Allow(t.Context())
	require.ErrorIs(t, err, runtime.ErrUnknownOverride)
	require.ErrorContains(t, err, `limit "calls": unknown override: entry 1 of the log of overrides has the kind "slower"`)
	_, err = limiter.Limit(p, runtime.KeyOf(runtime.String("b"))).Allow(t.Context())
	require.ErrorIs(t, err, runtime.ErrUnknownOverride)
	_, err = limiter.Limit(p, runtime.KeyOf(runtime.String("c"))).Allow(t.Context())
	require.NoError(t, err, "it has ended")
	require.Len(t, s.view.Problems(nil), 1)
	problems := s.view.Problems([]*runtime.Policy{p})
	require.Len(t, problems, 2)
	require.ErrorContains(t, problems[1], "entry 2")
	other := *p
	other.Name = "other"
	require.Len(t, s.view.Problems([]*runtime.Policy{&other}), 1, "of a limit that is not in the file, only the kind matters")
}

func TestLongLogIsReadInPages(t *testing.T) {
	s := newLogStore(&runtime.MemStore{}, nil)
	var log []runtime.OverrideEntry
	for i := range int64(3*runtime.OverridePage + 5) {
		log = append(log, entry(i+1, fmt.Sprint(i), runtime.OverrideNumbers, runtime.ForGood))
	}
	for _, n := range []int{runtime.OverridePage - 1, runtime.OverridePage, runtime.OverridePage + 1, 2 * runtime.OverridePage, len(log)} {
		s.set(nil, log[:n]...)
		require.NoError(t, s.view.Refresh(t.Context()))
		require.Len(t, s.view.InForce(), n)
	}
}

func TestWaiterPicksUpARaise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &runtime.MemStore{}
		limiter := runtime.NewLimiter(store)
		limit := limiter.Overridable(overridable(), runtime.KeyOf(runtime.String("a")))
		_, err := limit.AllowN(t.Context(), 10)
		require.NoError(t, err)
		var all sync.WaitGroup
		begin := time.Now()
		waited := func(wait func() error) {
			all.Go(func() {
				require.NoError(t, wait())
				require.Equal(t, time.Minute, time.Since(begin))
			})
		}
		waited(func() error { return limit.Wait(t.Context()) })
		waited(func() error { return limiter.Group(limit).Wait(t.Context()) })
		time.Sleep(time.Minute)
		_, err = limit.Override(t.Context(), runtime.Override{Capacity: 100, Until: time.Now().Add(time.Hour), Reason: "r", Author: "a"})
		require.NoError(t, err)
		all.Wait()

		// A waiter also sees the end of an override: here of one with a lower rate.
		_, err = limit.Override(t.Context(), runtime.Override{Rate: 1, Capacity: 1, Until: time.Now().Add(time.Minute), Reason: "r", Author: "a"})
		require.NoError(t, err)
		require.NoError(t, limit.Reset(t.Context()))
		_, err = limit.Allow(t.Context())
		require.NoError(t, err)
		begin = time.Now()
		require.NoError(t, limit.Wait(t.Context()))
		require.Equal(t, time.Minute, time.Since(begin))
	})
}

func TestSweepKeepsRowsThatAreNotFullByTheirOverride(t *testing.T) {
	o := newOverriding(t, overridable())
	o.override(o.key("slow"), runtime.Override{Rate: 1, Capacity: 10, Until: runtime.ForGood})
	for _, key := range []string{"slow", "usual"} {
		_, err := o.key(key).AllowN(t.Context(), 10)
		require.NoError(t, err)
	}
	o.now = o.now.Add(3 * time.Hour)
	deleted, err := o.store.Sweep(t.Context(), o.policy)
	require.NoError(t, err)
	require.Equal(t, 1, deleted)
	left, _ := o.left("slow")
	require.Equal(t, int64(3), left)
	_, err = o.store.Forget(t.Context(), "calls")
	require.NoError(t, err)
	history, err := o.key("slow").Overrides(t.Context())
	require.NoError(t, err)
	require.Len(t, history, 1, "the log outlives the limit")
}

// Decisions run while overrides change: with -race this finds unsynchronized access. Each decision is by one of the
// policies that were in force.
func TestDecisionsWhileOverridesChange(t *testing.T) {
	store := &runtime.MemStore{}
	p := overridable()
	limit := runtime.NewLimiter(store).Overridable(p, runtime.KeyOf(runtime.String("a")))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 500 {
				d, err := limit.AllowN(t.Context(), 0)
				require.NoError(t, err)
				_, overridden := d.Override()
				require.Contains(t, map[bool][]int64{false: {10}, true: {10, 20, 30, 40}}[overridden], d.Policy.Capacity)
			}
		})
	}
	for i := range 100 {
		v := runtime.Override{Capacity: int64(i%3)*10 + 20, Until: runtime.ForGood, Reason: "r", Author: "a"}
		_, err := limit.Override(t.Context(), v)
		require.NoError(t, err)
		if i%5 == 0 {
			_, err := limit.EndOverride(t.Context(), ending)
			require.NoError(t, err)
		}
	}
	all.Wait()
}

func TestLimitWithoutOverridesCostsNothing(t *testing.T) {
	s := newLogStore(&runtime.MemStore{}, nil)
	p := bucket("plain", 1000)
	limit := runtime.NewLimiter(s).Limit(p, runtime.Key{})
	for range 10 {
		_, err := limit.Allow(t.Context())
		require.NoError(t, err)
	}
	require.Zero(t, s.reads)
	plain := testing.AllocsPerRun(100, func() { limit.Allow(t.Context()) })
	q := overridable()
	with := runtime.NewLimiter(&runtime.MemStore{}).Limit(q, runtime.KeyOf(runtime.String("a")))
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { with.Allow(t.Context()) }), plain, "a look-up needs no memory")
}
