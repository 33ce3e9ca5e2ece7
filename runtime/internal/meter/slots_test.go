package meter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
)

// slotLimit returns a limit of some slots.
func slotLimit(capacity int64, hold time.Duration) *runtime.Policy {
	return &runtime.Policy{Name: "slots", Kind: runtime.InFlight, Slots: capacity, Hold: hold}
}

// Slots are held until they are released, or for the hold after they were acquired or renewed.
func TestSlotSteps(t *testing.T) {
	const s = int64(time.Second)
	free := func(left, full int64) runtime.Decision {
		return runtime.Decision{Allowed: true, Remaining: left, Value: float64(left), FullAfter: time.Duration(full)}
	}
	acquired := func(left, full, fence, n int64) runtime.Decision {
		d := free(left, full)
		d.Fence, d.Taken = fence, n
		return d
	}
	denied := func(left, retry, full int64) runtime.Decision {
		return runtime.Decision{Remaining: left, Value: float64(left), RetryAfter: time.Duration(retry), FullAfter: time.Duration(full)}
	}
	acquire := func(n int64) runtime.Request { return runtime.Request{Op: runtime.Take, Count: n} }
	check := func(n int64) runtime.Request { return runtime.Request{Op: runtime.Check, Count: n} }
	renew := func(fence int64) runtime.Request { return runtime.Request{Op: runtime.Renew, Fence: fence} }
	release := func(fence int64) runtime.Request { return runtime.Request{Op: runtime.Release, Fence: fence} }
	undo := func(fence, n int64) runtime.Request {
		return runtime.Request{Op: runtime.Refund, Fence: fence, Count: n, TakenAt: 1}
	}
	rule := meter.RuleOf(slotLimit(3, time.Minute), "")
	var state runtime.State
	for i, step := range []struct {
		at   int64
		q    runtime.Request
		want runtime.Decision
		err  error
	}{
		{1 * s, runtime.Request{Op: runtime.Peek}, free(3, 0), nil},
		// A fence is the instant in nanoseconds.
		{1 * s, acquire(1), acquired(2, 60*s, 1*s, 1), nil},
		{2 * s, acquire(2), acquired(0, 60*s, 2*s, 2), nil},
		// It passes when enough holds have ended at the latest.
		{11 * s, acquire(1), denied(0, 50*s, 51*s), nil},
		{11 * s, acquire(2), denied(0, 51*s, 51*s), nil},
		{11 * s, check(1), denied(0, 50*s, 51*s), nil},
		{11 * s, runtime.Request{Op: runtime.Peek}, free(0, 51*s), nil},
		// The first holder stays longer than the second one.
		{21 * s, renew(1 * s), runtime.Decision{Allowed: true, FullAfter: 60 * time.Second, Fence: 1 * s}, nil},
		{21 * s, acquire(1), denied(0, 41*s, 60*s), nil},
		// At the end of its hold a slot is lost, and no other one is freed or renewed.
		{62*s - 1, acquire(1), denied(0, 1, 19*s+1), nil},
		{62 * s, release(2 * s), runtime.Decision{}, runtime.ErrSlotLost},
		{62 * s, renew(2 * s), runtime.Decision{}, runtime.ErrSlotLost},
		{62 * s, acquire(1), acquired(1, 60*s, 62*s, 1), nil},
		{63 * s, release(2 * s), runtime.Decision{}, runtime.ErrSlotLost},
		{63 * s, release(0), runtime.Decision{}, runtime.ErrSlotLost},
		{63 * s, release(1 * s), free(2, 59*s), nil},
		{63 * s, release(1 * s), runtime.Decision{}, runtime.ErrSlotLost},
		// An undone acquisition may be a part of the slots; of a lost holder it changes nothing.
		{63 * s, acquire(2), acquired(0, 60*s, 63*s, 2), nil},
		{63 * s, undo(63*s, 1), free(1, 60*s), nil},
		{63 * s, undo(63*s, 7), free(2, 59*s), nil},
		{63 * s, undo(63*s, 1), free(2, 59*s), nil},
		// The clock goes back: a fence grows nonetheless, and holds last longer.
		{40 * s, acquire(1), acquired(1, 82*s, 63*s+1, 1), nil},
		{99 * s, runtime.Request{Op: runtime.Peek}, free(1, 23*s), nil},
		{100 * s, runtime.Request{Op: runtime.Peek}, free(2, 22*s), nil},
		// A reset frees all, and a fence grows after it.
		{50 * s, runtime.Request{Op: runtime.Reset}, free(3, 0), nil},
		{50 * s, release(62 * s), runtime.Decision{}, runtime.ErrSlotLost},
		{50 * s, acquire(3), acquired(0, 60*s, 63*s+2, 3), nil},
		{50 * s, release(63*s + 2), free(3, 0), nil},
		// The fence may be larger than need be. A late answer of another, who would have got the next one, frees nothing of it.
		{50 * s, runtime.Request{Op: runtime.Take, Count: 1, Fence: 900}, acquired(2, 60*s, 63*s+903, 1), nil},
		{50 * s, runtime.Request{Op: runtime.Release, Fence: 63*s + 3, TakenAt: 1}, free(2, 60*s), nil},
		{50 * s, acquire(2), acquired(0, 60*s, 63*s+904, 2), nil},
		{50 * s, acquire(0), runtime.Decision{Allowed: true, FullAfter: 60 * time.Second}, nil},
	} {
		before := state
		after, d, err := rule.Step(state, step.at, step.q)
		require.ErrorIs(t, err, step.err, "step %d", i)
		// What a rule keeps of a row that it has read makes no difference.
		fresh := meter.RuleOf(slotLimit(3, time.Minute), "")
		alone, same, _ := fresh.Step(state, step.at, step.q)
		require.Equal(t, after, alone, "step %d", i)
		require.Equal(t, d, same, "step %d", i)
		if d.Fence != 0 {
			require.Equal(t, time.Unix(0, step.at).UTC(), d.TakenAt.UTC(), "step %d", i)
		}
		d.TakenAt = time.Time{}
		require.Equal(t, step.want, d, "step %d", i)
		if err != nil || !d.Allowed || step.q.Op == runtime.Check || step.q.Op == runtime.Peek {
			require.Equal(t, before, after, "step %d changes nothing", i)
		}
		if after != before {
			require.NotEqual(t, before.Prev, after.Prev, "step %d: a store need not compare logs", i)
			require.LessOrEqual(t, after.Prev, -2.0, "step %d", i)
		}
		state = after
	}
}

func TestSlotsRefuseWhatTokensHave(t *testing.T) {
	rule := meter.RuleOf(slotLimit(3, time.Minute), "")
	for _, row := range []struct {
		q   runtime.Request
		err error
	}{
		{runtime.Request{Op: runtime.TakeUpTo, Count: 1}, runtime.ErrInvalidCall},
		{runtime.Request{Op: runtime.Charge, Count: 1}, runtime.ErrInvalidCall},
		{runtime.Request{Op: runtime.Take, Count: 1, Reserve: true}, runtime.ErrInvalidCall},
		{runtime.Request{Op: runtime.Refund, Count: 1}, runtime.ErrInvalidCall},
		{runtime.Request{Op: runtime.Take, Count: 1, Fence: runtime.MaxFenceStep + 1}, runtime.ErrInvalidCall},
		{runtime.Request{Op: runtime.Take, Count: 1, Fence: -1}, runtime.ErrInvalidCall},
		{runtime.Request{Op: runtime.Take, Count: 4}, runtime.ErrExceedsCapacity},
		{runtime.Request{Op: runtime.Take, Count: -1}, runtime.ErrInvalidCount},
	} {
		_, d, err := rule.Step(runtime.State{}, 1, row.q)
		require.ErrorIs(t, err, row.err, "%+v", row.q)
		require.False(t, d.Allowed)
	}
}

// A lowered capacity lets those that run finish, and a change of the hold changes only later ends.
func TestSlotsAfterAnEdit(t *testing.T) {
	const s = int64(time.Second)
	old, edited := meter.RuleOf(slotLimit(5, time.Minute), ""), meter.RuleOf(slotLimit(2, 10*time.Second), "")
	state, _ := must2(old.Step(runtime.State{}, s, take(3)))
	_, d := must2(edited.Step(state, 2*s, take(1)))
	require.False(t, d.Allowed)
	require.Equal(t, -1.0, d.Value)
	require.Equal(t, 59*time.Second, d.RetryAfter)
	state, d = must2(edited.Step(state, 2*s, runtime.Request{Op: runtime.Renew, Fence: s}))
	require.Equal(t, 10*time.Second, d.FullAfter)
	state, _ = must2(edited.Step(state, 3*s, runtime.Request{Op: runtime.Release, Fence: s}))
	_, d = must2(edited.Step(state, 3*s, take(2)))
	require.True(t, d.Allowed)
}

// When the kind of a limit is edited, tokens are not slots, and slots are tokens that were used.
func TestRowsOfOtherKindsHaveNoHolders(t *testing.T) {
	const now = int64(time.Hour)
	slots := meter.RuleOf(slotLimit(5, time.Minute), "")
	for _, kind := range runtimetest.TokenKinds() {
		for _, precise := range []bool{false, kind == runtime.SlidingWindow} {
			p := runtime.Policy{Name: "slots", Kind: kind, Rate: 5, Period: time.Minute, Capacity: 5, Precise: precise}
			of := meter.RuleOf(&p, "")
			state, _ := must2(of.Step(runtime.State{}, now, take(5)))
			state, d := must2(slots.Step(state, now, take(2)))
			require.True(t, d.Allowed, kind)
			require.Equal(t, int64(3), d.Remaining, kind)
			_, d = must2(of.Step(state, now, take(4)))
			require.False(t, d.Allowed, kind)
		}
	}
}

// Whatever a log contains, a row has at least the slots in use that its numbers have, and the next fence is larger than
// those before.
func FuzzSlots(f *testing.F) {
	rule := meter.RuleOf(slotLimit(10, time.Minute), "")
	state := runtime.State{}
	for range 4 {
		state, _, _ = rule.Step(state, int64(time.Hour), take(2))
		f.Add(state.Log, state.Value, state.TS, state.Prev)
	}
	f.Add("", -3.0, int64(5), -2.0)
	f.Add("h", -3.0, int64(5), -2.0)
	f.Add("r", -3.0, int64(5), -2.0)
	f.Fuzz(func(t *testing.T, log string, value float64, ts int64, prev float64) {
		s := runtime.State{Value: value, TS: ts, Prev: prev, Log: log, Exists: true}
		now := int64(time.Hour)
		after, d := must2(rule.Step(s, now, take(1)))
		if !d.Allowed {
			require.Equal(t, s, after)
			return
		}
		require.Positive(t, d.Fence)
		_, again := must2(rule.Step(after, now, take(1)))
		if again.Allowed {
			require.Greater(t, again.Fence, d.Fence)
		}
		// What state writes, decode reads.
		_, peek := must2(rule.Step(after, now, runtime.Request{Op: runtime.Peek}))
		require.Equal(t, d.Value, peek.Value)
		must2(rule.Step(after, now, runtime.Request{Op: runtime.Release, Fence: d.Fence}))
	})
}

// A log that cannot be read counts its slots as held for as long as they can be.
func TestDamagedSlotsAreHeldUntilTheHoldEnds(t *testing.T) {
	const s = int64(time.Second)
	rule := meter.RuleOf(slotLimit(5, time.Minute), "")
	state, first := must2(rule.Step(runtime.State{}, s, take(4)))
	for cut := range len(state.Log) {
		damaged := state
		damaged.Log = state.Log[:cut]
		_, d := must2(rule.Step(damaged, 2*s, take(2)))
		require.False(t, d.Allowed, "%d bytes", cut)
		require.Equal(t, 59*time.Second, d.RetryAfter)
		_, d = must2(rule.Step(damaged, s, take(1)))
		require.Greater(t, d.Fence, first.Fence)
		_, _, err := rule.Step(damaged, 2*s, runtime.Request{Op: runtime.Release, Fence: first.Fence})
		require.ErrorIs(t, err, runtime.ErrSlotLost)
	}
}

// BenchmarkSlots acquires and releases the last of some slots.
func BenchmarkSlots(b *testing.B) {
	for _, held := range []int64{0, 4, 99, 999} {
		b.Run(fmt.Sprint(held, " held"), func(b *testing.B) {
			rule, state, now := meter.RuleOf(slotLimit(held+1, time.Hour), ""), runtime.State{}, epoch.UnixNano()
			for range held {
				state, _, _ = rule.Step(state, now, take(1))
			}
			b.ReportAllocs()
			for b.Loop() {
				now += 1000
				after, d, err := rule.Step(state, now, take(1))
				if err != nil || !d.Allowed {
					b.Fatal(d, err)
				}
				state, _, err = rule.Step(after, now, runtime.Request{Op: runtime.Release, Fence: d.Fence})
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(state.Log)), "bytes")
		})
	}
}

// A penalty in the row of a key hides no holder.
func TestHoldersOfAKeyWithAPenalty(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Kind: runtime.InFlight, Slots: 2, Hold: time.Minute, Penalty: runtime.PenaltyOf(0, time.Second)}
	r, now := meter.RuleOf(p, "k"), epoch.UnixNano()
	s, d := must2(r.Step(runtime.State{}, now, take(2)))
	s, denied := must2(r.Step(s, now, take(1)))
	require.Equal(t, time.Second, denied.PenaltyFor)
	rows := []runtime.StoredRow{{Row: runtime.Row{Name: "limit", Key: "k"}, State: s}}
	require.Equal(t, []meter.Holder{{Fence: d.Fence, Slots: 2, Ends: time.Minute}}, meter.Holders(p, rows, now))
}
