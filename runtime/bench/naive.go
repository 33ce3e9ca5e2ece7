package main

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// bucket is a token bucket as it is written by hand: a row is locked, read, decided upon and written in a
// transaction of four statements.
type bucket struct {
	*table
	limit
	read, update, insert *sql.Stmt
}

// selectForUpdate opens a bucket on a server.
func selectForUpdate(of server) opener {
	return func(ctx context.Context, s *site, l limit) (*opened, error) {
		t, err := s.openTable(ctx, of, l)
		if err != nil {
			return nil, err
		}
		b := &bucket{table: t, limit: l}
		if err := b.prepare(); err != nil {
			t.end()
			return nil, err
		}
		return &opened{ask: b.ask, close: t.end}, nil
	}
}

func (b *bucket) prepare() (err error) {
	b.read, err = b.table.prepare("SELECT value, ts FROM {table} WHERE name = ? AND {key} = ? FOR UPDATE")
	if err != nil {
		return err
	}
	b.update, err = b.table.prepare("UPDATE {table} SET value = ?, ts = ? WHERE name = ? AND {key} = ?")
	if err != nil {
		return err
	}
	b.insert, err = b.prepareUpsert()
	return err
}

// ask takes a token.
func (b *bucket) ask(ctx context.Context, key string) (bool, error) {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	now := time.Now().UnixNano()
	value, ts := float64(b.capacity), now
	err = tx.StmtContext(ctx, b.read).QueryRowContext(ctx, b.limit.name, key).Scan(&value, &ts)
	isNew := errors.Is(err, sql.ErrNoRows)
	if err != nil && !isNew {
		return false, err
	}
	value += float64(now-ts) * float64(b.rate) / float64(b.period)
	value = min(value, float64(b.capacity)) - 1
	switch {
	case value < 0:
		return false, nil
	case isNew:
		_, err = tx.StmtContext(ctx, b.insert).ExecContext(ctx, b.limit.name, key, 0, value, now, 0.0)
	default:
		_, err = tx.StmtContext(ctx, b.update).ExecContext(ctx, value, now, b.limit.name, key)
	}
	if err != nil {
		return false, err
	}
	return true, tx.Commit()
}
