package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// statement is one of the dialect's statements.
type statement int

const (
	readRows statement = iota
	readUnlocked
	seedRows
	writeRows
	deleteRows
	deleteUnchanged
	takeRows
	takeKeys
	takeOne
	takeInsertID
	swapRow
	readPage
	findNamed
	statementCount
)

// queries are the dialect's statements for the store's table.
type queries [statementCount][arityCount]query

func newQueries(d Dialect, table string) (all queries, err error) {
	rows := [arityCount]rowSource{oneRow: {d.One, d.One}, manyRows: {d.Many, cmp.Or(d.ManyKeys, d.Many)}}
	for s, texts := range [statementCount][arityCount]string{
		readRows:        {d.Read, d.Read},
		readUnlocked:    {oneRow: cmp.Or(d.ReadUnlocked, d.Read)},
		seedRows:        {d.InsertPlaceholders, d.InsertPlaceholders},
		writeRows:       {d.Write, d.Write},
		deleteRows:      {d.Delete, d.Delete},
		deleteUnchanged: {d.DeleteUnchanged, d.DeleteUnchanged},
		takeRows:        {d.Take, d.Take},
		takeKeys:        {manyRows: d.TakeKeys},
		takeOne:         {oneRow: d.TakeOne},
		takeInsertID:    {oneRow: d.TakeInsertID},
		swapRow:         {oneRow: d.CompareAndSwap},
		readPage:        {oneRow: d.Page},
		findNamed:       {oneRow: d.FindPrepared},
	} {
		for n := range arityCount {
			if all[s][n], err = d.compile(texts[n], rows[n], table); err != nil {
				return all, err
			}
		}
	}
	return all, nil
}

// session runs statements, in a transaction or each by itself.
type session interface {
	query(ctx context.Context, s statement, n arity, v *values) (*sql.Rows, error)
	exec(ctx context.Context, s statement, n arity, v *values) (sql.Result, error)
	// pinned runs fn, all of whose statements need the same session of the server.
	pinned(ctx context.Context, fn func(in runtime.Tx) error) error
}

// executor runs each statement by itself, and holds the prepared statements for storeTx too.
type executor struct {
	db      *sql.DB
	queries *queries
	// prepares means that statements are prepared, as [Dialect.Prepare] says.
	prepares bool
	stmts    [statementCount][arityCount]preparedStmt
	mu       sync.Mutex
	// spare are statements that were prepared twice, by two calls at once.
	spare []*sql.Stmt
	// honorsContext means that statements return soon after their context has ended.
	honorsContext bool
	// raw means that takeRaw works.
	raw bool
	// resends means that a statement outside of a transaction may be executed twice.
	resends bool
	// splits means that the driver prepares a statement and runs it by two messages, with a name that a pooler which
	// sends each transaction to another session may find used by another client. Inside a transaction this is safe.
	splits bool
}

// preparedStmt is a statement that is prepared at its first use.
type preparedStmt struct {
	stmt atomic.Pointer[sql.Stmt]
	// wanted is set when a transaction has prepared it for itself only: keeping it would have taken a second connection.
	wanted atomic.Bool
}

func newExecutor(ctx context.Context, db *sql.DB, d *Dialect, q *queries) (*executor, error) {
	x := &executor{db: db, queries: q, prepares: d.Prepare, honorsContext: honorsContext(db)}
	var err error
	if x.resends, x.splits, err = driverBehavior(ctx, db); err != nil {
		return nil, err
	}
	x.raw = takesRaw(db) && !x.prepares
	// A statement that the store has prepared stays with its session.
	x.splits = x.splits && !x.prepares
	if !x.resends && d.RepeatsStatements != "" {
		// The driver sends it once, but a node of a cluster may execute it twice.
		err := db.QueryRowContext(ctx, d.RepeatsStatements).Scan(new(string))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		x.resends = err == nil
	}
	return x, nil
}

// needsTx reports whether a statement that writes is safe only in a transaction, where nothing is sent twice and
// everything goes to one session.
func (x *executor) needsTx() bool { return x.resends || x.splits }

func (x *executor) query(ctx context.Context, s statement, n arity, v *values) (*sql.Rows, error) {
	q := &x.queries[s][n]
	stmt, err := x.stmt(ctx, s, n)
	switch {
	case err != nil:
		return nil, err
	case stmt == nil:
		return x.db.QueryContext(ctx, q.sql, v.args(q)...)
	}
	return stmt.QueryContext(ctx, v.args(q)...)
}

func (x *executor) exec(ctx context.Context, s statement, n arity, v *values) (sql.Result, error) {
	q := &x.queries[s][n]
	stmt, err := x.stmt(ctx, s, n)
	switch {
	case err != nil:
		return nil, err
	case stmt == nil:
		return x.db.ExecContext(ctx, q.sql, v.args(q)...)
	}
	return stmt.ExecContext(ctx, v.args(q)...)
}

// pinned runs fn on another connection if one is lost before fn did anything.
func (x *executor) pinned(ctx context.Context, fn func(in runtime.Tx) error) error {
	return reconnecting(ctx, x.db, func() error {
		conn, err := x.db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		return fn(conn)
	})
}

// stmt returns a prepared statement, or nil if the dialect prepares none.
func (x *executor) stmt(ctx context.Context, s statement, n arity) (*sql.Stmt, error) {
	at := &x.stmts[s][n]
	if stmt := at.stmt.Load(); stmt != nil || !x.prepares {
		return stmt, nil
	}
	stmt, err := x.db.PrepareContext(ctx, x.queries[s][n].sql)
	if err != nil {
		return nil, err
	}
	if !at.stmt.CompareAndSwap(nil, stmt) {
		// Two calls have prepared it at once. Closing one now would wait for the connections that have it, and one of
		// them may not respond, so it is closed with the store.
		x.mu.Lock()
		defer x.mu.Unlock()
		x.spare = append(x.spare, stmt)
	}
	return at.stmt.Load(), nil
}

// prepareWanted prepares the statements that earlier transactions have missed.
func (x *executor) prepareWanted(ctx context.Context) error {
	if !x.prepares {
		return nil
	}
	for s := range x.stmts {
		for n := range x.stmts[s] {
			if at := &x.stmts[s][n]; at.wanted.Load() && at.stmt.Load() == nil {
				if _, err := x.stmt(ctx, statement(s), arity(n)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (x *executor) close() {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, stmt := range x.spare {
		stmt.Close()
	}
	for s := range x.stmts {
		for n := range x.stmts[s] {
			if stmt := x.stmts[s][n].stmt.Load(); stmt != nil {
				stmt.Close()
			}
		}
	}
}

// storeTx is a transaction of the store, with the prepared statements of its executor.
type storeTx struct {
	tx       *sql.Tx
	executor *executor
}

func (t storeTx) query(ctx context.Context, s statement, n arity, v *values) (*sql.Rows, error) {
	stmt, err := t.stmt(ctx, s, n)
	switch {
	case err != nil:
		return nil, err
	case stmt == nil:
		return callerTx{t.tx, t.executor.queries}.query(ctx, s, n, v)
	}
	return stmt.QueryContext(ctx, v.args(&t.executor.queries[s][n])...)
}

func (t storeTx) exec(ctx context.Context, s statement, n arity, v *values) (sql.Result, error) {
	stmt, err := t.stmt(ctx, s, n)
	switch {
	case err != nil:
		return nil, err
	case stmt == nil:
		return callerTx{t.tx, t.executor.queries}.exec(ctx, s, n, v)
	}
	return stmt.ExecContext(ctx, v.args(&t.executor.queries[s][n])...)
}

func (t storeTx) pinned(_ context.Context, fn func(in runtime.Tx) error) error { return fn(t.tx) }

// stmt returns a prepared statement for the transaction, or nil if the dialect prepares none.
func (t storeTx) stmt(ctx context.Context, s statement, n arity) (*sql.Stmt, error) {
	x := t.executor
	if !x.prepares {
		return nil, nil
	}
	at := &x.stmts[s][n]
	if stmt := at.stmt.Load(); stmt != nil {
		return t.tx.StmtContext(ctx, stmt), nil
	}
	at.wanted.Store(true)
	// Not sent as text: MariaDB then reads a variable before the statement has set it.
	return t.tx.PrepareContext(ctx, x.queries[s][n].sql)
}

// callerTx is a transaction of the caller. It uses no prepared statements: to prepare one takes a second connection, and
// the caller may have the only one.
type callerTx struct {
	tx      runtime.Tx
	queries *queries
}

func (t callerTx) query(ctx context.Context, s statement, n arity, v *values) (*sql.Rows, error) {
	q := &t.queries[s][n]
	return t.tx.QueryContext(ctx, q.sql, v.args(q)...)
}

func (t callerTx) exec(ctx context.Context, s statement, n arity, v *values) (sql.Result, error) {
	q := &t.queries[s][n]
	return t.tx.ExecContext(ctx, q.sql, v.args(q)...)
}

func (t callerTx) pinned(_ context.Context, fn func(in runtime.Tx) error) error { return fn(t.tx) }
