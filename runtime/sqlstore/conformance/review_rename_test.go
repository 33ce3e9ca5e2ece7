package conformance

import (
	"database/sql"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// reviewRenames renames a limit that has a count for each of 1,000 keys, 3 blocks and 2 overrides, by nothing but the SQL
// that a review prints for a dialect: all of them are then those of the new name, which alone is registered.
func reviewRenames(t *testing.T, db *sql.DB, database, table string, open func(t *testing.T) *sqlstore.Store) {
	const (
		keys, blocks, overrides = 1000, 3, 2
		rule                    = `kind: fixed window, rate: 10, period: 3650d, start: "2020-01-01T00:00:00Z", overrides: {rate: 100, capacity: 100}}`
	)
	old := parse(t, "version: 1\nlimits:\n  visit: {key: userID, "+rule)
	now := parse(t, "version: 1\nlimits:\n  pageView: {key: userID, goName: Visit, "+rule)
	d := deployOf(t, old, now, db, database, table)
	d.empty()

	was := process{t, old, open(t)}
	require.NoError(t, was.store.Migrate(t.Context(), was.policy()))
	used := func(i int) int64 { return int64(i % 11) }
	key := func(i int) []string { return []string{strconv.Itoa(i)} }
	for i := range keys {
		was.ask(runtime.Charge, key(i), used(i))
	}
	for i := range blocks {
		was.block(key(i), time.Hour)
	}
	for i := range overrides {
		_, err := was.limit(key(blocks+i)).Set(t.Context(), runtime.Override{Rate: 50, Until: runtime.ForGood(), Reason: "pays", Author: "a"})
		require.NoError(t, err)
	}
	stored := d.count("rate_limits", "visit")

	d.executeAll(review.BeforeNew)
	d.executeAll(review.BetweenVersions)
	d.executeAll(review.AfterOld)
	is := process{t, now, open(t)}
	require.NoError(t, is.store.Ready(t.Context(), is.policy()))

	require.NoError(t, is.store.OverrideView().Refresh(t.Context()))
	for i := range keys {
		require.EqualValues(t, 10-used(i), is.ask(runtime.Peek, key(i), 0).Remaining, "key %d", i)
		p := is.inForce(key(i))
		require.Equal(t, i < blocks, p.Mode == runtime.ModeBlock, "key %d", i)
		if i >= blocks {
			require.Equal(t, i < blocks+overrides, p.Rate == 50, "key %d", i)
		}
	}
	for i := range blocks + overrides {
		log, err := is.limit(key(i)).History(t.Context())
		require.NoError(t, err)
		require.Len(t, log, 1)
		require.Equal(t, map[bool]string{true: `["` + key(i)[0] + `"]`, false: "pays"}[i < blocks], log[0].Reason)
	}
	require.Zero(t, d.count("rate_limits", "visit"))
	require.Equal(t, stored, d.count("rate_limits", "pageView"))
	require.Zero(t, d.count("rate_limit_registry", "visit"))
	require.Equal(t, 1, d.count("rate_limit_registry", "pageView"))
}

// count returns how many rows a table has for a limit.
func (d deploy) count(table, limit string) (n int) {
	d.t.Helper()
	require.NoError(d.t, d.db.QueryRow(d.inTable("SELECT count(*) FROM "+table+" WHERE name = '"+limit+"'")).Scan(&n))
	return n
}
