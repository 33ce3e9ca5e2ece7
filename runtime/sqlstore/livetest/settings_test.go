package livetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// TestEncodings has databases that are not UTF8: they convert names and keys, or refuse some, and so are refused. One
// without an encoding keeps the bytes, which are the same by every driver.
func TestEncodings(t *testing.T) {
	admin := servers[0].open(t)
	create := func(t *testing.T, encoding string) (name string) {
		name = newTable()
		_, err := admin.Exec(fmt.Sprintf("CREATE DATABASE %s ENCODING '%s' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0", name, encoding))
		require.NoError(t, err)
		t.Cleanup(func() {
			_, err := admin.Exec("DROP DATABASE " + name + " WITH (FORCE)")
			require.NoError(t, err)
		})
		return name
	}
	for _, encoding := range []string{"LATIN1", "EUC_JP"} {
		t.Run(encoding, func(t *testing.T) {
			name := create(t, encoding)
			for _, s := range servers[:2] {
				for _, s := range []server{s, s.with("client_encoding=UTF8")} {
					store := s.database(t, name).visit(t, "")
					says := fmt.Sprintf(`keep table "rate_limits" in a database whose encoding is UTF8, such as "CREATE DATABASE ... `+
						`ENCODING 'UTF8' TEMPLATE template0" makes: server_encoding is %q instead of "UTF8"`, encoding)
					assert.ErrorContains(t, store.Migrate(t.Context()), says)
					assert.ErrorContains(t, store.Ready(t.Context()), says)
					refuses(t, store, says)
				}
			}
		})
	}
	t.Run("SQL_ASCII", func(t *testing.T) {
		name := create(t, "SQL_ASCII")
		limit := once("limit", 3)
		for i, s := range []server{servers[0], servers[1], servers[0].with("client_encoding=UTF8")} {
			store := s.database(t, name).visit(t, "")
			require.NoError(t, store.Migrate(t.Context()))
			require.NoError(t, store.Ready(t.Context()))
			d, err := runtime.NewLimiter(store).Limit(limit, runtime.KeyOf(runtime.String("é 日本 😀"))).Allow(t.Context())
			require.NoError(t, err)
			assert.True(t, d.Allowed)
			assert.EqualValues(t, 2-i, d.Remaining, "one row, whoever writes it")
		}
	})
	t.Run("client", func(t *testing.T) {
		s := servers[0].with("client_encoding=LATIN1") // lib/pq refuses it by itself
		refuses(t, s.visit(t, ""), `change the settings of the connections, in the data source name or in the server: `+
			`client_encoding is "LATIN1" instead of "UTF8"`)
	})
}

// TestDigitsBeforePostgres12 has a server that says that it is of version 11, where one more digit than usual is not
// enough to read a double as it was written.
func TestDigitsBeforePostgres12(t *testing.T) {
	db := servers[0].open(t)
	schema, table := servers[0].schema(t, db), newTable()
	servers[0].storeIn(t, db, table, nil)
	_, err := db.Exec("CREATE FUNCTION " + schema + ".current_setting(text) RETURNS text LANGUAGE sql AS " +
		"'SELECT CASE $1 WHEN ''server_version_num'' THEN ''110022'' ELSE pg_catalog.current_setting($1) END'")
	require.NoError(t, err)
	defer db.Exec("DROP FUNCTION " + schema + ".current_setting(text)")
	for _, s := range servers[:2] {
		s = s.with("search_path=" + schema + ",pg_catalog,public")
		for digits, says := range map[int]string{0: "0 before Postgres 12", 1: "1 before Postgres 12", 2: "", 3: ""} {
			store := s.with(fmt.Sprint("extra_float_digits=", digits)).visit(t, table)
			if says == "" {
				require.NoError(t, store.Ready(t.Context()))
				require.NoError(t, take(t.Context(), store))
				continue
			}
			refuses(t, store, fmt.Sprintf(`extra_float_digits is %q instead of "3"`, says))
		}
	}
}

// TestDurabilityNeverLowers has servers that wait for less or more than full asks for when they commit: with full the
// store waits for the disk of a standby at least, and otherwise as the server does.
func TestDurabilityNeverLowers(t *testing.T) {
	db := servers[0].open(t)
	table := newTable()
	servers[0].storeIn(t, db, table, nil)
	for _, text := range []string{
		"CREATE TABLE %[1]s_log (setting text)",
		"CREATE FUNCTION %[1]s_f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO %[1]s_log VALUES (current_setting(''synchronous_commit'')); RETURN NULL; END'",
		"CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT OR UPDATE OR DELETE ON %[1]s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION %[1]s_f()",
	} {
		_, err := db.Exec(fmt.Sprintf(text, table))
		require.NoError(t, err)
	}
	t.Cleanup(func() { db.Exec(fmt.Sprintf("DROP TABLE %[1]s_log; DROP FUNCTION %[1]s_f() CASCADE", table)) })
	for _, s := range servers[:2] {
		for is, full := range map[string]string{
			"off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply",
		} {
			store := s.with("synchronous_commit="+is).visit(t, table)
			for durability, want := range map[runtime.Durability]string{
				runtime.DurabilityDefault: is, runtime.DurabilityRelaxed: "off", runtime.DurabilityFull: full,
			} {
				for _, kind := range []runtime.Kind{runtime.TokenBucket, runtime.SlidingWindow} {
					p := once(fmt.Sprint(s.name, is, durability, kind), 9)
					p.Kind, p.Rate, p.Durability = kind, 9, durability
					limit := runtime.NewLimiter(store).Limit(p, runtime.Key{})
					for range 2 {
						require.NoError(t, limit.Require(t.Context()))
					}
					require.NoError(t, limit.Reset(t.Context()))
					var settings string
					require.NoError(t, db.QueryRow("SELECT string_agg(DISTINCT setting, ', ') FROM "+table+"_log").Scan(&settings))
					assert.Equal(t, want, settings, "%s, durability %v, %v", is, durability, kind)
					_, err := db.Exec("TRUNCATE " + table + "_log")
					require.NoError(t, err)
				}
			}
		}
	}
}
