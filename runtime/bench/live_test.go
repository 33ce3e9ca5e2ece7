package main

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// reach skips a test whose server does not answer. If CI is set, it fails.
func reach(t *testing.T, of server) {
	t.Helper()
	_, err := (&site{servers: serversFromEnv()}).settings(t.Context(), of)
	switch {
	case err == nil:
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
				require.Equal(t, []bool{true, decidesNothing(c), decidesNothing(c)}, verdictsOf(t, c, s, exhausted))
			}
		})
	}
}

// openEmpty creates a table without rows, and drops it when the test ends.
func openEmpty(t *testing.T, of server) (*table, *site) {
	t.Helper()
	s := &site{servers: serversFromEnv(), dir: t.TempDir()}
	if of != "" {
		reach(t, of)
	}
	table, err := s.openTable(t.Context(), of, plenty)
	require.NoError(t, err)
	t.Cleanup(table.drop)
	return table, s
}

// value returns the value in the row of a key.
func (t *table) value(test *testing.T, key string) (value float64) {
	test.Helper()
	stmt, err := t.prepare("SELECT value FROM {table} WHERE name = ? AND {key} = ?")
	require.NoError(test, err)
	defer stmt.Close()
	require.NoError(test, stmt.QueryRow(plenty.name, key).Scan(&value))
	return value
}

func TestFloorWritesTheRowsOfItsKeys(t *testing.T) {
	for _, db := range databases {
		t.Run(db.name, func(t *testing.T) {
			table, s := openEmpty(t, db.server)
			write, end, err := table.writer(t.Context(), s.servers[db.server], plenty)
			require.NoError(t, err)
			defer end()
			for _, keys := range [][]string{keysOf(1, 1), keysOf(3, 3), keysOf(3, 3), keysOf(1, 1)} {
				_, err = table.db.Exec("UPDATE " + table.name + " SET value = 7")
				require.NoError(t, err)
				require.NoError(t, write(keys))
				for _, key := range keys {
					require.Equal(t, 1.0, table.value(t, key))
				}
			}
			require.Equal(t, 7.0, table.value(t, keyOf(2)), "the key of another call")
		})
	}
}

func TestCallsOnDatabasesAreDecidedAsTheyMust(t *testing.T) {
	for _, db := range databases {
		t.Run(db.name, func(t *testing.T) {
			if db.server != "" {
				reach(t, db.server)
			}
			s := &site{servers: serversFromEnv(), dir: t.TempDir()}
			opened, err := s.openStore(t.Context(), db.server, limit{})
			require.NoError(t, err)
			defer opened.close()
			for i, c := range calls {
				take, err := c.open(t.Context(), opened.store, string('a'+rune(i)))
				require.NoError(t, err, c.name)
				for _, key := range []string{keyOf(3), keyOf(10), keyOf(3), keyOf(10)} {
					right, err := take(t.Context(), key)
					require.NoError(t, err, c.name)
					require.True(t, right, "%s, %s", c.name, key)
				}
			}
		})
	}
}

func TestCallsAreMeasuredDuringASweep(t *testing.T) {
	for _, db := range databases {
		t.Run(db.name, func(t *testing.T) {
			c, _ := find(db.name)
			if c.server != "" {
				reach(t, c.server)
			}
			s := &site{servers: serversFromEnv(), dir: t.TempDir()}
			// One turn: on a busy machine, a single round may last until all rows are deleted.
			p := plan{turns: 1, sweepRows: 50_000, pace: pace{leadIn: time.Millisecond, length: 40 * time.Millisecond}}
			r := newReport()
			require.NoError(t, r.measureSweep(t.Context(), s, p, c))
			for _, of := range []string{duringSweep(db.name), withoutSweep(db.name)} {
				require.Len(t, r.cell(of, sweepCallers, sweepKeys).Turns, 1)
			}
		})
	}
}

func TestNaiveBucketAccruesTokens(t *testing.T) {
	reach(t, postgres)
	s := &site{servers: serversFromEnv()}
	o, err := selectForUpdate(t.Context(), s, limit{name: "slow", rate: 1, capacity: 1, period: 200 * time.Millisecond})
	require.NoError(t, err)
	defer o.close()
	allowed, err := o.take(t.Context(), keyOf(1))
	require.NoError(t, err)
	require.True(t, allowed)
	require.Eventually(t, func() bool {
		allowed, err := o.take(t.Context(), keyOf(1))
		return err == nil && allowed
	}, 30*time.Second, 10*time.Millisecond)
}
