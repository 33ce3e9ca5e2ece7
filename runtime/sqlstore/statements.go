package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// statements are the dialect's texts, prepared.
type statements struct {
	read, write, delete, page, forget *sql.Stmt
}

// ErrClosed: the store has been closed.
var ErrClosed = errors.New("the store is closed")

// statements prepares the statements at the first use, when the table must exist.
func (s *Store) statements(ctx context.Context) (*statements, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if s.prepared != nil {
		return s.prepared, nil
	}
	p, err := s.prepare(ctx)
	if err != nil {
		return nil, fmt.Errorf("table %q cannot be used (if there is none, Migrate creates it): %w", s.table, err)
	}
	s.prepared = p
	return p, nil
}

func (s *Store) prepare(ctx context.Context) (*statements, error) {
	p, d := &statements{}, s.dialect
	texts := []string{d.Read, d.Write, d.Delete, d.Page, d.Forget}
	for i, stmt := range p.all() {
		text, err := d.Text(texts[i], s.table)
		if err == nil {
			*stmt, err = s.db.PrepareContext(ctx, text)
		}
		if err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

func (p *statements) all() []**sql.Stmt {
	return []**sql.Stmt{&p.read, &p.write, &p.delete, &p.page, &p.forget}
}

func (p *statements) close() {
	for _, stmt := range p.all() {
		if *stmt != nil {
			(*stmt).Close()
		}
	}
}

// Close releases what the store has prepared in the database, and lets every later call fail with
// [ErrClosed]. It does not close the database.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.prepared != nil {
		s.prepared.close()
		s.prepared = nil
	}
	return nil
}
