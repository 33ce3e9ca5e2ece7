package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
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
	} {
		for f := range formCount {
			if t[s][f], err = d.compile(written[f], rows[f], table); err != nil {
				return t, err
			}
		}
	}
	return t, nil
}

// prepared are the texts, prepared in the store's database.
type prepared struct {
	texts *texts
	stmts [statementCount][formCount]*sql.Stmt
	// resends says that a statement outside of a transaction may be carried out twice.
	resends bool
}

// outdated reports whether a statement must be prepared anew, for Postgres has seen that its table has changed, or
// somebody else has been told so and has closed it.
func outdated(err error) bool {
	if err == nil {
		return false
	}
	return changedTable(err) || strings.Contains(err.Error(), "sql: statement is closed")
}

// changedTable reports whether Postgres says that a statement's result is no longer what it was when it was prepared.
func changedTable(err error) bool {
	var stated interface{ SQLState() string }
	return errors.As(err, &stated) && strings.Contains(err.Error(), "cached plan must not change result type")
}

func (s *Store) prepareAll(ctx context.Context) (*prepared, error) {
	p := &prepared{texts: &s.texts, resends: resends(s.db)}
	if !p.resends && s.dialect.Repeats != "" {
		err := s.db.QueryRowContext(ctx, s.dialect.Repeats).Scan(new(string))
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		p.resends = err == nil
	}
	for i, forms := range s.texts {
		for f, t := range forms {
			if t.sql == "" {
				continue
			}
			var err error
			if p.stmts[i][f], err = s.db.PrepareContext(ctx, t.sql); err != nil {
				p.close()
				return nil, err
			}
		}
	}
	return p, nil
}

func (p *prepared) close() {
	if p == nil {
		return
	}
	for _, forms := range p.stmts {
		for _, stmt := range forms {
			if stmt != nil {
				stmt.Close()
			}
		}
	}
}
