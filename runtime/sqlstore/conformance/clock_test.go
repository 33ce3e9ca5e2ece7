package conformance

import (
	"context"
	"database/sql"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// hourly grants six tokens at once, and one every ten minutes.
var hourly = &runtime.Policy{Name: "hourly", Kind: runtime.TokenBucket, Rate: 6, Period: time.Hour, Capacity: 6}

// timedDecision is a decision, and the time by the database's clock before and after the call.
type timedDecision struct {
	runtime.Decision
	before, after time.Time
}

// takeHourly takes a token of a store.
func takeHourly(t *testing.T, s live.Server, db *sql.DB, store runtime.Store) (a timedDecision) {
	t.Helper()
	a.before = databaseTime(t, s, db)
	a.Decision = live.Must(limiter.New(store).Limit(hourly, runtime.Key{}).Allow(context.Background()))(t)
	a.after = databaseTime(t, s, db)
	return a
}

// now returns the time by the database's clock.
func databaseTime(t *testing.T, s live.Server, db *sql.DB) time.Time {
	t.Helper()
	var micros int64
	require.NoError(t, db.QueryRow(live.Must(s.Dialect.Text(s.Dialect.Now, ""))(t)).Scan(&micros))
	return time.UnixMicro(micros)
}

// takeOffHost takes tokens on a host whose clock is off, and jumps ahead by ten minutes before each. It is the clock of
// a synctest bubble, which stops unless the host sleeps.
func takeOffHost(t *testing.T, s live.Server, table string, off time.Duration, times int) (all []timedDecision) {
	t.Helper()
	const jump = 10 * time.Minute
	start := time.Now().Add(off - jump)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(start))
		db := live.Must(sql.Open(s.Driver, s.DSN))(t)
		defer db.Close()
		store := s.StoreWith(t, db, sqlstore.Options{Table: table})
		for range times {
			time.Sleep(jump)
			all = append(all, takeHourly(t, s, db, store))
			assert.Greater(t, time.Since(all[0].before).Abs(), 4*time.Minute, "this host's clock is off")
		}
	})
	return all
}

// inTurn runs a test that measures round trips on one server after the other.
func inTurn(t *testing.T, test func(t *testing.T, s live.Server)) {
	for _, s := range servers {
		t.Run(s.Name, func(t *testing.T) { test(t, s) })
	}
}

// Hosts whose clocks are minutes ahead or behind, and jump, share a key with a host whose clock is right. No token is
// granted early, and every RetryAfter is right by the database's clock, to within a round trip.
func TestClocksOfHostsDoNotGrantTokensEarly(t *testing.T) {
	inTurn(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		table := live.NewTable()
		right := s.StoreIn(t, db, table, nil)
		start := time.Now()
		all := []timedDecision{takeHourly(t, s, db, right)}
		roundTrip := time.Since(start)
		for _, off := range []time.Duration{10 * time.Minute, -15 * time.Minute, 20 * time.Minute, -time.Hour} {
			all = append(all, takeOffHost(t, s, table, off, 3)...)
			all = append(all, takeHourly(t, s, db, right))
		}
		admitted := int64(0)
		for _, a := range all {
			if a.Allowed {
				admitted++
			}
		}
		assert.Equal(t, hourly.Capacity, admitted, "admitted")

		due := dueTime(t, db, table)
		furthest := time.Duration(0)
		for _, a := range all[hourly.Capacity:] {
			require.False(t, a.Allowed)
			assert.False(t, due.Before(a.before.Add(a.RetryAfter-roundTrip)), "%v is too long", a.RetryAfter)
			assert.False(t, due.After(a.after.Add(a.RetryAfter+roundTrip)), "%v is too short", a.RetryAfter)
			furthest = max(furthest, due.Sub(a.before.Add(a.RetryAfter)).Abs())
		}
		t.Logf("%d timedDecision, %d admitted of %d; waits are true to within %v, round trip at most %v",
			len(all), admitted, hourly.Capacity, furthest, roundTrip)
	})
}

// dueTime returns when the next token is due according to the row.
func dueTime(t *testing.T, db *sql.DB, table string) time.Time {
	t.Helper()
	var value float64
	var ts int64
	require.NoError(t, db.QueryRow("SELECT value, at_ns FROM "+table).Scan(&value, &ts))
	lacking := (1 - float64(hourly.Capacity) - value) * float64(hourly.Period) / float64(hourly.Rate)
	return time.Unix(0, ts).Add(time.Duration(lacking))
}
