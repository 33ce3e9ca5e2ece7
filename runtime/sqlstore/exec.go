package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// statement is one of the dialect's texts. Those that are about rows come in two forms: for one row, and for
// many.
type statement int

const (
	readRows statement = iota
	lookRows
	seedRows
	writeRows
	deleteRows
	forgetRows
	takeRows
	tellRow
	swapRows
	readPage
	askNamed
	statementCount
)

// form is how a statement is given its rows.
type form int

const (
	oneRow form = iota
	manyRows
	formCount
)

// texts are the dialect's texts for the store's table.
type texts [statementCount][formCount]text

func newTexts(d Dialect, table string) (t texts, err error) {
	if d.One == "" || d.Many == "" || d.Read == "" || d.Write == "" || d.Delete == "" {
		return t, fmt.Errorf("dialect %q has no One, Many, Read, Write or Delete", d.Name)
	}
	rows := [formCount]given{oneRow: {d.One, d.One}, manyRows: {d.Many, cmp.Or(d.ManyKeys, d.Many)}}
	for s, written := range [statementCount][formCount]string{
		readRows:   {d.Read, d.Read},
		lookRows:   {oneRow: cmp.Or(d.Look, d.Read)},
		seedRows:   {d.Seed, d.Seed},
		writeRows:  {d.Write, d.Write},
		deleteRows: {d.Delete, d.Delete},
		forgetRows: {d.Forget, d.Forget},
		takeRows:   {cmp.Or(d.TakeOne, d.Take), d.Take},
		tellRow:    {oneRow: d.TakeTold},
		swapRows:   {oneRow: d.Swap},
		readPage:   {oneRow: d.Page},
		askNamed:   {oneRow: d.Named},
	} {
		for f := range formCount {
			if t[s][f], err = d.compile(written[f], rows[f], table); err != nil {
				return t, err
			}
		}
	}
	return t, nil
}

// prepared are the texts, and what is known of the way to the database. The statements of a dialect that has them
// prepared are prepared in the store's database, each at its first use.
type prepared struct {
	db    *sql.DB
	texts *texts
	// keeps says that statements are prepared.
	keeps bool
	stmts [statementCount][formCount]preparedStmt
	mu    sync.Mutex
	// spare are statements that two calls have prepared.
	spare []*sql.Stmt
	// resends says that a statement outside of a transaction may be carried out twice.
	resends bool
	// splits says that the driver prepares a statement and runs it by two messages, and names it so that a pooler that
	// sends each transaction to another session may run another client's. In a transaction it cannot.
	splits bool
}

// preparedStmt is a statement that may be prepared.
type preparedStmt struct {
	stmt atomic.Pointer[sql.Stmt]
	// wanted says that a transaction has had to prepare it for itself: to keep it would have taken a second connection.
	wanted atomic.Bool
}

func (s *Store) newPrepared(ctx context.Context) (*prepared, error) {
	p := &prepared{db: s.db, texts: &s.texts, keeps: s.dialect.Prepare}
	var err error
	if p.resends, p.splits, err = conduct(ctx, s.db); err != nil {
		return nil, err
	}
	p.splits = p.splits && !p.keeps
	if !p.resends && s.dialect.Repeats != "" {
		err := s.db.QueryRowContext(ctx, s.dialect.Repeats).Scan(new(string))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		p.resends = err == nil
	}
	return p, nil
}

// stmt returns a statement, and prepares it at its first use. It is nil if statements are not prepared. Of two calls that
// prepare it at once, the second one's is kept until the store is closed: database/sql closes a statement only when each
// connection that has it is free, and one that does not answer is not.
func (p *prepared) stmt(ctx context.Context, s statement, f form) (*sql.Stmt, error) {
	at := &p.stmts[s][f]
	if stmt := at.stmt.Load(); stmt != nil || !p.keeps {
		return stmt, nil
	}
	stmt, err := p.db.PrepareContext(ctx, p.texts[s][f].sql)
	if err != nil {
		return nil, err
	}
	if !at.stmt.CompareAndSwap(nil, stmt) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.spare = append(p.spare, stmt)
	}
	return at.stmt.Load(), nil
}

// stmtInTx is stmt in a transaction, which needs its only connection. It is nil if the statement is not prepared yet.
func (p *prepared) stmtInTx(s statement, f form) *sql.Stmt {
	at := &p.stmts[s][f]
	stmt := at.stmt.Load()
	if stmt == nil && p.keeps {
		at.wanted.Store(true)
	}
	return stmt
}

// prepareWanted prepares what earlier transactions would have used.
func (p *prepared) prepareWanted(ctx context.Context) error {
	if !p.keeps {
		return nil
	}
	for s := range p.stmts {
		for f := range p.stmts[s] {
			if at := &p.stmts[s][f]; at.wanted.Load() && at.stmt.Load() == nil {
				if _, err := p.stmt(ctx, statement(s), form(f)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (p *prepared) close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, stmt := range p.spare {
		stmt.Close()
	}
	for s := range p.stmts {
		for f := range p.stmts[s] {
			if stmt := p.stmts[s][f].stmt.Load(); stmt != nil {
				stmt.Close()
			}
		}
	}
}

// query runs a statement outside of a transaction.
func (p *prepared) query(ctx context.Context, s statement, f form, v *values) (*sql.Rows, error) {
	stmt, err := p.stmt(ctx, s, f)
	switch {
	case err != nil:
		return nil, err
	case stmt == nil:
		return p.db.QueryContext(ctx, p.texts[s][f].sql, p.texts[s][f].args(v)...)
	}
	return stmt.QueryContext(ctx, p.texts[s][f].args(v)...)
}

// exec runs a statement outside of a transaction.
func (p *prepared) exec(ctx context.Context, s statement, f form, v *values) (sql.Result, error) {
	stmt, err := p.stmt(ctx, s, f)
	switch {
	case err != nil:
		return nil, err
	case stmt == nil:
		return p.db.ExecContext(ctx, p.texts[s][f].sql, p.texts[s][f].args(v)...)
	}
	return stmt.ExecContext(ctx, p.texts[s][f].args(v)...)
}

// session runs statements, in a transaction or each by itself.
type session interface {
	query(ctx context.Context, s statement, f form, v *values) (*sql.Rows, error)
	exec(ctx context.Context, s statement, f form, v *values) (sql.Result, error)
}

// own is a transaction of the store, with its prepared statements.
type own struct {
	tx       *sql.Tx
	prepared *prepared
}

func (o own) exec(ctx context.Context, s statement, f form, v *values) (sql.Result, error) {
	stmt, err := o.stmt(ctx, s, f)
	switch {
	case err != nil:
		return nil, err
	case stmt == nil:
		return callers{o.tx, o.prepared.texts}.exec(ctx, s, f, v)
	}
	return stmt.ExecContext(ctx, o.prepared.texts[s][f].args(v)...)
}

func (o own) query(ctx context.Context, s statement, f form, v *values) (*sql.Rows, error) {
	stmt, err := o.stmt(ctx, s, f)
	switch {
	case err != nil:
		return nil, err
	case stmt == nil:
		return callers{o.tx, o.prepared.texts}.query(ctx, s, f, v)
	}
	return stmt.QueryContext(ctx, o.prepared.texts[s][f].args(v)...)
}

// stmt returns a statement as the transaction runs it, or nil if it runs the text.
func (o own) stmt(ctx context.Context, s statement, f form) (*sql.Stmt, error) {
	switch stmt := o.prepared.stmtInTx(s, f); {
	case stmt != nil:
		return o.tx.StmtContext(ctx, stmt), nil
	case o.prepared.keeps:
		// Prepared for this transaction only: by a text, MariaDB reads a variable before the statement has set it.
		return o.tx.PrepareContext(ctx, o.prepared.texts[s][f].sql)
	}
	return nil, nil
}

// callers is a transaction of the caller. What is prepared in the database is not used in it: to prepare
// takes a connection, and the caller may have the only one.
type callers struct {
	tx    runtime.Tx
	texts *texts
}

func (c callers) exec(ctx context.Context, s statement, f form, v *values) (sql.Result, error) {
	return c.tx.ExecContext(ctx, c.texts[s][f].sql, c.texts[s][f].args(v)...)
}

func (c callers) query(ctx context.Context, s statement, f form, v *values) (*sql.Rows, error) {
	return c.tx.QueryContext(ctx, c.texts[s][f].sql, c.texts[s][f].args(v)...)
}

// again runs fn, which uses one connection, and once more on another one if that was lost before anything was done.
// Each try uses up a connection of the pool that the server has closed.
func (s *Store) again(ctx context.Context, fn func() error) error {
	for tries := s.db.Stats().OpenConnections + 1; ; tries-- {
		err := fn()
		if tries == 0 || ctx.Err() != nil || !errors.As(err, new(*unbegunError)) {
			return err
		}
	}
}

// single runs fn, which runs a statement that does no harm if it is carried out twice, outside of a transaction if the
// driver does not split it.
func (s *Store) single(ctx context.Context, p *prepared, fn func(session) error) error {
	if p.splits {
		return s.inTx(ctx, p, runtime.DurabilityDefault, fn)
	}
	return fn(p)
}

// stored is a row with its state.
type stored struct {
	row   runtime.Row
	state runtime.State
}

// bind returns the form in which a statement takes rows, and the values of its parameters: a single row has
// parameters of its own, several are one text in JSON or a few lists, so that any number of them is one statement.
func bind(rows []stored) (form, *values) {
	v := new(values)
	v[paramRows] = rows
	if len(rows) > 0 {
		r, s := rows[0].row, rows[0].state
		v[paramName], v[paramKey], v[paramShard] = r.Name, r.Key, r.Shard
		v[paramValue], v[paramTS], v[paramPrev] = s.Value, s.TS, s.Prev
	}
	if len(rows) == 1 {
		return oneRow, v
	}
	return manyRows, v
}

// arg returns the argument for a parameter. What stands for several rows is written when the statement is run, as that
// wants it.
func (v *values) arg(p param) any {
	write := manyOf[p]
	if write == nil {
		return v[p]
	}
	rows, _ := v[paramRows].([]stored)
	return write(rows)
}

// manyOf has how several rows are written, for the parameters that stand for them.
var manyOf = [paramTotal]func([]stored) string{
	paramRows:    func(rows []stored) string { return asJSON(rows, appendRow) },
	paramIDs:     func(rows []stored) string { return asJSON(rows, appendID) },
	paramTakes:   func(rows []stored) string { return asJSON(rows, appendTake) },
	listNames:    listOf(func(r *stored) string { return r.row.Name }, appendString),
	listKeys:     listOf(func(r *stored) string { return r.row.Key }, appendString),
	listShards:   listOf(func(r *stored) int64 { return int64(r.row.Shard) }, appendInt),
	listValues:   listOf(func(r *stored) uint64 { return math.Float64bits(r.state.Value) }, appendFloat),
	listInstants: listOf(func(r *stored) int64 { return r.state.TS }, appendInt),
	listPrevs:    listOf(func(r *stored) uint64 { return math.Float64bits(r.state.Prev) }, appendFloat),
}

// asJSON writes rows as a list.
func asJSON(rows []stored, appendTo func([]byte, *stored) []byte) string {
	b := make([]byte, 0, 80*len(rows))
	b = append(b, '[')
	for i := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendTo(b, &rows[i])
	}
	return string(append(b, ']'))
}

// appendRow writes all columns of a row as a list.
func appendRow(b []byte, r *stored) []byte {
	b = appendID(b, r)
	b = append(b[:len(b)-1], ',')
	b = appendDouble(b, r.state.Value)
	b = append(b, ',')
	b = strconv.AppendInt(b, r.state.TS, 10)
	b = append(b, ',')
	b = appendDouble(b, r.state.Prev)
	return append(b, ']')
}

// appendTake writes the columns key, value and ts of a row as a list.
func appendTake(b []byte, r *stored) []byte {
	b = append(b, '[')
	b = appendString(b, r.row.Key)
	b = append(b, ',')
	b = appendDouble(b, r.state.Value)
	b = append(b, ',')
	b = strconv.AppendInt(b, r.state.TS, 10)
	return append(b, ']')
}

// appendDouble writes a number as a text in JSON: MySQL 8.0 may read the last digit of a number otherwise than
// that of a text.
func appendDouble(b []byte, x float64) []byte {
	b = append(b, '"')
	b = strconv.AppendFloat(b, x, 'g', -1, 64)
	return append(b, '"')
}

// appendID writes the columns name, key and shard of a row as a list.
func appendID(b []byte, r *stored) []byte {
	b = append(b, '[')
	b = appendString(b, r.row.Name)
	b = append(b, ',')
	b = appendString(b, r.row.Key)
	b = append(b, ',')
	b = strconv.AppendInt(b, int64(r.row.Shard), 10)
	return append(b, ']')
}

// appendString writes a text without control characters, as names and keys are, in JSON.
func appendString(b []byte, text string) []byte {
	b = append(b, '"')
	for {
		i := strings.IndexAny(text, `"\`)
		if i < 0 {
			break
		}
		b = append(b, text[:i]...)
		b = append(b, '\\', text[i])
		text = text[i+1:]
	}
	b = append(b, text...)
	return append(b, '"')
}
