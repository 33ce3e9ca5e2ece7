package main

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// reach skips a test whose server does not answer. If CI is set, it fails.
func reach(t *testing.T, of server) {
	t.Helper()
	address, err := serversFromEnv().address(of)
	require.NoError(t, err)
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	switch {
	case err == nil:
		conn.Close()
	case os.Getenv("CI") != "":
		t.Fatalf("%s does not answer: %v", of, err)
	default:
		t.Skipf("%s does not answer: %v", of, err)
	}
}

func TestContendersOnServersDecide(t *testing.T) {
	for _, c := range contenders {
		if c.server == "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			reach(t, c.server)
			s := &site{servers: serversFromEnv(), dir: t.TempDir(), rows: 10}
			require.Equal(t, []bool{true, true, true}, verdictsOf(t, c, s, plenty))
			switch c.kind {
			case ours, naive, peer:
				require.Equal(t, []bool{true, false, false}, verdictsOf(t, c, s, exhausted))
			}
		})
	}
}

// The round trips of these contenders are published or can be counted by hand, so this is a test of the proxy.
func TestRoundTripsAreCountedCorrectly(t *testing.T) {
	for name, want := range map[string]float64{
		floorPostgres: 1, floorMariaDB: 1, floorMySQL: 1, naivePostgres: 4, redisRate: 1, "throttled": 2,
	} {
		t.Run(name, func(t *testing.T) {
			c, ok := find(name)
			require.True(t, ok)
			reach(t, c.server)
			tally, err := tallyOf(t.Context(), &site{servers: serversFromEnv(), dir: t.TempDir()}, c)
			require.NoError(t, err)
			require.InDelta(t, want, tally.Trips, 0.01)
		})
	}
}

// databases are those of floors and naive limiters; "" is SQLite.
var databases = []server{"", postgres, mariadb, mysqlDB}

// openEmpty creates a table without rows, and drops it when the test ends.
func openEmpty(t *testing.T, of server) *table {
	t.Helper()
	s := &site{servers: serversFromEnv(), dir: t.TempDir()}
	open := func(ctx context.Context) (*table, error) { return s.openFile(ctx, s.newFile(), plenty) }
	if of != "" {
		reach(t, of)
		open = func(ctx context.Context) (*table, error) { return s.openTable(ctx, of, plenty) }
	}
	table, err := open(t.Context())
	require.NoError(t, err)
	t.Cleanup(table.drop)
	return table
}

// value returns the value in the row of one key.
func (t *table) value(test *testing.T) (value float64) {
	test.Helper()
	stmt, err := t.prepare("SELECT value FROM {table} WHERE name = ? AND {key} = ?")
	require.NoError(test, err)
	defer stmt.Close()
	require.NoError(test, stmt.QueryRow(plenty.name, keyOf(3)).Scan(&value))
	return value
}

func TestFloorWritesItsRow(t *testing.T) {
	for _, of := range databases {
		t.Run(string(of), func(t *testing.T) {
			table := openEmpty(t, of)
			o, err := table.upserting(plenty)
			require.NoError(t, err)
			for range 2 {
				_, err = table.db.Exec("UPDATE " + table.name + " SET value = 7")
				require.NoError(t, err)
				allowed, err := o.take(t.Context(), keyOf(3))
				require.NoError(t, err)
				require.True(t, allowed)
				require.Equal(t, 1.0, table.value(t))
			}
		})
	}
}

func TestNaiveBucketTakesTokens(t *testing.T) {
	for _, of := range databases[1:] {
		t.Run(string(of), func(t *testing.T) {
			b := &bucket{table: openEmpty(t, of), limit: plenty}
			b.rate = 1
			b.period = time.Hour
			require.NoError(t, b.prepare())
			for taken := range 3 {
				allowed, err := b.take(t.Context(), keyOf(3))
				require.NoError(t, err)
				require.True(t, allowed)
				require.InDelta(t, float64(plenty.capacity-taken-1), b.value(t), 0.5)
			}
		})
	}
}
