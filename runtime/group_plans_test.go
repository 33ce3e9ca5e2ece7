package runtime_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// ofMode returns one key of a limit of 3 tokens, of which 3 more can be reserved.
func ofMode(limits *limiter.Limiter, name string, mode runtime.Mode, o runtime.OnError) limiter.ReservableLimit {
	p := bucket(name, 3)
	p.MaxReserved, p.Mode, p.OnError = 3, mode, o
	if mode == runtime.ModeUnlimited {
		p = &runtime.Policy{Name: name, Kind: runtime.TokenBucket, Mode: mode}
	}
	return limits.Reservable(p, runtime.Key{})
}

func TestModesOfTheLimitsOfAGroup(t *testing.T) {
	for _, row := range []struct {
		name    string
		mode    runtime.Mode
		n       int64 // of the limit with the mode
		allowed bool
		left    float64 // of the enforced limit, from which 2 are taken
		delay   time.Duration
	}{
		{"unlimited passes", runtime.ModeUnlimited, 1e9, true, 1, 0},
		{"off passes", runtime.ModeOff, 1e9, true, 1, 0},
		{"shadow passes with too many", runtime.ModeShadow, 1e9, true, 1, 0},
		{"shadow passes without a delay", runtime.ModeShadow, 5, true, 1, 0},
		{"enforce delays all", runtime.ModeEnforce, 5, true, 1, 2 * time.Second},
		{"block denies all", runtime.ModeBlock, 1, false, 3, runtime.Never},
		{"no tokens of a blocked limit", runtime.ModeBlock, 0, true, 1, 0},
		{"no tokens of an unlimited one", runtime.ModeUnlimited, 0, true, 1, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			limits := limiter.New(still())
			enforced, other := ofMode(limits, "enforced", runtime.ModeEnforce, runtime.FailClosed), ofMode(limits, "other", row.mode, runtime.FailClosed)
			rs, err := limits.ReserveAll(t.Context(), enforced.N(2), other.N(row.n))
			require.NoError(t, err)
			require.Equal(t, row.allowed, rs.Allowed)
			require.Equal(t, row.delay, rs.Delay())
			require.Equal(t, row.left, value(t, enforced))
			if !row.allowed {
				require.Equal(t, []string{"other"}, rs.DeniedBy())
				require.ErrorIs(t, rs.At(0).Settle(t.Context(), 1), runtime.ErrNotReserved)
				require.ErrorIs(t, rs.At(1).Cancel(t.Context()), runtime.ErrNotReserved)
				return
			}
			require.NoError(t, rs.Cancel(t.Context()))
			require.Equal(t, 3.0, value(t, enforced))
			require.ErrorIs(t, rs.Cancel(t.Context()), runtime.ErrNotReserved)
		})
	}
}

// An unlimited limit holds no tokens, whatever was reserved and used. Its rows, from another plan, stay as they are.
func TestUnlimitedReservationSettlesNothing(t *testing.T) {
	store := still()
	limits := limiter.New(store)
	enforced, before, none := ofMode(limits, "enforced", runtime.ModeEnforce, 0), ofMode(limits, "calls", runtime.ModeEnforce, 0), ofMode(limits, "calls", runtime.ModeUnlimited, 0)
	require.NoError(t, before.RequireN(t.Context(), 2))
	for _, used := range []int64{0, 5, 90, 1e9} {
		rs, err := limits.ReserveAll(t.Context(), enforced, none.N(50))
		require.NoError(t, err)
		require.True(t, rs.Allowed)
		require.Zero(t, rs.At(1).Delay())
		require.NoError(t, rs.At(1).Settle(t.Context(), used))
		require.ErrorIs(t, rs.At(1).Settle(t.Context(), used), runtime.ErrNotReserved)
		require.NoError(t, rs.Cancel(t.Context()), "the other limit is still open")
		require.Equal(t, [2]float64{3, 1}, [2]float64{value(t, enforced), value(t, before)})
	}
	rs, err := limits.ReserveAll(t.Context(), none)
	require.NoError(t, err)
	require.NoError(t, rs.Cancel(t.Context()))
	require.Equal(t, 1, store.Len()-1, "the rows of enforced and of the other plan")
}

// Without tokens, a group passes whatever its limits have left, but not its checks or a blocked limit.
func TestGroupsWithoutTokens(t *testing.T) {
	limits, tokens, calls, suspended := team(still())
	_, err := tokens.Charge(t.Context(), 20)
	require.NoError(t, err)
	ds, err := limits.Group(tokens.N(0), calls).Allow(t.Context())
	require.NoError(t, err)
	require.True(t, ds.Allowed, "%v", ds)
	require.Equal(t, []int64{0, 1}, []int64{ds.Each[0].Taken, ds.Each[1].Taken})
	ds, err = limits.Group(tokens.N(0), calls).Check(t.Context())
	require.NoError(t, err)
	require.True(t, ds.Allowed)
	rs, err := limits.ReserveAll(t.Context(), tokens.N(0), calls.N(0))
	require.NoError(t, err)
	require.Zero(t, rs.Delay())
	require.NoError(t, rs.At(0).Settle(t.Context(), 1), "what was used beyond nothing is charged")
	require.Equal(t, -11.0, value(t, tokens))
	require.NoError(t, rs.Cancel(t.Context()))
	_, err = limits.Group(tokens.N(-1), calls).Allow(t.Context())
	require.ErrorIs(t, err, runtime.ErrInvalidCount)
	require.NoError(t, suspended.Require(t.Context()))
	ds, err = limits.Group(tokens.N(0), suspended.Checked()).Allow(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"suspended"}, ds.DeniedBy())
}

// A blocked limit of a group denies without the store too, and takes nothing from the memory of the process.
func TestGroupsWithModesWhileTheStoreFails(t *testing.T) {
	failing(t, func(t *testing.T, limits *limiter.Limiter, store *faulty) {
		local, open := ofMode(limits, "local", runtime.ModeEnforce, runtime.FailLocal), ofMode(limits, "open", runtime.ModeEnforce, runtime.FailOpen)
		blocked, none := ofMode(limits, "blocked", runtime.ModeBlock, runtime.FailClosed), ofMode(limits, "none", runtime.ModeUnlimited, runtime.FailClosed)
		for range 3 {
			for _, g := range []limiter.Group{limits.Group(local.N(3), blocked), limits.Group(open.N(2), blocked), limits.Group(none, open, local, blocked)} {
				ds, err := g.Allow(t.Context())
				require.NoError(t, err)
				require.Equal(t, []string{"blocked"}, ds.DeniedBy())
				require.Equal(t, runtime.Never, ds.RetryAfter)
				for _, d := range ds.Each {
					require.Zero(t, d.Taken)
				}
			}
		}
		ds, err := limits.Group(local.N(3), none.N(1e9), open).Allow(t.Context())
		require.NoError(t, err)
		require.True(t, ds.Allowed, "the denials have taken nothing: %v", ds)
		require.Equal(t, []int64{3, 1e9, 1}, []int64{ds.Each[0].Taken, ds.Each[1].Taken, ds.Each[2].Taken})
		require.ErrorIs(t, ds.Each[0].FailedLocal, errDown)
		require.NoError(t, ds.Each[1].FailedLocal, "an unlimited limit needs no store")
		ds, err = limits.Group(none, local).Allow(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"local"}, ds.DeniedBy())
	})
}

// The memory of the process has one count of a key, whatever its plan.
func TestFailLocalAcrossPlans(t *testing.T) {
	failing(t, func(t *testing.T, limits *limiter.Limiter, store *faulty) {
		policies := runtime.PlanPolicies{free: *bucket("calls", 3), pro: *bucket("calls", 10), enterprise: {Name: "calls", Kind: runtime.TokenBucket, Mode: runtime.ModeUnlimited}}
		policies[free].OnError, policies[pro].OnError = runtime.FailLocal, runtime.FailLocal
		of := func(plan int) limiter.Limit { return limits.Limit(policies.For(plan, runtime.Key{})) }
		for _, step := range []struct {
			plan     int
			n, taken int64
		}{{free, 5, 3}, {free, 1, 0}, {enterprise, 1e9, 1e9}, {pro, 20, 7}, {pro, 1, 0}, {free, 1, 0}} {
			d, err := of(step.plan).AllowUpTo(t.Context(), step.n)
			require.NoError(t, err)
			require.Equal(t, step.taken, d.Taken, "%+v", step)
		}
		_, err := of(free).Charge(t.Context(), 1)
		require.ErrorIs(t, err, errDown)
		_, err = of(enterprise).Charge(t.Context(), 1)
		require.NoError(t, err)
	})
}

func TestGroupWaitFailsAtOnceIfALimitIsBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := limiter.New(&memstore.Store{})
		enforced, blocked := ofMode(limits, "enforced", runtime.ModeEnforce, 0), ofMode(limits, "blocked", runtime.ModeBlock, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for _, ctx := range []context.Context{t.Context(), ctx} {
			require.Zero(t, elapsed(func() {
				err := limits.Group(enforced, blocked).Wait(ctx)
				var limited *runtime.LimitedError
				require.ErrorAs(t, err, &limited)
				require.Equal(t, "blocked", limited.Limit)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
			}))
		}
		require.Equal(t, 3.0, value(t, enforced))
	})
}

func TestGroupWaitSleepsForTheJitterIfTheDeadlineAllowsIt(t *testing.T) {
	for _, reserves := range []int64{0, 10} {
		for deadline, want := range map[time.Duration]time.Duration{0: 0, time.Hour: 0, 31 * time.Second: 30 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				p := jittery(runtime.TokenBucket, 1)
				p.MaxReserved = reserves
				limits := limiter.New(&memstore.Store{})
				l := limits.Reservable(p, runtime.KeyOf(runtime.Int(1)))
				g := limits.Group(l.N(5), limits.Limit(bucket("other", 5), runtime.Key{}))
				require.NoError(t, l.WaitN(t.Context(), 10))
				expected, err := l.CheckN(t.Context(), 5)
				require.NoError(t, err)
				if want == 0 {
					want = expected.RetryIn()
				}
				ctx := t.Context()
				if deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, deadline)
					defer cancel()
				}
				require.Equal(t, want, elapsed(func() { require.NoError(t, g.Wait(ctx), "deadline %v", deadline) }), "deadline %v", deadline)
			})
		}
	}
}
