package table

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// side is a table beside that of the counts, whose name is derived from theirs.
type side struct {
	prepared *Prepared
	server   *conn.Server
	name     string
	// Err is why there is none: the dialect lacks it, or its name is too long.
	Err error
	// parts is what Describe of the dialect must select.
	create, parts string
	// missing and lacking are the hints for the table and for a privilege on it.
	missing, lacking string
	// autoCreate means that the store may create the table when it needs it.
	autoCreate bool
}

// newSide returns the table with this name, which has an error if the database cannot have one with it.
func newSide(on *Prepared, name string) side {
	_, err := on.Server.Dialect.Text("", name)
	return side{prepared: on, server: on.Server, name: name, Err: err}
}

// sql returns a statement with the dialect's parameters in place of question marks, and the table's name filled in.
func (s *side) sql(statement string) string {
	// The name has been checked.
	filled, _ := s.server.Naming(s.name, s.server.Dialect.WithNumbers(statement))
	return filled
}

// reading is sql for a statement that reads.
func (s *side) reading(statement string) string {
	return s.server.Dialect.Reading(s.sql(statement))
}

// CreateTable creates the table if it does not exist.
func (s *side) CreateTable(ctx context.Context) error {
	if s.Err != nil {
		return s.Err
	}
	if err := s.server.CreateTable(ctx, s.name, s.create); err != nil {
		return fmt.Errorf("create table %q: %w", s.name, s.Explain(err))
	}
	return nil
}

// creating runs fn, and again when it has created the table that fn has not found, if the store may.
func (s *side) creating(ctx context.Context, fn func() error) error {
	err := fn()
	if !s.autoCreate || !fault.NoTable(err) {
		return err
	}
	if err := s.CreateTable(ctx); err != nil {
		return err
	}
	return fn()
}

// checkParts compares the table with the dialect's requirements.
func (s *side) checkParts(ctx context.Context) error {
	if s.server.Dialect.Describe == "" {
		return nil
	}
	found, err := conn.Describe(ctx, s.server.DB, s.sql(s.server.Dialect.Describe))
	if err != nil {
		return s.Explain(err)
	}
	if len(found) == 0 {
		return &fault.Hinted{Text: s.fillIn(s.missing), Err: nil}
	}
	if all := conn.Differences(s.parts, found); len(all) > 0 {
		return &fault.Hinted{Text: s.fillIn(fault.WrongTable) + ": " + strings.Join(all, "; "), Err: nil}
	}
	return nil
}

// Explain adds the hints that name the table.
func (s *side) Explain(err error) error {
	switch {
	case err == nil || errors.As(err, new(*fault.Hinted)):
		return err
	case fault.NoTable(err):
		return &fault.Hinted{Text: s.fillIn(s.missing), Err: err}
	case fault.NoPrivilege(err):
		return &fault.Hinted{Text: s.fillIn(s.lacking), Err: err}
	}
	return err
}

func (s *side) fillIn(hint string) string {
	return s.server.FillIn(strings.ReplaceAll(hint, "{table}", strconv.Quote(s.name)))
}
