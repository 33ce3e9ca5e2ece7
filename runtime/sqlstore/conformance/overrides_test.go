package conformance

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// overrideEnv is the environment variable that makes this program decide by overrides of another process.
const overrideEnv = "RATELIMITGEN_TEST_OVERRIDE"

// decideOverridden is the main function of a process: for each line that it reads, it prints a decision.
func decideOverridden(text string) error {
	var at address
	if err := json.Unmarshal([]byte(text), &at); err != nil {
		return err
	}
	h, err := at.open(sqlstore.Options{OverridesEvery: 50 * time.Millisecond})
	if err != nil {
		return err
	}
	defer h.Close()
	limit := limiter.New(h).Limit(live.Overridable(), runtime.KeyOf(runtime.String("a")))
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		d, err := limit.Check(context.Background())
		if err != nil {
			return err
		}
		fmt.Println(d.Allowed, d.Policy.Capacity)
	}
	return lines.Err()
}

// decider is such a process.
type decider struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
}

func newDecider(t *testing.T, s live.Server, table string) decider {
	text := live.Must(json.Marshal(addresses([]live.Server{s}, table)[0]))(t)
	in, out := startProcess(t, overrideEnv, string(text))
	return decider{t, in, bufio.NewScanner(out)}
}

// decides returns the decision of the process.
func (d decider) decides() string {
	d.t.Helper()
	_, err := fmt.Fprintln(d.in)
	require.NoError(d.t, err)
	require.True(d.t, d.out.Scan())
	return d.out.Text()
}

// until repeats decides until it is want.
func (d decider) until(want string) (at time.Time) {
	d.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for got := ""; got != want; got = d.decides() {
		require.True(d.t, time.Now().Before(deadline), "the process still decides %s, not %s", got, want)
	}
	return time.Now()
}

// One process writes overrides, and another one decides by them, and by their ends without anybody running.
func TestOtherProcessesDecideByAnOverride(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db, table := s.Open(t), live.NewTable()
		store := s.StoreIn(t, db, table, nil)
		require.NoError(t, store.Migrate(t.Context(), live.Overridable()))
		overrides := limiter.New(store).Overrides(live.Overridable(), runtime.KeyOf(runtime.String("a")))
		other := newDecider(t, s, table)
		require.Equal(t, "true 10", other.decides())

		live.Must(overrides.Set(t.Context(), runtime.Override{Capacity: 50, Until: runtime.ForGood(), Reason: "r", Author: "a"}))(t)
		other.until("true 50")
		ends := time.Now().Add(2 * time.Second)
		live.Must(overrides.Block(t.Context(), runtime.Block{Until: ends, Reason: "r", Author: "a"}))(t)
		other.until("false 50") // a block lies over the override, whose numbers the key keeps
		// The override is still in force when the block has ended. The server's clock is this machine's.
		require.NoError(t, store.Close())
		assert.WithinRange(t, other.until("true 50"), ends.Add(-100*time.Millisecond), ends.Add(10*time.Second))
	})
}

// Whoever writes to the table, an override cannot exceed what its limit declares, and needs a reason and an author.
func TestTableRefusesOverridesBeyondTheMost(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db, table := s.Open(t), live.NewTable()
		store := s.StoreIn(t, db, table, nil)
		require.NoError(t, store.Migrate(t.Context(), live.Overridable()))
		row := map[string]any{
			"id": 1, "name": "overridable", "key": "a", "what": "numbers", "plan": "", "rate": 10, "capacity": 10, "max_reserved": 0,
			"most_rate": 100, "most_capacity": 100, "most_reserved": 0, "may_lift": 0, "until_ns": 1, "reason": "r", "author": "a", "at_ns": 1,
		}
		insert := func(edits map[string]any) error {
			var columns, values []string
			for name, value := range row {
				if edited, ok := edits[name]; ok {
					value = edited
				}
				columns = append(columns, s.Dialect.Quote+name+s.Dialect.Quote)
				switch v := value.(type) {
				case nil:
					values = append(values, "NULL")
				case string:
					values = append(values, "'"+v+"'")
				default:
					values = append(values, fmt.Sprint(v))
				}
			}
			_, err := db.Exec("INSERT INTO " + dialect.OverridesTable(table) + " (" + strings.Join(columns, ", ") + ") VALUES (" + strings.Join(values, ", ") + ")")
			return err
		}
		for _, edits := range []map[string]any{
			{"rate": 101}, {"rate": -1}, {"capacity": 101}, {"max_reserved": 1}, {"what": "off"}, {"what": "unlimited"}, {"what": "shadow"},
			{"reason": ""}, {"author": ""}, {"until_ns": 0}, {"until_ns": nil}, {"reason": nil}, {"id": 0},
		} {
			assert.Error(t, insert(edits), "%v", edits)
		}
		require.NoError(t, insert(nil))
		assert.Error(t, insert(nil), "an id is given once")
		require.NoError(t, insert(map[string]any{"id": 2, "what": "off", "may_lift": 1}))
	})
}

// Ready reports a missing or different table, and names the entries that the program does not understand.
func TestReadyChecksOverrides(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db, table := s.Open(t), live.NewTable()
		store := live.Must(agree.NewStore(db, s.Dialect, sqlstore.Options{Table: table}))(t)
		t.Cleanup(func() {
			store.Close()
			live.Drop(t, db, table)
		})
		plain := live.Overridable()
		plain.Name, plain.Overrides = "plain", runtime.OverrideBounds{}
		ctx, p := t.Context(), live.Overridable()
		require.NoError(t, store.Migrate(ctx, plain, p))
		live.Execute(t, db, "DROP TABLE "+dialect.OverridesTable(table))
		require.NoError(t, store.Ready(ctx, plain), "without overrides, the table is not needed")
		err := store.Ready(ctx, plain, p)
		require.ErrorContains(t, err, fmt.Sprintf("there is no table %q, which limits with overrides and the log of operators need: call Migrate", dialect.OverridesTable(table)))
		_, err = limiter.New(store).Limit(p, runtime.Key{}).Allow(ctx)
		require.ErrorContains(t, err, "there is no table")
		require.NoError(t, store.Migrate(ctx, plain), "operators need the log for any limit")
		require.NoError(t, store.Ready(ctx, plain, p))

		append := func(e runtime.OverrideEntry) {
			e.Until, e.Reason, e.Author, e.At, e.Most = runtime.ForGood(), "r", "a", time.Now(), p.Overrides
			live.Must(store.AppendOverride(ctx, e))(t)
		}
		append(runtime.OverrideEntry{Limit: "overridable", Key: "a", What: "slower"})
		append(runtime.OverrideEntry{Limit: "overridable", Key: "b", What: runtime.OverridePlan, Plan: "gold"})
		append(runtime.OverrideEntry{Limit: "removed", Key: "b", What: runtime.OverridePlan, Plan: "gold"})
		err = store.Ready(ctx, plain, p)
		require.ErrorContains(t, err, `limit "overridable": unknown override: entry 1 of the log of overrides has the kind "slower"`)
		require.ErrorContains(t, err, "entry 2 of the log of overrides: invalid plan")
		require.NotContains(t, err.Error(), "entry 3", "a limit that has left the file must not stop its successor")
		for _, key := range []string{"a", "b"} {
			live.Must(limiter.New(store).Overrides(p, runtime.KeyOf(runtime.String(key))).End(ctx, runtime.OverrideEnd{Reason: "r", Author: "a"}))(t)
		}
		err = store.Ready(ctx, plain, p)
		require.ErrorIs(t, err, runtime.ErrUnusedOverrides, "the last check")
		require.ErrorContains(t, err, `limit "removed" is not among the policies, but 0 blocks and 1 override of it are in force`)
		require.ErrorIs(t, store.Ready(ctx, plain), runtime.ErrUnusedOverrides, "it may have been the only limit with overrides")
		require.NoError(t, store.Ready(ctx), "without policies, nothing is known about limits")
		live.Must(store.Forget(ctx, "removed", plain, p))(t)
		require.NoError(t, store.Ready(ctx, plain, p))
		live.Execute(t, db, "ALTER TABLE "+dialect.OverridesTable(table)+" DROP COLUMN at_ns")
		require.Error(t, store.Ready(ctx, p))
	})
}

// The app's user may lack the privilege to delete from the log, which is the history of what operators have done.
func TestSweepNeedsToDeleteFromTheLogUnlessAllIsKept(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		schema := schema(t, s, db)
		table := schema + ".quotas"
		require.NoError(t, s.StoreIn(t, db, table, nil).Migrate(t.Context(), live.Overridable()))
		grants := []string{"SELECT, INSERT, UPDATE, DELETE ON " + table, "SELECT, INSERT ON " + dialect.OverridesTable(table), "SELECT ON " + dialect.RegistryTable(table)}
		if s.Driver == "mysql" {
			s = database(t, s, schema)
		} else {
			grants = append(grants, "USAGE ON SCHEMA "+schema)
		}
		user, clock := user(t, s, db, grants...), storetest.NewClock()
		storeThatKeeps := func(keep time.Duration) *sqlstore.Store {
			store := user.StoreWith(t, user.Open(t), sqlstore.Options{Table: table, Clock: clock.Now, KeepOverrides: keep})
			return store
		}
		store := storeThatKeeps(time.Hour)
		for range 2 {
			live.Must(store.AppendOverride(t.Context(), runtime.OverrideEntry{
				Limit: "overridable", Key: "a", What: runtime.OverrideBlock, Until: clock.Now().Add(time.Hour), At: clock.Now(), Reason: "r", Author: "a",
			}))(t)
		}
		clock.Add(3 * time.Hour)
		_, err := store.Sweep(t.Context(), live.Overridable())
		live.FailsWith(t, err, "may not delete the old entries of table")
		require.ErrorContains(t, err, "grant the user DELETE on it, or set Options.KeepOverrides to -1")
		plain := live.Overridable()
		plain.Overrides = runtime.OverrideBounds{}
		_, err = storeThatKeeps(time.Hour).Sweep(t.Context(), plain)
		require.NoError(t, err, "a program without overrides needs no privilege on their table")
		live.Must(storeThatKeeps(-1).Sweep(t.Context(), live.Overridable()))(t)
	})
}

// Several processes number their entries without gaps and in the order in which they become visible: whoever reads the
// entries after the last one that it has read misses none.
func TestReadersMissNoOverride(t *testing.T) {
	onAll(t, func(t *testing.T, nodes []live.Server) {
		table := live.NewTable()
		first := nodes[0].StoreIn(t, nodes[0].Open(t), table, nil)
		require.NoError(t, first.Migrate(t.Context(), live.Overridable()))
		const writers, each = 4, 15
		var all sync.WaitGroup
		for i := range writers {
			s := nodes[i%len(nodes)]
			store := s.Join(t, s.Open(t), table, nil)
			require.Eventually(t, func() bool { return store.Ready(t.Context(), live.Overridable()) == nil }, time.Minute, 10*time.Millisecond)
			all.Go(func() {
				for range each {
					_, err := store.AppendOverride(t.Context(), runtime.OverrideEntry{
						Limit: "overridable", Key: "a", What: runtime.OverrideBlock, Until: runtime.ForGood(), Reason: "r", Author: "a",
					})
					assert.NoError(t, err)
				}
			})
		}
		next := int64(1)
		for next <= writers*each && !t.Failed() {
			entries := live.Must(first.OverridesSince(t.Context(), next))(t)
			for _, e := range entries {
				require.Equal(t, next, e.ID)
				next++
			}
		}
		all.Wait()
	})
}

// An override adds no round trip to a decision, and a limit without overrides sends no statement about them.
func TestOverridesAddNoStatement(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		through, p := through(t, s, 0)
		db := through.Open(t)
		db.SetMaxOpenConns(1)
		table := live.NewTable()
		require.NoError(t, s.Store(t, s.Open(t), nil).Ready(t.Context()))
		store := s.StoreIn(t, s.Open(t), table, nil)
		require.NoError(t, store.Migrate(t.Context(), live.Overridable()))
		counted := s.StoreWith(t, db, sqlstore.Options{Table: table, OverridesEvery: time.Hour})
		plain := live.Overridable()
		plain.Name, plain.Overrides = "plain", runtime.OverrideBounds{}
		limits := limiter.New(counted)
		take := func(p *runtime.Policy) {
			d := live.Must(limits.Limit(p, runtime.KeyOf(runtime.String("a"))).Check(t.Context()))(t)
			require.True(t, d.Allowed)
		}
		roundTrips := func(policy *runtime.Policy) int64 {
			take(policy) // prepares
			before := p.requests.Load()
			for range 10 {
				take(policy)
			}
			return p.requests.Load() - before
		}
		take(plain)
		const locates = 1 // the first statement finds the schema of each table
		without := roundTrips(plain)
		require.EqualValues(t, locates, p.overrides.Load(), "no other statement is about overrides")
		require.Equal(t, without, roundTrips(live.Overridable()))
		require.Greater(t, p.overrides.Load(), int64(locates))
		live.Must(limiter.New(counted).Overrides(live.Overridable(), runtime.KeyOf(runtime.String("a"))).
			Set(t.Context(), runtime.Override{Capacity: 50, Until: runtime.ForGood(), Reason: "r", Author: "a"}))(t)
		require.Equal(t, without, roundTrips(live.Overridable()))
	})
}

// A process that starts with a long log decides within its limits' timeouts: at first by their OnError, and after some
// seconds by the overrides.
func TestLongLogIsReadWhileCallsTimeOut(t *testing.T) {
	sizes := []int{2_500}
	if *long {
		sizes = append(sizes, 20_000, 100_000)
	}
	onEach(t, func(t *testing.T, s live.Server) {
		for _, n := range sizes {
			t.Run(fmt.Sprint(n), func(t *testing.T) { readLongLog(t, s, n) })
		}
	})
}

func readLongLog(t *testing.T, s live.Server, n int) {
	db, table := s.Open(t), live.NewTable()
	p := live.Overridable()
	p.Timeout = 100 * time.Millisecond
	require.NoError(t, s.StoreIn(t, db, table, nil).Migrate(t.Context(), p))
	for i := 0; i < n; {
		var rows []string
		for ; i < n && len(rows) < 500; i++ {
			rows = append(rows, fmt.Sprintf("(%d, 'overridable', 'user%d', 'block', '', 0, 0, 0, 100, 100, 0, 1, %d, 'abuse', 'someone', %d)",
				i+1, i, runtime.ForGood().UnixNano(), time.Now().UnixNano()))
		}
		live.Execute(t, db, "INSERT INTO "+dialect.OverridesTable(table)+" VALUES "+strings.Join(rows, ", "))
	}
	store := s.StoreWith(t, s.Open(t), sqlstore.Options{Table: table})
	limit := limiter.New(store).Limit(p, runtime.KeyOf(runtime.String(fmt.Sprint("user", n-1))))
	var slowest time.Duration
	failed, began := 0, time.Now()
	for {
		at := time.Now()
		d, err := limit.Allow(t.Context())
		slowest = max(slowest, time.Since(at))
		if err == nil {
			require.False(t, d.Allowed)
			break
		}
		require.ErrorIs(t, err, runtime.ErrOverridesUnread)
		require.Less(t, time.Since(began), time.Minute)
		failed++
	}
	t.Logf("%d entries: %d calls failed, the slowest after %v; the first decision came after %v", n, failed, slowest, time.Since(began))
}

// In a transaction of the caller, a key is erased if and only if it commits, also before there is a log, and while operators
// write.
func TestEraseInTx(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db, ctx, p := s.Open(t), t.Context(), live.Overridable()
		table := live.NewTable()
		store := live.Must(agree.NewStore(db, s.Dialect, sqlstore.Options{Table: table}))(t)
		t.Cleanup(func() {
			store.Close()
			live.Drop(t, db, table)
		})
		plain, key := live.Once("plain", 10), runtime.KeyOf(runtime.String("a"))
		require.NoError(t, store.Migrate(ctx))
		limits := limiter.New(store)
		remaining := func() int64 {
			b := live.Must(limits.Limit(plain, key).Peek(ctx))(t)
			return b.Remaining
		}
		require.NoError(t, limits.Limit(plain, key).RequireN(ctx, 4))
		require.NoError(t, sqlstore.RunInTx(ctx, db, func(tx *sql.Tx) error {
			in := limits.WithTx(tx).Limit(plain, key)
			require.NoError(t, in.Erase(ctx))
			return in.RequireN(ctx, 1)
		}), "without a log, the transaction goes on")
		require.Equal(t, int64(9), remaining())

		require.NoError(t, store.Migrate(ctx, p))
		operator := limits.Overrides(p, key)
		block := runtime.Block{Until: runtime.ForGood(), Reason: "r", Author: "a"}
		live.Must(operator.Block(ctx, block))(t)
		rollback := errors.New("rollback")
		err := sqlstore.RunInTx(ctx, db, func(tx *sql.Tx) error {
			require.ErrorIs(t, limits.WithTx(tx).Limit(p, key).Erase(ctx), runtime.ErrOverrideInForce)
			require.NoError(t, limits.WithTx(tx).Limit(plain, key).Erase(ctx), "usable after a refusal")
			return rollback
		})
		require.ErrorIs(t, err, rollback)
		require.Equal(t, int64(9), remaining())
		live.Must(operator.End(ctx, runtime.OverrideEnd{Reason: "r", Author: "a"}))(t)
		runs := 0
		require.NoError(t, sqlstore.RunInTx(ctx, db, func(tx *sql.Tx) error {
			// A statement that may fix what the transaction sees.
			require.NoError(t, tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+dialect.OverridesTable(table)).Scan(new(int)))
			if runs++; runs == 1 {
				live.Must(limits.Overrides(p, runtime.KeyOf(runtime.String("b"))).Block(ctx, block))(t)
			}
			return limits.WithTx(tx).Limit(p, key).Erase(ctx)
		}))
		entries := live.Must(store.OverridesSince(ctx, 1))(t)
		require.Len(t, entries, 4)
		for i, e := range entries {
			require.Equal(t, int64(i+1), e.ID)
			require.NotEqual(t, "a", e.Key)
		}
		require.NoError(t, limits.Limit(p, key).Require(ctx))
		require.NoError(t, store.OverrideView().Refresh(ctx))
		require.Len(t, store.OverrideView().InForce(), 1)
	})
}
