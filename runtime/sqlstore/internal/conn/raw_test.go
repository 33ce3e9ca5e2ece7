package conn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// rawConn is a driver with one connection, whose queries return the same rows.
type rawConn struct {
	driver.Conn
	rows rawRows
	// lost is the error of a query.
	lost error
}

func (c *rawConn) Connect(context.Context) (driver.Conn, error) { return c, nil }
func (c *rawConn) Driver() driver.Driver                        { return nil }
func (c *rawConn) Close() error                                 { return nil }

func (c *rawConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return &c.rows, c.lost
}

// rawRows are rows that end with an error, which Close returns again, as that of pgx does.
type rawRows struct {
	driver.Rows
	rows   [][]driver.Value
	ends   error
	panics bool
	closed bool
}

func (r *rawRows) Next(row []driver.Value) error {
	if r.panics {
		panic("in the driver")
	}
	if len(r.rows) == 0 {
		return r.ends
	}
	copy(row, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}

func (r *rawRows) Close() error {
	r.closed = true
	if r.ends == io.EOF {
		return nil
	}
	return r.ends
}

func TestTakeRaw(t *testing.T) {
	broken, row := errors.New("broken"), [][]driver.Value{{-2.5, int64(7), -1e-20, true}}
	for name, c := range map[string]struct {
		rows rawRows
		want runtime.State
		says string
	}{
		"taken":                                 {rawRows{rows: row, ends: io.EOF}, runtime.State{Value: -2.5, TS: 7, Prev: -1e-20, Exists: true}, ""},
		"not taken":                             {rawRows{ends: io.EOF}, runtime.State{}, ""},
		"an error for the row":                  {rawRows{ends: broken}, runtime.State{}, "broken"},
		"an error after the row":                {rawRows{rows: row, ends: broken}, runtime.State{Value: -2.5, TS: 7, Prev: -1e-20, Exists: true}, "broken"},
		"a connection lost after the statement": {rawRows{ends: driver.ErrBadConn}, runtime.State{}, driver.ErrBadConn.Error()},
		"a column of another type": {rawRows{rows: [][]driver.Value{{"-2.5", int64(7), -1e-20, true}}, ends: io.EOF}, runtime.State{},
			"the driver has returned a string, a int64, a float64 and a bool for a row"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := &rawConn{rows: c.rows}
			db := sql.OpenDB(conn)
			defer db.Close()
			x := &Executor{pool: pool{DB: db}, session: session{queries: new(Queries)}}
			var after runtime.State
			sent, err := x.TakeRaw(t.Context(), new(Values), &after)
			if c.says == "" {
				assert.NoError(t, err)
			} else {
				assert.EqualError(t, err, c.says)
			}
			assert.True(t, sent)
			assert.Equal(t, c.want, after)
			assert.True(t, conn.rows.closed)
			assert.Zero(t, db.Stats().InUse)
		})
	}
}

func TestTakeRawGivesUpAConnectionThatPanics(t *testing.T) {
	db := sql.OpenDB(&rawConn{rows: rawRows{panics: true}})
	defer db.Close()
	x := &Executor{pool: pool{DB: db}, session: session{queries: new(Queries)}}
	assert.Panics(t, func() { x.TakeRaw(t.Context(), new(Values), new(runtime.State)) })
	assert.Zero(t, db.Stats().OpenConnections)
}

func TestTakeRawOnALostConnectionHasSentNothing(t *testing.T) {
	db := sql.OpenDB(&rawConn{lost: driver.ErrBadConn})
	defer db.Close()
	sent, err := (&Executor{pool: pool{DB: db}, session: session{queries: new(Queries)}}).TakeRaw(t.Context(), new(Values), new(runtime.State))
	assert.False(t, sent)
	assert.ErrorIs(t, err, driver.ErrBadConn)
}
