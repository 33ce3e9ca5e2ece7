package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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
