package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/decide"
)

// DropConnections makes the pool close its connection.
func DropConnections(s *Store) {
	s.db.SetMaxIdleConns(-1)
	s.db.SetMaxIdleConns(1)
}

// OpenDecidedBy is Open with another decider.
func OpenDecidedBy(path string, by decide.Decider) (*Store, error) {
	return openDecidedBy(path, sqlstore.Options{}, by)
}

// CheckFiles makes the next call compare the files.
func CheckFiles(s *Store) { s.guard.due.Store(0) }

// A comparison may take a second, in which the calls of others must not queue up.
func TestCallsDoNotWaitForAComparisonOfOthers(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "limits.db"))
	require.NoError(t, err)
	defer s.Close()
	s.guard.mu.Lock()
	CheckFiles(s)
	compared, err := s.guard.check()
	require.NoError(t, err)
	require.False(t, compared)
	known := errors.New("the file was deleted")
	s.guard.problem.Store(&known)
	_, err = s.guard.check()
	require.Equal(t, known, err, "what is known")
	s.guard.mu.Unlock()
	CheckFiles(s)
	compared, err = s.guard.check()
	require.NoError(t, err)
	require.True(t, compared)
}

func TestClosedConnectionLeavesNoRecord(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "limits.db"))
	require.NoError(t, err)
	defer s.Close()
	take := func() (number int64) {
		p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 10, Period: 1e9, Capacity: 10}
		_, err := s.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{{Policy: p, Count: 1}}}})
		require.NoError(t, err)
		conn, err := s.db.Conn(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.Raw(func(on any) error { number = on.(*connection).number; return nil }))
		return number
	}
	first := take()
	_, err = findRecord(first)
	require.NoError(t, err)
	DropConnections(s)
	second := take()
	assert.NotEqual(t, first, second)
	_, err = findRecord(first)
	assert.ErrorContains(t, err, "no statement of a rate limit has the number")
}

func TestCallsForOneRowAreRunOnce(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "limits.db"))
	require.NoError(t, err)
	defer s.Close()
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 10, Period: 1e12, Capacity: 10}
	require.NoError(t, s.Migrate(t.Context(), p))
	call := runtime.Call{Requests: []runtime.Request{{Policy: p, Key: "key", Count: 2}}}
	// The first three insert the row, and the others take from it, until it has too few tokens.
	for _, left := range [][]int64{{8, 6, 4}, {2, 0, 0}, {0, 0, 0}} {
		runs, b := 0, batch.New([]runtime.Call{call, call, call})
		done, err := decider{s.db}.Decide(t.Context(), b, func() int64 { runs++; return 1e18 })
		require.NoError(t, err)
		require.True(t, done)
		assert.Equal(t, 1, runs)
		for i, a := range b.Answers() {
			assert.Equal(t, left[i], a.Decisions[0].Remaining)
		}
		assert.Equal(t, left[0] > 0, b.Answers()[0].Allowed())
		assert.Equal(t, left[0] > 2, b.Answers()[2].Allowed())
	}
}

// lost is a connection whose statements fail, but for those that begin a transaction.
type lost struct{ sqliteConn }

func (lost) Prepare(text string) (driver.Stmt, error) { return lostStmt{text: text}, nil }

func (lost) IsValid() bool { return true }

type lostStmt struct {
	driver.Stmt
	text string
}

func (s lostStmt) ExecContext(context.Context, []driver.NamedValue) (driver.Result, error) {
	if s.text == "BEGIN IMMEDIATE" {
		return driver.RowsAffected(0), nil
	}
	return nil, errors.New("disk gone")
}

func TestConnectionThatCannotEndATransactionIsNotUsedAgain(t *testing.T) {
	for name, fn := range map[string]func() (bool, error){
		"commit": func() (bool, error) { return true, nil },
		"error":  func() (bool, error) { return false, context.Canceled },
		"denial": func() (bool, error) { return false, nil },
	} {
		c := &connection{sqliteConn: lost{}}
		require.True(t, c.IsValid())
		err := c.tx(begin, fn)
		assert.Equal(t, name == "denial", err == nil, name)
		assert.False(t, c.IsValid(), name)
		records.Delete(c.number)
	}
	c := &connection{sqliteConn: lost{}}
	defer func() { records.Delete(c.number) }()
	assert.Panics(t, func() { c.tx(begin, func() (bool, error) { panic("") }) })
	assert.False(t, c.IsValid())
}

// A batch reads no row that its connection has read or written last.
func TestBatchesReadNoRowTwice(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "limits.db"))
	require.NoError(t, err)
	defer s.Close()
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 10, Period: 1e12, Capacity: 10}
	require.NoError(t, s.Migrate(t.Context(), p))
	read := func(requests ...runtime.Request) (rows int) {
		conn, err := s.db.Conn(t.Context())
		require.NoError(t, err)
		require.NoError(t, conn.Raw(func(on any) error {
			c := on.(*connection)
			tx := transaction{c, batch.New([]runtime.Call{{Requests: requests}}), func() int64 { return 1e18 }}
			c.record = callRecord{}
			done, err := tx.run()
			require.True(t, done)
			rows = len(c.record.read)
			return err
		}))
		require.NoError(t, conn.Close())
		return rows
	}
	take := func(key string) runtime.Request { return runtime.Request{Policy: p, Key: key, Count: 1} }
	require.Equal(t, 2, read(take("a"), take("b")))
	for range 3 {
		require.Zero(t, read(take("a"), take("b")))
	}
	require.Equal(t, 1, read(take("a"), take("c")), "c is new")
	require.Zero(t, read(runtime.Request{Policy: p, Key: "a", Count: 9}), "a denial")
	_, err = s.Erase(t.Context(), p.Name, "b", runtime.OverrideEnd{Reason: "asked", Author: "test"})
	require.NoError(t, err)
	require.Equal(t, 2, read(take("a"), take("b")), "this connection has written otherwise")
	require.Zero(t, read(take("a"), take("b")))
}

// The rows that a connection keeps are bounded.
func TestCachedRowsAreBounded(t *testing.T) {
	c := rowCache{known: true}
	kept := 0
	for shard := range 3 * youngRows {
		c.set(runtime.Row{Shard: shard}, storedRow{int64(shard), runtime.State{Exists: true}})
	}
	for shard := range 3 * youngRows {
		if c.find(runtime.Row{Shard: shard}) != nil {
			kept++
		}
	}
	assert.LessOrEqual(t, kept, 2*youngRows)
	last := runtime.Row{Shard: 3*youngRows - 1}
	assert.NotNil(t, c.find(last))
	c.set(last, storedRow{1, runtime.State{Exists: true, Log: strings.Repeat("x", longestLog+1)}})
	assert.Nil(t, c.find(last), "a long log")
	id, ok := c.number(last)
	assert.True(t, ok)
	assert.Equal(t, int64(1), id)
}
