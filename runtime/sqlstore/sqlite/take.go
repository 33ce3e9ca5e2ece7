package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// taker is an [sqlstore.Taker] whose statements call back into this process: SQLite runs in it. For a row that is
// there, they ask whether to write and what, and that is all that is calculated; see [slip]. To calculate in SQL
// takes longer, and RETURNING, which would tell the result, much longer: SQLite makes a table for it each time.
type taker struct {
	db    *sql.DB
	table string

	// mu guards the rest: there is one slip, so one statement at a time.
	mu        sync.Mutex
	slip      slip
	number    int64
	one, many *sql.Stmt
}

// takeOne takes from one row, which is inserted as it is to be, unless it turns out to be there. Its parameters
// are the name, the key, Fresh and T.
const takeOne = `INSERT INTO {table} (name, {key}, shard, value, ts, prev) VALUES (?, ?, 0, ?, ?, 0)` + onConflict

// takeMany takes from several rows of one limit. Its parameters are the name and the keys, in JSON. The rest of a
// row is fetched by its place among them, which json_each calls key. That is two thirds of the work of a statement
// for each row, in a transaction, and less than half of that with all of the rows in JSON.
const takeMany = `
INSERT INTO {table} (name, {key}, shard, value, ts, prev)
SELECT ?, value, 0, ratelimitgen_fresh({slip}, {key}), ratelimitgen_ts({slip}, {key}), 0 FROM json_each(?) WHERE true` + onConflict

const onConflict = `
ON CONFLICT (name, {key}, shard) DO UPDATE SET
	value = ratelimitgen_value({slip}),
	ts    = max(ts, excluded.ts),
	prev  = 0
WHERE ratelimitgen_take({slip}, excluded.{key}, value, ts)
`

// Take implements [sqlstore.Taker]. It does not end with the context: a statement that is cancelled may have
// written, and its result is lost.
func (t *taker) Take(_ context.Context, rows []sqlstore.RowTake) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.prepare(); err != nil {
		return err
	}
	t.slip.begin(rows)
	defer t.slip.end()
	return t.run(rows)
}

// run runs the statement for one row or for many.
func (t *taker) run(rows []sqlstore.RowTake) error {
	first := &rows[0]
	if len(rows) == 1 {
		_, err := t.one.Exec(first.Row.Name, first.Row.Key, first.Upsert.Fresh, first.Upsert.T)
		return err
	}
	keys := make([]string, len(rows))
	for i := range rows {
		keys[i] = rows[i].Row.Key
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	_, err = t.many.Exec(first.Row.Name, string(text))
	return err
}

// prepare prepares the statements at the first use, when the table exists.
func (t *taker) prepare() (err error) {
	if t.many != nil {
		return nil
	}
	if t.number == 0 {
		t.number = addSlip(&t.slip)
	}
	if t.one == nil {
		if t.one, err = t.prepareText(takeOne); err != nil {
			return err
		}
	}
	t.many, err = t.prepareText(takeMany)
	return err
}

func (t *taker) prepareText(text string) (*sql.Stmt, error) {
	text, err := sqlstore.SQLite.Text(text, t.table)
	if err != nil {
		return nil, err
	}
	return t.db.Prepare(strings.ReplaceAll(text, "{slip}", strconv.FormatInt(t.number, 10)))
}

// close ends the taker, whose statements the database closes.
func (t *taker) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	dropSlip(t.number)
}
