package conn

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

// Statement is one of the dialect's statements.
type Statement int

const (
	ReadRows Statement = iota
	ReadUnlocked
	ReadFree
	SeedRows
	WriteRows
	DeleteRows
	DeleteUnchanged
	DeleteKey
	TakeRows
	TakeKeys
	TakeEach
	TakeShards
	TakeOne
	TakeInsertID
	SwapRow
	SwapRows
	ReadPage
	FindHolder
	FindNamed
	statementCount
)

// statementTexts are the texts of a statement. waits: it may wait for a lock.
type statementTexts struct {
	texts [arityCount]string
	waits bool
}

func statements(d *dialect.Dialect) [statementCount]statementTexts {
	both := func(text string) [arityCount]string { return [arityCount]string{text, text} }
	return [statementCount]statementTexts{
		ReadRows: {texts: both(d.Read), waits: true},
		ReadUnlocked: {texts: [arityCount]string{
			d.Reading(cmp.Or(d.ReadUnlocked, d.Read)),
			d.Reading(cmp.Or(d.ReadManyUnlocked, d.ReadUnlocked, d.Read)),
		}},
		ReadFree:        {texts: both(d.ReadFree)},
		SeedRows:        {texts: both(d.InsertPlaceholders), waits: true},
		WriteRows:       {texts: both(d.Write)},  // of rows that are locked
		DeleteRows:      {texts: both(d.Delete)}, // of rows that are locked
		DeleteUnchanged: {texts: both(d.DeleteUnchanged), waits: true},
		// It has only deleted rows of a key whose first one is locked.
		DeleteKey:    {texts: [arityCount]string{OneRow: d.DeleteKey}},
		TakeRows:     {texts: both(d.Take), waits: true},
		TakeKeys:     {texts: [arityCount]string{ManyRows: d.TakeKeys}, waits: true},
		TakeEach:     {texts: [arityCount]string{ManyRows: d.TakeEach}, waits: true},
		TakeShards:   {texts: both(d.TakeShards), waits: true},
		TakeOne:      {texts: [arityCount]string{OneRow: d.TakeOne}, waits: true},
		TakeInsertID: {texts: [arityCount]string{OneRow: d.TakeInsertID}, waits: true},
		SwapRow:      {texts: [arityCount]string{OneRow: d.CompareAndSwap}, waits: true},
		SwapRows:     {texts: [arityCount]string{ManyRows: d.SwapMany}, waits: true},
		ReadPage:     {texts: [arityCount]string{OneRow: d.Reading(d.Page)}},
		FindHolder:   {texts: [arityCount]string{OneRow: d.Holder}},
		FindNamed:    {texts: [arityCount]string{OneRow: d.FindPrepared}},
	}
}

// Queries are the dialect's statements for the store's table.
type Queries [statementCount][arityCount]Query

func newQueries(d dialect.Dialect, schema, table string) (all Queries, err error) {
	return newQueriesOf(d, schema, table, rowSources(d))
}

func newQueriesOf(d dialect.Dialect, schema, table string, rows [arityCount]RowSource) (all Queries, err error) {
	for s, statement := range statements(&d) {
		for n := range arityCount {
			if all[s][n], err = Compile(d, statement.texts[n], rows[n], schema, table); err != nil {
				return all, err
			}
			all[s][n].waits = statement.waits
		}
	}
	return all, nil
}

func rowSources(d dialect.Dialect) [arityCount]RowSource {
	return [arityCount]RowSource{
		OneRow:   {d.One, d.OneLogged, cmp.Or(d.OneKey, d.One), "", "", ":first_part"},
		ManyRows: {d.Many, d.ManyLogged, cmp.Or(d.ManyKeys, d.Many), d.ManySwapped, d.ManyNumbered, ":parts"},
	}
}

// Runner runs statements: a pool, a connection or a transaction. The store has the transactions of its callers as one, so
// that it cannot end them.
type Runner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Session runs statements, in a transaction or each by itself, and texts as a [Runner] does.
type Session interface {
	Runner
	Query(ctx context.Context, s Statement, n Arity, v *Values) (*sql.Rows, error)
	Exec(ctx context.Context, s Statement, n Arity, v *Values) (sql.Result, error)
	// Pinned runs fn, all of whose statements need the same session of the server.
	Pinned(ctx context.Context, fn func(in Runner) error) error
	// InTime runs a statement of MySQL that may wait for locks, on a session that is pinned.
	InTime(ctx context.Context, text string, run func(text string) error) error
}

// session is a [Session] on a transaction, or on a pool.
type session struct {
	Runner
	queries *Queries
	// prepared returns a prepared statement. It is nil if statements are sent as texts.
	prepared func(ctx context.Context, s Statement, n Arity) (*sql.Stmt, error)
	// killer is nil if statements may wait, or are bounded by their texts. pin is [Session.Pinned] of the session that embeds
	// this one, or nil.
	killer *killer
	pin    func(ctx context.Context, fn func(in Runner) error) error
}

func (t *session) Query(ctx context.Context, s Statement, n Arity, v *Values) (rows *sql.Rows, err error) {
	q := &t.queries[s][n]
	if t.killer != nil && q.waits || q.literal {
		// In a transaction, which holds its session. The few rows come at once, when none of them is locked any more.
		err = t.InTime(ctx, q.Literal(v), func(text string) error {
			rows, err = t.QueryContext(ctx, text)
			return err
		})
		return rows, err
	}
	if t.prepared == nil {
		return t.QueryContext(ctx, q.Text, v.Args(q)...)
	}
	stmt, err := t.prepared(ctx, s, n)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, v.Args(q)...)
}

func (t *session) Exec(ctx context.Context, s Statement, n Arity, v *Values) (result sql.Result, err error) {
	q := &t.queries[s][n]
	if t.killer != nil && q.waits || q.literal {
		err = t.Pinned(ctx, func(in Runner) error {
			return t.InTime(ctx, q.Literal(v), func(text string) error {
				result, err = in.ExecContext(ctx, text)
				return Unsent(err)
			})
		})
		return result, err
	}
	if t.prepared == nil {
		return t.ExecContext(ctx, q.Text, v.Args(q)...)
	}
	stmt, err := t.prepared(ctx, s, n)
	if err != nil {
		return nil, err
	}
	return stmt.ExecContext(ctx, v.Args(q)...)
}

// Pinned implements [Session].
func (t *session) Pinned(ctx context.Context, fn func(in Runner) error) error {
	if t.pin != nil {
		return t.pin(ctx, fn)
	}
	return fn(t.Runner)
}

// InTime implements [Session].
func (t *session) InTime(ctx context.Context, text string, run func(text string) error) error {
	if t.killer == nil {
		return run(text)
	}
	return t.killer.run(ctx, text, run)
}

// Executor runs each statement by itself, and holds the prepared statements for transactions of the store too.
type Executor struct {
	session
	pool
	stmts [statementCount][arityCount]preparedStmt
	mu    sync.Mutex
	// spare are statements that were prepared twice, by two calls at once.
	spare []*sql.Stmt
	// Together is nil if the dialect has no such statements.
	Together *Together
	// Bounded is the same with statements that wait for a lock for a moment only, and then fail with an error of which
	// [fault.LockTimeout] is true. It is nil if the dialect has none, or this is the one.
	Bounded *Executor
	bounded bool
}

// pool is a database, and how its driver behaves.
type pool struct {
	DB *sql.DB
	// HonorsContext means that statements return soon after their context has ended.
	HonorsContext bool
	// Raw means that TakeRaw works.
	Raw bool
	// Resends means that a statement outside of a transaction may be executed twice.
	Resends bool
	// Splits means that the driver prepares a statement and runs it by two messages, with a name that a pooler which
	// sends each transaction to another session may find used by another client. Inside a transaction this is safe.
	Splits bool
}

// Retry is [Retry], but for errors after a lock for which a statement of the executor does not wait.
func (x *Executor) Retry(ctx context.Context, transaction func(ctx context.Context) error) error {
	return Retrier{Bounded: x.bounded}.run(ctx, transaction)
}

// Retrier returns a new one of the executor.
func (x *Executor) Retrier() Retrier { return Retrier{Bounded: x.bounded} }

// Bounds is the statements that wait for a lock for a moment only: by their texts, or because the killer ends them.
type Bounds struct {
	queries  Queries
	together *Together
	killer   *killer
}

// boundedBy returns the executor for statements that wait for a moment only.
func (x *Executor) boundedBy(by *Bounds) *Executor {
	b := &Executor{
		session: session{Runner: x.DB, queries: &by.queries, killer: by.killer}, pool: x.pool, Together: by.together, bounded: true,
	}
	b.pin = b.Pinned
	if x.prepared != nil {
		b.prepared = b.stmt
	}
	return b
}

// preparedStmt is a statement that is prepared at its first use.
type preparedStmt struct {
	stmt atomic.Pointer[sql.Stmt]
	// wanted is set when a transaction has prepared it for itself only: keeping it would have taken a second connection.
	wanted atomic.Bool
}

// NewExecutor returns the executor of these statements, after it has asked the server and the driver how they behave.
func NewExecutor(ctx context.Context, db *sql.DB, d *dialect.Dialect, q *Queries, t *Together, b *Bounds) (*Executor, error) {
	x := &Executor{session: session{Runner: db}, pool: pool{DB: db, HonorsContext: honorsContext(db)}}
	if d.Prepare {
		x.prepared = x.stmt
	}
	var err error
	if x.Resends, x.Splits, err = driverBehavior(ctx, db); err != nil {
		return nil, err
	}
	x.Raw = takesRaw(db) && !d.Prepare
	// A statement that the store has prepared stays with its session.
	x.Splits = x.Splits && !d.Prepare
	if !x.Resends && d.RepeatsStatements != "" {
		// The driver sends it once, but a node of a cluster may execute it twice.
		err := db.QueryRowContext(ctx, d.RepeatsStatements).Scan(new(string))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		x.Resends = err == nil
	}
	x.Use(q, t, b)
	return x, nil
}

// Use has an executor that no call uses yet run other statements. Together and Bounds may be nil.
func (x *Executor) Use(q *Queries, t *Together, b *Bounds) {
	x.queries, x.Together = q, t
	if b != nil {
		x.Bounded = x.boundedBy(b)
	}
}

// Has reports whether the dialect has a statement for one row.
func (x *Executor) Has(s Statement) bool { return x.queries[s][OneRow].Text != "" }

// NeedsTx reports whether a statement that writes is safe only in a transaction, where nothing is sent twice and
// everything goes to one session.
func (x *Executor) NeedsTx() bool { return x.Resends || x.Splits }

// Pinned runs fn on another connection if one is lost before fn did anything.
func (x *Executor) Pinned(ctx context.Context, fn func(in Runner) error) error {
	return reconnecting(ctx, x.DB, func() error {
		conn, err := x.DB.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		return fn(conn)
	})
}

// stmt returns a prepared statement.
func (x *Executor) stmt(ctx context.Context, s Statement, n Arity) (*sql.Stmt, error) {
	at := &x.stmts[s][n]
	if stmt := at.stmt.Load(); stmt != nil {
		return stmt, nil
	}
	stmt, err := x.DB.PrepareContext(ctx, x.queries[s][n].Text)
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
func (x *Executor) prepareWanted(ctx context.Context) error {
	for s := range x.stmts {
		for n := range x.stmts[s] {
			if at := &x.stmts[s][n]; at.wanted.Load() && at.stmt.Load() == nil {
				if _, err := x.stmt(ctx, Statement(s), Arity(n)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Close closes the prepared statements. A nil Executor has none.
func (x *Executor) Close() {
	if x == nil {
		return
	}
	defer x.Bounded.Close()
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

// TakeRaw runs the dialect's TakeOne by the methods of the driver's connection, and sets after to the row that it selects.
// For each query whose context can be canceled, package database/sql starts a goroutine, which takes much of the
// processor time of a lone call in this process. If sent is false, the server has not executed the statement.
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
		rows, err := on.(driver.QueryerContext).QueryContext(ctx, q.Text, named)
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

// in returns the session of a transaction of the store.
func (x *Executor) in(tx *sql.Tx) Session {
	t := &session{Runner: tx, queries: x.queries, killer: x.killer}
	if x.prepared == nil {
		return t
	}
	t.prepared = func(ctx context.Context, s Statement, n Arity) (*sql.Stmt, error) {
		at := &x.stmts[s][n]
		if stmt := at.stmt.Load(); stmt != nil {
			return tx.StmtContext(ctx, stmt), nil
		}
		at.wanted.Store(true)
		// Not sent as text: MariaDB then reads a variable before the statement has set it.
		return tx.PrepareContext(ctx, x.queries[s][n].Text)
	}
	return t
}
