package conformance

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// Whatever synchronous_commit is by default: with full, the store waits at least for the disk of a standby, and
// otherwise as long as the server waits by default.
func TestDurabilityNeverLowers(t *testing.T) {
	needAdmin(t)
	all := named(t, "postgres-pgx", "postgres-pq")
	db := all[0].Open(t)
	table := live.NewTable()
	all[0].StoreIn(t, db, table, nil)
	for _, text := range []string{
		"CREATE TABLE %[1]s_log (setting text)",
		"CREATE FUNCTION %[1]s_f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO %[1]s_log VALUES (current_setting(''synchronous_commit'')); RETURN NULL; END'",
		"CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT OR UPDATE OR DELETE ON %[1]s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION %[1]s_f()",
	} {
		live.Execute(t, db, fmt.Sprintf(text, table))
	}
	t.Cleanup(func() { db.Exec(fmt.Sprintf("DROP TABLE %[1]s_log; DROP FUNCTION %[1]s_f() CASCADE", table)) })
	for _, s := range all {
		for is, full := range map[string]string{
			"off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply",
		} {
			store := s.With("synchronous_commit="+is).Visit(t, table)
			for durability, want := range map[runtime.Durability]string{
				runtime.DurabilityDefault: is, runtime.DurabilityRelaxed: "off", runtime.DurabilityFull: full,
			} {
				for _, kind := range []runtime.Kind{runtime.TokenBucket, runtime.SlidingWindow} {
					p := live.Once(fmt.Sprint(s.Name, is, durability, kind), 9)
					p.Kind, p.Rate, p.Durability = kind, 9, durability
					limit := limiter.New(store).Limit(p, runtime.Key{})
					for range 2 {
						require.NoError(t, limit.Require(t.Context()))
					}
					require.NoError(t, limit.Reset(t.Context()))
					var settings string
					require.NoError(t, db.QueryRow("SELECT string_agg(DISTINCT setting, ', ') FROM "+table+"_log").Scan(&settings))
					assert.Equal(t, want, settings, "%s, durability %v, %v", is, durability, kind)
					live.Execute(t, db, "TRUNCATE "+table+"_log")
				}
			}
		}
	}
}
