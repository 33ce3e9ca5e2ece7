package runtime

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPriorityOfAPolicy(t *testing.T) {
	p := &Policy{Name: "calls", Kind: TokenBucket, Rate: 10, Period: time.Minute, Capacity: 25}
	classes := Priorities{{}, {Name: "interactive"}, {Name: "batch", Leaves: 30}}
	batch, key := classes.Of(2).For(p, KeyOf(Int64(7)))
	require.NoError(t, key.Err())
	require.NoError(t, batch.Validate())
	assert.Equal(t, "batch", batch.Priority.Name)
	assert.Equal(t, int64(25-8), batch.Full(), "7.5 are rounded up")
	again, _ := classes.Of(2).For(p, KeyOf(Int64(8)))
	assert.Same(t, batch, again)
	interactive, _ := classes.Of(1).For(p, key)
	assert.Equal(t, int64(25), interactive.Full())
	for _, number := range []int{0, -1, 3} {
		same, key := classes.Of(number).For(p, KeyOf(Int64(7)))
		assert.Same(t, p, same)
		assert.ErrorIs(t, key.Err(), ErrInvalidPriority)
	}
	_, key = classes.Of(2).For(PlanPolicies{{}, *p}.For(0, KeyOf(Int64(7))))
	assert.ErrorIs(t, key.Err(), ErrInvalidPlan, "the first error")
}

// With numbers of a caller, an operator or an exception that are too small for a class, its counts never fit. They are
// counted if they are charged, as those of any class.
func TestPriorityWithoutTokens(t *testing.T) {
	p := Policy{Name: "calls", Kind: TokenBucket, Rate: 10, Period: time.Minute, Capacity: 10, Shards: 2, MaxReserved: 5,
		Overrides: OverrideBounds{Rate: 10, Capacity: 10, MaxReserved: 5}}
	class := Priority{"batch", 30}
	batch, _ := class.For(&p, Key{})
	overridden, err := (&OverrideEntry{ID: 1, What: OverrideNumbers, Rate: 2, Capacity: 2, Until: ForGood()}).Apply(batch, nil)
	require.NoError(t, err)
	excepted, _ := class.For(p.Except([]Exception{{Key: "7", Numbers: Numbers{Rate: 2, Capacity: 2}}}).For(&p, Key{text: "7"}))
	numbers := p
	numbers.Overrides, numbers.AtMost = OverrideBounds{}, Numbers{Rate: 10, Capacity: 10}
	given, _ := class.For(Numbers{Rate: 2, Capacity: 2}.For(&numbers, Key{}))
	for _, of := range []*Policy{overridden, excepted, given} {
		require.NoError(t, of.Validate())
		assert.Equal(t, int64(1), of.Full())
		assert.False(t, of.Inside().Zero())
	}
	alone := Policy{Name: "calls", Kind: TokenBucket, Rate: 1, Period: time.Minute, Capacity: 1, Priority: class}
	assert.ErrorContains(t, alone.Validate(), "0 tokens over 1 shards", "in the file")
}

func TestPrioritiesOfOtherLimits(t *testing.T) {
	for problem, change := range map[string]func(p *Policy){
		"slots have no priorities":                   func(p *Policy) { *p = Policy{Name: "limit", Kind: InFlight, Slots: 10, Hold: time.Minute} },
		"a precise sliding window has no":            func(p *Policy) { p.Kind, p.Capacity, p.Precise = SlidingWindow, p.Rate, true },
		"a limit with priorities cannot be leased":   func(p *Policy) { p.Lease = Lease{Tokens: 5, For: time.Second} },
		"cannot have a penalty":                      func(p *Policy) { p.Penalty = PenaltyOf(0, time.Minute) },
		"17 tokens over 20 shards":                   func(p *Policy) { p.Shards, p.Rate = 20, 20 },
		"leaves 100%, which is not between 0 and 99": func(p *Policy) { p.Priority.Leaves = 100 },
	} {
		p := Policy{Name: "limit", Kind: TokenBucket, Rate: 10, Period: time.Minute, Capacity: 25}
		change(&p)
		if p.Priority.Leaves == 0 {
			p.Priority = Priority{Name: "batch", Leaves: 30}
		}
		assert.ErrorContains(t, p.Validate(), problem)
	}
}

// An operator's override, another plan and the numbers of a caller are those of all classes.
func TestPriorityWithOtherNumbers(t *testing.T) {
	bounds := OverrideBounds{Rate: 1000, Capacity: 1000}
	plans := PlanPolicies{{}, {Name: "calls", Kind: TokenBucket, Rate: 10, Period: time.Minute, Capacity: 10, Overrides: bounds},
		{Name: "calls", Kind: TokenBucket, Rate: 100, Period: time.Minute, Capacity: 100, Overrides: bounds}}.Overridable(PlanNames{"", "free", "pro"})
	class := Priority{"batch", 30}
	batch, _ := class.For(plans.For(1, Key{}))
	for _, test := range []struct {
		entry OverrideEntry
		full  int64
	}{
		{OverrideEntry{ID: 1, What: OverrideNumbers, Rate: 20, Capacity: 20, Until: ForGood()}, 14},
		{OverrideEntry{ID: 1, What: OverridePlan, Plan: "pro", Until: ForGood()}, 70},
	} {
		p, err := test.entry.Apply(batch, nil)
		require.NoError(t, err)
		assert.Equal(t, class, p.Priority)
		assert.Equal(t, test.full, p.Full())
	}
	exceptions := plans.Except([]Exception{{Key: KeyOf(Int64(7)).String(), Numbers: Numbers{Rate: 50, Capacity: 50}, Reason: "migration"}})
	excepted, _ := class.For(exceptions.For(plans.For(1, KeyOf(Int64(7)))))
	assert.Equal(t, int64(35), excepted.Full())
	given := Policy{Name: "calls", Kind: TokenBucket, Rate: 100, Period: time.Minute, Capacity: 100, AtMost: Numbers{Rate: 100, Capacity: 100}}
	contract, _ := class.For(Numbers{Rate: 10, Capacity: 10}.For(&given, Key{}))
	assert.Equal(t, int64(7), contract.Full())
}

// The policy of a class is equal to one that was made again, because the table of recent ones has forgotten it: a call may
// have both.
func TestPriorityMadeAgainIsEqual(t *testing.T) {
	plans := PlanPolicies{{}, {Name: "calls", Kind: TokenBucket, Rate: 10, Period: time.Minute, Capacity: 10},
		{Name: "calls", Kind: TokenBucket, Rate: 100, Period: time.Minute, Capacity: 100}}.Overridable(PlanNames{"", "free", "pro"})
	excepted, _ := plans.Except([]Exception{{Key: "7", Plan: 2}}).For(plans.For(1, Key{text: "7"}))
	for _, p := range []*Policy{&plans[1], excepted} {
		one, again := classOf{p, Priority{"batch", 30}}.made(), classOf{p, Priority{"batch", 30}}.made()
		if p.excepted != nil {
			other := *again.excepted
			again.excepted = &other
		}
		other := classOf{p, Priority{"batch", 40}}.made()
		assert.True(t, one.equal(&again))
		assert.False(t, one.equal(&other))
	}
}
