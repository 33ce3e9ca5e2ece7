package meter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// ban is a row of a table of penalties: at this time after the epoch, this request is answered so.
type ban struct {
	at   time.Duration
	q    runtime.Request
	want string
}

// play executes the rows of a table, and returns the last state.
func play(t *testing.T, p runtime.Policy, rows []ban) (s runtime.State) {
	t.Helper()
	require.NoError(t, p.Validate())
	rule := meter.RuleOf(&p, "")
	for i, row := range rows {
		before := s
		next, d := must2(rule.Step(s, epoch.Add(row.at).UnixNano(), row.q))
		got := "yes"
		if !d.Allowed {
			got = fmt.Sprintf("no, retry after %v", d.RetryAfter)
		}
		if d.PenaltyFor > 0 {
			got += fmt.Sprintf(", penalty for %v", d.PenaltyFor)
			require.Zero(t, d.Remaining)
		}
		require.Equal(t, row.want, got, "row %d, after %v", i, row.at)
		if d.PenaltyFor > 0 && row.q.Decides() && before.Log != "" && !d.Allowed {
			// One that was in force before is only read.
			if _, earlier, _ := rule.Step(before, epoch.Add(row.at).UnixNano(), peek()); earlier.PenaltyFor > 0 {
				require.Equal(t, before, next, "row %d", i)
			}
		}
		s = next
	}
	return s
}

// The default jail of fail2ban, with bantime.increment: a host with 5 failures (maxretry) in 10 minutes (findtime) is
// banned, by bantime.multipliers for 1, 2, 4, 8, 16, 32 and 64 times 10 minutes (bantime), then always the last. Bans
// are remembered for a day (dbpurgeage).
// https://github.com/fail2ban/fail2ban/blob/0121e09907c5eea262f96dfd5886515a3a18d29e/config/jail.conf
func TestPenaltyOfFail2ban(t *testing.T) {
	const m = time.Minute
	p := runtime.Policy{Name: "failures", Kind: runtime.SlidingWindow, Precise: true, Rate: 4, Capacity: 4, Period: 10 * m,
		Penalty: runtime.PenaltyOf(24*time.Hour, 10*m, 20*m, 40*m, 80*m, 160*m, 320*m, 640*m)}
	rows := []ban{
		// Each failure takes a token. The fifth within 10 minutes finds none.
		{0 * m, take(1), "yes"},
		{1 * m, take(1), "yes"},
		{2 * m, take(1), "yes"},
		{3 * m, take(1), "yes"},
		{4 * m, take(1), "no, retry after 10m0s, penalty for 10m0s"},
		// It does not grow during the ban.
		{5 * m, take(1), "no, retry after 9m0s, penalty for 9m0s"},
		{14*m - 1, take(4), "no, retry after 1ns, penalty for 1ns"},
		// The failures are more than 10 minutes ago: the host has 5 again.
		{14 * m, take(4), "yes"},
		{15 * m, take(1), "no, retry after 20m0s, penalty for 20m0s"},
		{35 * m, take(4), "yes"},
		{35 * m, take(1), "no, retry after 40m0s, penalty for 40m0s"},
	}
	at := 75 * m
	for _, bantime := range []time.Duration{80 * m, 160 * m, 320 * m, 640 * m, 640 * m} {
		rows = append(rows, ban{at, take(4), "yes"}, ban{at, take(1), fmt.Sprintf("no, retry after %v, penalty for %v", bantime, bantime)})
		at += bantime
	}
	rows = append(rows,
		// A day after the end of the last ban, it is forgotten.
		ban{at + 24*time.Hour - 1, take(4), "yes"},
		ban{at + 24*time.Hour, take(1), "no, retry after 10m0s, penalty for 10m0s"},
	)
	play(t, p, rows)
}

// NIST SP 800-63B, 5.2.2: after a failed attempt the claimant waits for a time that increases, such as from 30 seconds
// up to an hour; an account has at most 100 consecutive failures, and a successful login forgets them.
// https://pages.nist.gov/800-63-3/sp800-63b.html#throttle
func TestPenaltyOfNIST(t *testing.T) {
	const s, h = time.Second, time.Hour
	// Each failure but the first finds no token, and starts the next wait.
	delays := runtime.Policy{Name: "delays", Kind: runtime.FixedWindow, Rate: 1, Capacity: 1, Period: runtime.MaxPeriod, Start: runtime.StartFirstUse(),
		Penalty: runtime.PenaltyOf(runtime.MaxPeriod, 30*s, time.Minute, 5*time.Minute, 30*time.Minute, h)}
	play(t, delays, []ban{
		{0, take(1), "yes"}, // the first failure
		{60 * s, take(1), "no, retry after 87599h59m0s, penalty for 30s"},
		{80 * s, take(1), "no, retry after 87599h58m40s, penalty for 10s"},
		{90 * s, take(1), "no, retry after 87599h58m30s, penalty for 1m0s"},
		{150 * s, take(1), "no, retry after 87599h57m30s, penalty for 5m0s"},
		{450 * s, take(1), "no, retry after 87599h52m30s, penalty for 30m0s"},
		{2250 * s, take(1), "no, retry after 87599h22m30s, penalty for 1h0m0s"},
		{5850 * s, take(1), "no, retry after 87598h22m30s, penalty for 1h0m0s"},
		// A successful login disregards the failures.
		{5851 * s, reset(), "yes"},
		{5860 * s, take(1), "yes"},
		{5861 * s, take(1), "no, retry after 87599h59m59s, penalty for 30s"},
	})
	most := runtime.Policy{Name: "consecutive", Kind: runtime.FixedWindow, Rate: 100, Capacity: 100, Period: runtime.MaxPeriod, Start: runtime.StartFirstUse()}
	play(t, most, []ban{
		{0, take(100), "yes"},
		{h, take(1), "no, retry after 87599h0m0s"},
		{2 * h, reset(), "yes"},
		{2 * h, take(1), "yes"},
	})
}

// Binance: who goes on after answers with the status 429 is banned (418). Bans scale for repeat offenders, from 2
// minutes to 3 days; the steps between are not published, nor how many violations it takes.
// https://developers.binance.com/docs/binance-spot-api-docs/rest-api/limits
func TestPenaltyOfBinance(t *testing.T) {
	const m, d = time.Minute, 24 * time.Hour
	// Each answer with 429 takes from it.
	p := runtime.Policy{Name: "violations", Kind: runtime.FixedWindow, Start: runtime.StartOffset(0), Rate: 3, Capacity: 3, Period: m,
		Penalty: runtime.PenaltyOf(30*d, 2*m, 10*m, 60*m, 6*60*m, d, 3*d)}
	rows := []ban{{0, take(3), "yes"}, {30 * time.Second, take(1), "no, retry after 2m0s, penalty for 2m0s"}}
	at := 30*time.Second + 2*m
	for _, lasts := range []time.Duration{10 * m, 60 * m, 6 * 60 * m, d, 3 * d, 3 * d} {
		rows = append(rows,
			ban{at, take(3), "yes"}, // the ban is over
			ban{at, take(1), fmt.Sprintf("no, retry after %v, penalty for %v", lasts, lasts)},
			ban{at + lasts/2, take(1), fmt.Sprintf("no, retry after %v, penalty for %v", lasts/2, lasts/2)})
		at += lasts
	}
	play(t, p, rows)
}

func TestPenaltyIsStartedByItsOwnDenialsOnly(t *testing.T) {
	p := runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 60, Period: time.Minute, Capacity: 10, Penalty: runtime.PenaltyOf(0, time.Minute)}
	retry := take(5)
	retry.Retry = true
	s := play(t, p, []ban{
		{0, take(8), "yes"},
		{0, check(3), "no, retry after 1s"},
		{0, retry, "no, retry after 3s"},
		{0, peek(), "yes"},
		{0, take(0), "yes"},
		{0, upTo(5), "yes"},
		{0, upTo(5), "no, retry after 1m0s, penalty for 1m0s"},
		{30 * time.Second, check(1), "no, retry after 30s, penalty for 30s"},
		{30 * time.Second, take(0), "yes, penalty for 30s"},
		{30 * time.Second, charge(1), "yes, penalty for 30s"},
		{30 * time.Second, refund(1), "yes, penalty for 30s"},
		{time.Minute, take(10), "yes"},
		// The tokens are due after the penalty.
		{time.Minute, take(10), "no, retry after 1m0s, penalty for 1m0s"},
		{time.Minute, reset(), "yes"},
		{time.Minute, take(10), "yes"},
	})
	require.Empty(t, s.Log)
	rule := meter.RuleOf(&p, "")
	_, _, err := rule.Step(s, epoch.Add(time.Minute).UnixNano(), take(11))
	require.ErrorIs(t, err, runtime.ErrExceedsCapacity)
}

// The tokens that a request needs may be due after the penalty: a retry at its end would start the next one.
func TestRetryAfterPenaltyIsNotTooEarly(t *testing.T) {
	p := runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 5, Penalty: runtime.PenaltyOf(0, time.Minute)}
	play(t, p, []ban{
		{0, take(5), "yes"},
		{0, take(2), "no, retry after 2h0m0s, penalty for 1m0s"},
		{time.Second, take(1), "no, retry after 59m59s, penalty for 59s"},
	})
}

// A row is kept while its penalty or the next step of it matters.
func TestRowWithPenaltyIsNotSwept(t *testing.T) {
	p := runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 1, Period: time.Second, Capacity: 1, Penalty: runtime.PenaltyOf(time.Hour, time.Minute, 2*time.Minute)}
	s := play(t, p, []ban{{0, take(1), "yes"}, {0, take(1), "no, retry after 1m0s, penalty for 1m0s"}})
	row := runtime.Row{Name: "limit"}
	// A row is swept when it has not been needed for an hour.
	forgiven := epoch.Add(time.Minute + time.Hour + time.Hour).UnixNano()
	require.False(t, meter.Sweepable([]*runtime.Policy{&p}, row, s, forgiven-1))
	require.True(t, meter.Sweepable([]*runtime.Policy{&p}, row, s, forgiven))
	without := p
	without.Penalty = runtime.Penalty{}
	require.False(t, meter.Sweepable([]*runtime.Policy{&without, &p}, row, s, forgiven-1))
	require.True(t, meter.Sweepable([]*runtime.Policy{&without}, row, s, forgiven-1))
}

// A plan without a penalty leaves that of the others.
func TestPenaltySurvivesAPlanWithoutOne(t *testing.T) {
	for _, p := range []runtime.Policy{
		{Name: "limit", Kind: runtime.TokenBucket, Rate: 1, Period: time.Second, Capacity: 2},
		{Name: "limit", Kind: runtime.SlidingWindow, Rate: 2, Period: time.Second, Capacity: 2, Precise: true},
	} {
		punished := p
		punished.Penalty = runtime.PenaltyOf(0, time.Hour)
		s := play(t, punished, []ban{{0, take(2), "yes"}, {0, take(1), "no, retry after 1h0m0s, penalty for 1h0m0s"}})
		free := meter.RuleOf(&p, "")
		s, d := must2(free.Step(s, epoch.Add(2*time.Second).UnixNano(), take(2)))
		require.True(t, d.Allowed && d.PenaltyFor == 0)
		rule := meter.RuleOf(&punished, "")
		_, d = must2(rule.Step(s, epoch.Add(3*time.Second).UnixNano(), take(1)))
		require.Equal(t, time.Hour-3*time.Second, d.PenaltyFor)
	}
}
