package main

import (
	"context"
	"time"
)

// bareUpsert opens the least that a count in a server can cost: one row written, and nothing decided.
func bareUpsert(of server) opener {
	return func(ctx context.Context, s *site, l limit) (*opened, error) {
		t, err := s.openTable(ctx, of, l)
		if err != nil {
			return nil, err
		}
		return t.upserting(l)
	}
}

// bareUpsertOnSQLite is bareUpsert in a file of its own.
func bareUpsertOnSQLite(ctx context.Context, s *site, l limit) (*opened, error) {
	t, err := s.openFile(ctx, s.newFile(), l)
	if err != nil {
		return nil, err
	}
	return t.upserting(l)
}

// upserting prepares the statement that writes a row.
func (t *table) upserting(l limit) (*opened, error) {
	upsert, err := t.prepareUpsert()
	if err != nil {
		t.end()
		return nil, err
	}
	return &opened{
		ask: func(ctx context.Context, key string) (bool, error) {
			_, err := upsert.ExecContext(ctx, l.name, key, 0, 1.0, time.Now().UnixNano(), 0.0)
			return err == nil, err
		},
		close: t.end,
	}, nil
}
