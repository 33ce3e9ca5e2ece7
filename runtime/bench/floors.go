package main

import (
	"context"
	"time"
)

// bareUpsert opens a contender on a server that writes rows without a decision.
func bareUpsert(of server) opener {
	return func(ctx context.Context, s *site, l limit) (*instance, error) {
		t, err := s.openTable(ctx, of, l)
		if err != nil {
			return nil, err
		}
		return t.upserting(l)
	}
}

// bareUpsertOnSQLite is bareUpsert in a new file.
func bareUpsertOnSQLite(ctx context.Context, s *site, l limit) (*instance, error) {
	t, err := s.openFile(ctx, s.newFile(), l)
	if err != nil {
		return nil, err
	}
	return t.upserting(l)
}

func (t *table) upserting(l limit) (*instance, error) {
	upsert, err := t.prepareUpsert()
	if err != nil {
		t.drop()
		return nil, err
	}
	take := func(ctx context.Context, key string) (bool, error) {
		// The timestamp changes, because databases skip the write of an unchanged row.
		_, err := upsert.ExecContext(ctx, l.name, key, 0, 1.0, time.Now().UnixNano(), 0.0)
		return err == nil, err
	}
	return &instance{take: take, close: t.drop}, nil
}
