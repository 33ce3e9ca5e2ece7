package conn

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// TakeRaw runs the dialect's TakeOne by the methods of the driver's connection, and sets after to the row that it selects.
// For each query whose context can be canceled, package database/sql starts a goroutine, which costs as much as everything
// else that this process does for a lone call. If sent is false, the server has not executed the statement.
func (x *Executor) TakeRaw(ctx context.Context, v *Values, after *runtime.State) (sent bool, err error) {
	conn, err := x.DB.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	q := &x.queries[TakeOne][OneRow]
	named := make([]driver.NamedValue, len(q.Params))
	for i, p := range q.Params {
		named[i] = driver.NamedValue{Ordinal: i + 1, Value: v.Arg(p)}
	}
	err = conn.Raw(func(on any) error {
		rows, err := on.(driver.QueryerContext).QueryContext(ctx, q.Sql, named)
		// A driver returns ErrBadConn only for a statement that it has not sent.
		sent = !errors.Is(err, driver.ErrBadConn)
		if err != nil {
			return err
		}
		// Close returns the error of the rows again.
		return cmp.Or(readTaken(rows, after), rows.Close())
	})
	return sent, err
}

// readTaken reads the row, if there is one. After an error, after has no meaning.
func readTaken(rows driver.Rows, after *runtime.State) error {
	var row [4]driver.Value
	switch err := rows.Next(row[:]); {
	case err == io.EOF:
		return nil
	case err != nil:
		return err
	}
	value, okValue := row[0].(float64)
	ts, okTS := row[1].(int64)
	prev, okPrev := row[2].(float64)
	taken, okTaken := row[3].(bool)
	if !okValue || !okTS || !okPrev || !okTaken {
		return fmt.Errorf("the driver has returned a %T, a %T, a %T and a %T for a row", row[0], row[1], row[2], row[3])
	}
	*after = runtime.State{Value: value, TS: ts, Prev: prev, Exists: taken}
	// The statement has ended when there are no more rows, and its error, if it has one, comes instead of them.
	if err := rows.Next(row[:]); err != io.EOF {
		return err
	}
	return nil
}
