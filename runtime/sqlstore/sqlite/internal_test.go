package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// DropConnections makes the pool close its connection.
func DropConnections(s *Store) {
	s.db.SetMaxIdleConns(-1)
	s.db.SetMaxIdleConns(1)
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
