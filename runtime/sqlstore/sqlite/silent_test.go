package sqlite_test

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

// wire simulates the network between a store and a database: each step takes a round trip, and a connection can fall
// silent.
type wire struct {
	driver driver.Driver
	path   string
	// roundTrip must be 0 if there are several callers. During a step database/sql holds the lock of the connection, which
	// another caller's result may wait for, and fake time stands still while a goroutine waits for a lock.
	roundTrip time.Duration
	// more is how many round trips more than one a step takes.
	more map[string]int
	// obeys means that a step returns when its context ends, and the connection is lost, as with most drivers.
	obeys bool
	// healed is closed when silent connections respond again.
	healed chan struct{}
	db     *sql.DB
	// committed, if not nil, is called after each commit, before its response.
	committed func()

	mu sync.Mutex
	// ahead is by how much the database's clock is ahead of the host's.
	ahead time.Duration
	// mute means that all connections are silent, and new ones too. connects counts those that were tried.
	mute     bool
	connects int
	// waited is how long steps have taken, together.
	waited time.Duration
	// silentAt is the step at which the next connection falls silent.
	silentAt string
	silent   int
}

// Connect implements [driver.Connector].
func (w *wire) Connect(ctx context.Context) (driver.Conn, error) {
	w.mu.Lock()
	w.connects++
	w.mu.Unlock()
	c := &wireConn{wire: w}
	if err := c.step(ctx, "connect"); err != nil {
		return nil, err
	}
	conn, err := w.driver.Open("file:" + w.path + "?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)")
	if err != nil {
		return nil, err
	}
	c.bareConn = conn.(bareConn)
	return c, nil
}

// Driver implements [driver.Connector].
func (w *wire) Driver() driver.Driver { return w.driver }

// breaks reports whether a connection falls silent at a step.
func (w *wire) breaks(step string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mute {
		return true
	}
	if w.silentAt != step {
		return false
	}
	w.silentAt = ""
	w.silent++
	return true
}

// fellSilent returns how many connections have fallen silent.
func (w *wire) fellSilent() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.silent
}

// set sets the database's clock ahead of the host's.
func (w *wire) set(ahead time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead = ahead
}

// breakAt makes the next connection that reaches a step fall silent there.
func (w *wire) breakAt(step string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silentAt = step
}

// bareConn is the interfaces of the driver's connections.
type bareConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
}

type wireConn struct {
	bareConn
	wire         *wire
	silent, lost bool
	// tx is the context of the transaction, if there is one.
	tx context.Context
}

// step takes a round trip, or blocks on a silent connection.
func (c *wireConn) step(ctx context.Context, name string) error {
	if c.lost {
		return driver.ErrBadConn
	}
	if !c.silent && c.wire.breaks(name) {
		c.silent = true
	}
	if !c.silent && (c.wire.roundTrip == 0 || name == "rollback") {
		// A rollback happens when a context ends, while another goroutine may wait for the lock of the connection.
		return nil
	}
	takes := c.wire.roundTrip * time.Duration(1+c.wire.more[name])
	answer := time.After(takes)
	if c.silent {
		answer = nil
	}
	if !c.wire.obeys {
		// During a step database/sql holds a lock of the transaction, for which the end of the transaction waits, and fake time
		// stands still while it does.
		ctx = cmp.Or(c.tx, context.Background())
	}
	select {
	case <-answer:
		c.wire.mu.Lock()
		defer c.wire.mu.Unlock()
		c.wire.waited += takes
	case <-c.wire.healed:
	case <-ctx.Done():
		c.lost = true
		return ctx.Err()
	}
	return nil
}

// Close implements [driver.Conn]. The transaction of a lost connection ends with it, as on a server: SQLite would keep its
// lock as long as a statement is open.
func (c *wireConn) Close() error {
	if c.lost {
		_, _ = c.bareConn.ExecContext(context.Background(), "ROLLBACK", nil)
	}
	return c.bareConn.Close()
}

// IsValid implements [driver.Validator].
func (c *wireConn) IsValid() bool { return !c.lost }

// Ping implements [driver.Pinger].
func (c *wireConn) Ping(ctx context.Context) error { return c.step(ctx, "ping") }

// BeginTx implements [driver.ConnBeginTx].
func (c *wireConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if err := c.step(ctx, "begin"); err != nil {
		return nil, err
	}
	tx, err := c.bareConn.BeginTx(ctx, driver.TxOptions{ReadOnly: o.ReadOnly})
	if err != nil {
		return nil, err
	}
	c.tx = ctx
	return wireTx{tx, c}, nil
}

// PrepareContext implements [driver.ConnPrepareContext].
func (c *wireConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if err := c.step(ctx, "prepare"); err != nil {
		return nil, err
	}
	stmt, err := c.bareConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return wireStmt{stmt.(bareStmt), c}, nil
}

// ExecContext implements [driver.ExecerContext].
func (c *wireConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.step(ctx, "exec"); err != nil {
		return nil, err
	}
	return c.bareConn.ExecContext(ctx, query, args)
}

// QueryContext implements [driver.QueryerContext].
func (c *wireConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.step(ctx, "query"); err != nil {
		return nil, err
	}
	if query == wireClock {
		c.wire.mu.Lock()
		query = fmt.Sprintf("SELECT %d", time.Now().Add(c.wire.ahead).UnixMicro())
		c.wire.mu.Unlock()
	}
	return c.bareConn.QueryContext(ctx, query, args)
}

// wireClock is the statement that reads the clock of the database.
const wireClock = "SELECT clock"

// bareStmt is the interfaces of the driver's statements.
type bareStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type wireStmt struct {
	bareStmt
	conn *wireConn
}

// ExecContext implements [driver.StmtExecContext].
func (s wireStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if err := s.conn.step(ctx, "exec"); err != nil {
		return nil, err
	}
	if !s.conn.wire.obeys {
		ctx = context.WithoutCancel(ctx) // a write may be executed after the call has ended
	}
	result, err := s.bareStmt.ExecContext(ctx, args)
	if err == nil && s.conn.wire.breaks("executed") {
		s.conn.silent = true
		err = s.conn.step(ctx, "executed")
	}
	return result, err
}

// QueryContext implements [driver.StmtQueryContext].
func (s wireStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.conn.step(ctx, "query"); err != nil {
		return nil, err
	}
	return s.bareStmt.QueryContext(ctx, args)
}

type wireTx struct {
	driver.Tx
	conn *wireConn
}

// Commit implements [driver.Tx]. It commits before the response is lost. As with many drivers, it has no context.
func (t wireTx) Commit() error {
	t.conn.tx = nil
	if err := t.Tx.Commit(); err != nil {
		return err
	}
	if f := t.conn.wire.committed; f != nil {
		f()
	}
	return t.conn.step(context.Background(), "commit")
}

// Rollback implements [driver.Tx].
func (t wireTx) Rollback() error {
	t.conn.tx = nil
	if err := t.conn.step(context.Background(), "rollback"); err != nil {
		return err
	}
	return t.Tx.Rollback()
}

// wired returns a store with a wire to its database, which behaves as a server: with another writer, and a clock of
// its own.
func wired(t *testing.T, w *wire, batch int) *sqlstore.Store {
	return wiredWith(t, w, sqlstore.Options{Batch: batch})
}

// wiredWith is wired with other options.
func wiredWith(t *testing.T, w *wire, o sqlstore.Options) *sqlstore.Store {
	bare := must(sql.Open("sqlite", ""))(t)
	defer bare.Close()
	w.driver, w.path, w.healed = bare.Driver(), filepath.Join(t.TempDir(), "limits.db"), make(chan struct{})
	d := dialect.SQLite
	d.OneWriter, d.Now = false, wireClock
	db := sql.OpenDB(w)
	w.db = db
	store := must(agree.NewStore(db, d, o))(t)
	require.NoError(t, store.Migrate(t.Context()))
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	// The next call opens a connection.
	db.SetMaxIdleConns(0)
	db.SetMaxIdleConns(2)
	return store
}

// The timeout is shorter than the preparation of the store.
func TestShortTimeoutGetsAnswersSoon(t *testing.T) {
	for _, batch := range []int{0, 1} {
		t.Run(fmt.Sprintf("batch %d", batch), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := wired(t, &wire{roundTrip: 10 * time.Millisecond, obeys: true}, batch)
				p := *counted
				p.Timeout = 35 * time.Millisecond
				limit := limiter.New(store).Limit(&p, runtime.Key{})
				start, failed := time.Now(), 0
				for limit.Require(t.Context()) != nil {
					failed++
					require.Less(t, time.Since(start), time.Second, "after %d calls", failed)
				}
				require.NotZero(t, failed, "the first call needs longer than it has")
				time.Sleep(time.Hour)
				require.NoError(t, limit.Require(t.Context()), "the clock is measured again behind the call")
				require.NoError(t, store.Close())
			})
		})
	}
}

// A round trip takes so long that no preparation ends within the time after which calls begin another one.
func TestStoreBecomesReadyOverALongLine(t *testing.T) {
	for _, roundTrip := range []time.Duration{300 * time.Millisecond, 380 * time.Millisecond} {
		for _, timeout := range []time.Duration{12 * roundTrip, sqlstore.Timeout} {
			t.Run(fmt.Sprintf("round trip %v, timeout %v", roundTrip, timeout), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := &wire{obeys: true}
					store := wired(t, w, 0)
					// Together some 20, as with encryption, a password, and a driver that prepares each query.
					w.roundTrip, w.more = roundTrip, map[string]int{"connect": 7, "query": 2}
					p := *counted
					p.Timeout = timeout
					limit := limiter.New(store).Limit(&p, runtime.Key{})
					start := time.Now()
					for limit.Require(t.Context()) != nil {
						require.Less(t, time.Since(start), 20*time.Second)
					}
					require.NoError(t, store.Close())
					close(w.healed)
					synctest.Wait()
				})
			})
		}
	}
}

// A connection falls silent at each step of a call. No call may wait longer than its limit's timeout, the next ones must
// use other connections, and tokens reported as taken must be committed.
func TestSilentConnectionDelaysNoOtherCall(t *testing.T) {
	for _, row := range []struct {
		step string
		kind runtime.Kind
		// holds means that a silent connection whose driver does not give it up holds the lock of the file.
		holds bool
	}{
		{step: "connect", kind: runtime.SlidingWindow},
		{step: "prepare", kind: runtime.SlidingWindow, holds: true},
		{step: "prepare", kind: runtime.TokenBucket},
		{step: "begin", kind: runtime.SlidingWindow},
		{step: "exec", kind: runtime.SlidingWindow, holds: true},
		{step: "commit", kind: runtime.SlidingWindow},
		{step: "query", kind: runtime.TokenBucket},
	} {
		for _, obeys := range []bool{true, false} {
			for _, batch := range []int{0, 1} {
				if row.holds && !obeys {
					continue
				}
				t.Run(fmt.Sprintf("%s %v obeys=%v batch=%d", row.step, row.kind, obeys, batch), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { silentAt(t, row.step, row.kind, obeys, batch) })
				})
			}
		}
	}
}

func silentAt(t *testing.T, step string, kind runtime.Kind, obeys bool, batch int) {
	w := &wire{obeys: obeys}
	store := wired(t, w, batch)
	p := &runtime.Policy{Name: "limit", Kind: kind, Rate: 1000, Period: runtime.MaxPeriod, Capacity: 1000, Timeout: time.Second}
	if step != "connect" && step != "prepare" {
		require.NoError(t, store.Ready(t.Context()))
	}
	w.breakAt(step)
	limit := func(i int) limiter.Limit { return limiter.New(store).Limit(p, runtime.KeyOf(runtime.Int(i))) }
	const callers = 6
	var taken [callers]int64
	var all sync.WaitGroup
	end := time.Now().Add(15 * time.Second)
	for i := range callers {
		all.Go(func() {
			for time.Now().Before(end) {
				start := time.Now()
				d, err := limit(i).Allow(t.Context())
				assert.LessOrEqual(t, time.Since(start), p.Timeout+100*time.Millisecond)
				if err == nil && d.Allowed {
					taken[i]++
				}
				late := time.Until(end) < 2*time.Second
				assert.False(t, late && err != nil, "service has not resumed: %v", err)
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	all.Wait()
	require.Equal(t, 1, w.fellSilent())
	for i := range callers {
		b := must(limit(i).Peek(t.Context()))(t)
		assert.LessOrEqual(t, taken[i], p.Capacity-b.Remaining, "reported as taken, and taken")
	}
	start := time.Now()
	err := store.Close()
	assert.LessOrEqual(t, time.Since(start), sqlstore.Timeout)
	if err != nil {
		assert.ErrorContains(t, err, "still in flight")
	}
	close(w.healed)
	synctest.Wait()
}

// While the database does not respond, one probe after the other connects to it, whatever calls and transactions do.
func TestSilentDatabaseGetsOneConnectionAtATime(t *testing.T) {
	for _, obeys := range []bool{true, false} {
		for _, batch := range []int{0, 1} {
			t.Run(fmt.Sprintf("obeys=%v batch=%d", obeys, batch), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { muteFor(t, 30*time.Second, obeys, batch) })
			})
		}
	}
}

func muteFor(t *testing.T, silence time.Duration, obeys bool, batch int) {
	w := &wire{obeys: obeys}
	store := wired(t, w, batch)
	require.NoError(t, store.Ready(t.Context()))
	connects := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.connects
	}
	var mu sync.Mutex
	var answered time.Time
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	load := func(timeout time.Duration, ask func(ctx context.Context, limit limiter.Limit) error) {
		for i := range 4 {
			p := *counted
			p.Timeout = timeout
			limit := limiter.New(store).Limit(&p, runtime.KeyOf(runtime.Int(i)))
			all.Go(func() {
				for ctx.Err() == nil {
					within, cancel := context.WithTimeout(ctx, timeout)
					start := time.Now()
					err := ask(within, limit)
					cancel()
					assert.LessOrEqual(t, time.Since(start), timeout+100*time.Millisecond)
					if err == nil {
						mu.Lock()
						answered = time.Now()
						mu.Unlock()
					}
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
	}
	load(time.Second, func(ctx context.Context, l limiter.Limit) error { return l.Require(ctx) })
	load(5*time.Millisecond, func(ctx context.Context, l limiter.Limit) error { return l.Require(ctx) })
	load(time.Second, func(ctx context.Context, l limiter.Limit) error { _, err := l.Peek(ctx); return err })
	load(time.Second, func(ctx context.Context, l limiter.Limit) error {
		return sqlstore.RunInTx(ctx, w.db, func(*sql.Tx) error { return nil })
	})
	load(time.Second, func(ctx context.Context, l limiter.Limit) error { return store.Ready(ctx) })
	time.Sleep(time.Second)
	w.mu.Lock()
	w.mute = true
	w.mu.Unlock()
	// By then, a probe has been without an answer for a second.
	time.Sleep(2 * time.Second)
	before := connects()
	time.Sleep(silence)
	assert.LessOrEqual(t, connects()-before, int(silence/(3*time.Second)), "connections during the silence")
	w.mu.Lock()
	w.mute = false
	w.mu.Unlock()
	close(w.healed)
	time.Sleep(10 * time.Second)
	mu.Lock()
	assert.Less(t, time.Since(answered), time.Second, "service has resumed")
	mu.Unlock()
	stop()
	all.Wait()
	assert.NoError(t, store.Close())
}

// These are calls without a deadline, and Ready, Migrate and Sweep. If a connection falls silent while the store is prepared
// for them, another one is prepared instead.
func TestSilentConnectionEndsCallsWithoutDeadline(t *testing.T) {
	for i := range 4 {
		batch, prepared := i%2, i/2 > 0
		for what, ask := range map[string]func(ctx context.Context, store *sqlstore.Store, l limiter.Limit) error{
			"Ready":   func(ctx context.Context, s *sqlstore.Store, _ limiter.Limit) error { return s.Ready(ctx) },
			"Migrate": func(ctx context.Context, s *sqlstore.Store, _ limiter.Limit) error { return s.Migrate(ctx) },
			"Sweep": func(ctx context.Context, s *sqlstore.Store, _ limiter.Limit) error {
				_, err := s.Sweep(ctx, counted)
				return err
			},
			"Allow": func(ctx context.Context, _ *sqlstore.Store, l limiter.Limit) error { return l.Require(ctx) },
			"Peek": func(ctx context.Context, _ *sqlstore.Store, l limiter.Limit) error {
				_, err := l.Peek(ctx)
				return err
			},
			"Reset": func(ctx context.Context, _ *sqlstore.Store, l limiter.Limit) error { return l.Reset(ctx) },
		} {
			t.Run(fmt.Sprintf("%s batch %d prepared=%v", what, batch, prepared), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := &wire{}
					store := wired(t, w, batch)
					limit := limiter.New(store).Limit(counted, runtime.Key{})
					if prepared {
						require.NoError(t, limit.Require(t.Context()))
					}
					w.breakAt("query")
					start := time.Now()
					err := ask(context.Background(), store, limit)
					if prepared || what == "Ready" || what == "Migrate" {
						assert.ErrorIs(t, err, context.DeadlineExceeded)
					} else {
						assert.NoError(t, err)
						assert.NotZero(t, time.Since(start))
					}
					assert.LessOrEqual(t, time.Since(start), sqlstore.Timeout+100*time.Millisecond)
					start = time.Now()
					assert.NoError(t, ask(context.Background(), store, limit), "by another connection")
					assert.LessOrEqual(t, time.Since(start), time.Second)
					close(w.healed)
					synctest.Wait()
					assert.NoError(t, store.Close())
				})
			})
		}
	}
}

func TestCloseReturnsInTimeOnASilentConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		store := wired(t, w, 0)
		require.NoError(t, store.Ready(t.Context()))
		p := *counted
		p.Lease = runtime.Lease{Tokens: 1, For: time.Hour}
		w.breakAt("query")
		for range 3 {
			go limiter.New(store).Limit(&p, runtime.Key{}).Allow(context.Background())
		}
		synctest.Wait()
		time.Sleep(time.Second)
		start := time.Now()
		assert.ErrorContains(t, store.Close(), "still in flight")
		assert.LessOrEqual(t, time.Since(start), sqlstore.Timeout)
		close(w.healed)
		synctest.Wait()
	})
}

// The connection responds to COMMIT after the context has ended, and the call returned.
func TestRunInTxReturnsBeforeALateCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		wired(t, w, 0)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		err := sqlstore.RunInTx(ctx, w.db, func(tx *sql.Tx) error {
			w.roundTrip = 200 * time.Millisecond
			return nil
		})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Second)
	})
}

// The answer to an acquisition is lost, and whether it has had an effect, or will have one yet, is not known. The slot is
// free while the connection is still silent, and remains so when it responds again. No fence occurs twice.
func TestSlotWhoseAnswerIsLostIsReleased(t *testing.T) {
	for _, row := range []struct {
		step string
		// first means that it is the first acquisition of the key, which is a transaction.
		first bool
	}{{"commit", true}, {"exec", false}, {"executed", false}} {
		for _, obeys := range []bool{true, false} {
			for _, batch := range []int{0, 1} {
				t.Run(fmt.Sprintf("%s obeys=%v batch=%d", row.step, obeys, batch), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { loseAcquisition(t, row.step, row.first, obeys, batch) })
				})
			}
		}
	}
}

func loseAcquisition(t *testing.T, step string, first, obeys bool, batch int) {
	w := &wire{obeys: obeys}
	store := wired(t, w, batch)
	require.NoError(t, store.Ready(t.Context()))
	p := &runtime.Policy{Name: "slots", Kind: runtime.InFlight, Slots: 5, Hold: time.Hour}
	slots := limiter.New(store).Slots(p, runtime.Key{})
	fence := int64(0)
	if !first {
		s := must(slots.Acquire(t.Context()))(t)
		fence = s.Fence
		require.NoError(t, s.Release(t.Context()))
	}
	w.breakAt(step)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := slots.Acquire(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, 1, w.fellSilent())
	time.Sleep(time.Second)
	require.Zero(t, must(slots.Peek(t.Context()))(t).Used, "a second after the call has returned")
	close(w.healed)
	time.Sleep(time.Minute)
	require.Zero(t, must(slots.Peek(t.Context()))(t).Used, "after the connection has responded")
	s := must(slots.AcquireN(t.Context(), p.Slots))(t)
	require.True(t, s.Allowed)
	require.Greater(t, s.Fence, fence)
	require.NoError(t, s.Release(t.Context()))
	require.NoError(t, store.Close())
}

// A transaction whose context has no deadline returns, at whatever step its connection falls silent.
func TestTransactionWithoutADeadlineEnds(t *testing.T) {
	for _, step := range []string{"connect", "begin", "exec", "commit", "rollback"} {
		for _, obeys := range []bool{true, false} {
			if step == "exec" && !obeys {
				continue // the rollback waits for the lock of the connection, and fake time stands still meanwhile
			}
			t.Run(fmt.Sprintf("%s obeys=%v", step, obeys), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := &wire{obeys: obeys}
					store := wired(t, w, 0)
					require.NoError(t, store.Ready(t.Context()))
					if step == "connect" {
						w.db.SetMaxIdleConns(0)
					}
					refused := errors.New("refused")
					w.breakAt(step)
					start := time.Now()
					err := sqlstore.RunInTx(context.Background(), w.db, func(tx *sql.Tx) error {
						err := limiter.New(store).WithTx(tx).Limit(counted, runtime.Key{}).Require(context.Background())
						if err == nil && step == "rollback" {
							err = refused
						}
						return err
					})
					require.Error(t, err)
					require.Equal(t, 1, w.fellSilent())
					require.LessOrEqual(t, time.Since(start), 2*sqlstore.Timeout)
					require.Equal(t, step == "rollback", errors.Is(err, refused), err)
					require.Equal(t, step != "rollback", errors.Is(err, context.DeadlineExceeded), err)
					if step == "commit" {
						require.ErrorIs(t, err, sqlstore.ErrOutcomeUnknown)
						require.ErrorContains(t, err, "the transaction may have been committed: ")
					}
					close(w.healed)
					synctest.Wait()
					require.NoError(t, store.Close())
				})
			})
		}
	}
}

// A reservation whose caller leaves during the commit is given back: SQLite has committed if it says so.
func TestReservationIsGivenBackIfItsCallerLeavesDuringTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		server := wired(t, w, 0)
		p := runtimetest.Reservable(5)
		p.Durability = runtime.DurabilityFull // which the sessions lack, so that this takes a transaction
		store := must(agree.NewStore(w.db, dialect.SQLite, sqlstore.Options{}))(t)
		require.NoError(t, store.Migrate(t.Context(), p))
		limit := limiter.New(store).Reservable(p, runtime.KeyOf(runtime.String("k")))
		must(limit.ReserveN(t.Context(), 1))(t) // the first call registers the limit
		ctx, cancel := context.WithCancel(t.Context())
		w.committed = func() {
			w.committed = nil
			cancel()
			synctest.Wait() // until the caller has gone
		}
		_, err := limit.ReserveN(ctx, 3)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, store.Close())
		require.Equal(t, 4.0, runtimetest.Left(t, server, p))
	})
}
