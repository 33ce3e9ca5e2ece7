package sqlstore

import (
	"context"
	"database/sql"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// statement is one of the dialect's texts.
type statement int

const (
	readRow statement = iota
	seedRow
	writeRow
	deleteRow
	readPage
	forgetRow
	statementCount
)

// texts are the dialect's texts for the store's table.
type texts [statementCount]string

func newTexts(d Dialect, table string) (t texts, err error) {
	for i, text := range []string{d.Read, d.Seed, d.Write, d.Delete, d.Page, d.Forget} {
		if t[i], err = d.Text(text, table); err != nil {
			return t, err
		}
	}
	return t, nil
}

// prepared are the texts, prepared in the store's database.
type prepared [statementCount]*sql.Stmt

// prepare prepares the statements at the first use, when the table must exist.
func (s *Store) prepare(ctx context.Context) (*prepared, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if s.prepared != nil {
		return s.prepared, nil
	}
	p, err := s.prepareAll(ctx)
	if err != nil {
		return nil, s.blameTable(ctx, err)
	}
	if err := s.check(ctx, s.db); err != nil {
		p.close()
		return nil, err
	}
	s.prepared = p
	return p, nil
}

func (s *Store) prepareAll(ctx context.Context) (*prepared, error) {
	p := new(prepared)
	for i, text := range s.texts {
		if text == "" {
			continue
		}
		var err error
		if p[i], err = s.db.PrepareContext(ctx, text); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

func (p *prepared) close() {
	for _, stmt := range p {
		if stmt != nil {
			stmt.Close()
		}
	}
}

// session runs statements in a transaction.
type session interface {
	exec(ctx context.Context, s statement, args ...any) (sql.Result, error)
	queryRow(ctx context.Context, s statement, args ...any) *sql.Row
}

// own is a transaction of the store, with the prepared statements.
type own struct {
	tx       *sql.Tx
	prepared *prepared
}

func (o own) exec(ctx context.Context, s statement, args ...any) (sql.Result, error) {
	return o.tx.StmtContext(ctx, o.prepared[s]).ExecContext(ctx, args...)
}

func (o own) queryRow(ctx context.Context, s statement, args ...any) *sql.Row {
	return o.tx.StmtContext(ctx, o.prepared[s]).QueryRowContext(ctx, args...)
}

// callers is a transaction of the caller. What is prepared in the database is not used in it: to prepare
// takes a connection, and the caller may have the only one.
type callers struct {
	tx    runtime.Tx
	texts *texts
}

func (c callers) exec(ctx context.Context, s statement, args ...any) (sql.Result, error) {
	return c.tx.ExecContext(ctx, c.texts[s], args...)
}

func (c callers) queryRow(ctx context.Context, s statement, args ...any) *sql.Row {
	return c.tx.QueryRowContext(ctx, c.texts[s], args...)
}
