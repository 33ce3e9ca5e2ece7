package main

import (
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// reach skips a test whose server does not answer. If CI is set, it fails.
func reach(t *testing.T, of server) {
	t.Helper()
	address, _, err := serversFromEnv().through(of, "")
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

// startRedis starts a Redis of its own, and skips the test if the program is not installed.
func startRedis(t *testing.T, s *site) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("CI") == "" {
		t.Skip("redis-server is not installed")
	}
	stop, err := s.startRedis()
	require.NoError(t, err)
	t.Cleanup(stop)
}

func TestOwnRedisWritesEveryChangeToTheDisk(t *testing.T) {
	s := &site{servers: servers{}, dir: t.TempDir()}
	startRedis(t, s)
	text, err := s.settings(t.Context(), redisDurable)
	require.NoError(t, err)
	require.Contains(t, text, `save "", appendonly "yes", appendfsync "always"`)
	require.GreaterOrEqual(t, s.meterOf(redisDurable)().server, time.Duration(0))
}

func TestContendersOnServersDecide(t *testing.T) {
	for _, c := range contenders {
		if c.server == "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			s := &site{servers: serversFromEnv(), dir: t.TempDir(), rows: 10}
			if c.server == redisDurable {
				startRedis(t, s)
			} else {
				reach(t, c.server)
			}
			require.Equal(t, []bool{true, true, true}, verdictsOf(t, c, s, plenty))
			// A limit of one token has no blocks to lease.
			if c.name != oursLeased {
				require.Equal(t, []bool{true, isFloor(c), isFloor(c)}, verdictsOf(t, c, s, exhausted))
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

// databases are those of floors; "" is SQLite.
var databases = []server{"", postgres, mariadb, mysqlDB}

// openEmpty creates a table without rows, and drops it when the test ends.
func openEmpty(t *testing.T, of server) *table {
	t.Helper()
	s := &site{servers: serversFromEnv(), dir: t.TempDir()}
	if of != "" {
		reach(t, of)
	}
	table, err := s.openTable(t.Context(), of, plenty)
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

func TestCallsAreMeasuredDuringASweep(t *testing.T) {
	for _, name := range swept {
		t.Run(name, func(t *testing.T) {
			c, _ := find(name)
			if c.server != "" {
				reach(t, c.server)
			}
			s := &site{servers: serversFromEnv(), dir: t.TempDir()}
			p := plan{turns: 3, sweepRows: 50_000, pace: pace{leadIn: time.Millisecond, length: 40 * time.Millisecond, stride: 1}}
			r := report{NotRun: map[string]string{}}
			require.NoError(t, r.measureSweep(t.Context(), s, p, c))
			for _, of := range []string{duringSweep(name), withoutSweep(name)} {
				require.Len(t, r.cell(of, sweepCallers, sweepKeys).Turns, 3)
			}
		})
	}
}

func TestNaiveBucketTakesTokens(t *testing.T) {
	b := &bucket{table: openEmpty(t, postgres), limit: plenty}
	b.rate = 1
	b.period = time.Hour
	require.NoError(t, b.prepare())
	for taken := range 3 {
		allowed, err := b.take(t.Context(), keyOf(3))
		require.NoError(t, err)
		require.True(t, allowed)
		require.InDelta(t, float64(plenty.capacity-taken-1), b.value(t), 0.5)
	}
}
