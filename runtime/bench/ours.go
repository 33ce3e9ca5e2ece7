package main

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// oursOnSQLite opens a store in a new file.
func oursOnSQLite(ctx context.Context, s *site, l limit) (*instance, error) {
	path := s.newFile()
	t, err := s.openFile(ctx, path, l)
	if err != nil {
		return nil, err
	}
	// The store opens the file again, with its own connections and settings.
	if err := t.db.Close(); err != nil {
		return nil, err
	}
	store, err := sqlite.Open(path)
	if err != nil {
		return nil, err
	}
	return ourStore(store, runtime.Policy{}, l, func() {}), nil
}

// oursOn opens a store in a new table of a server, with what a policy has besides the numbers of the limit.
func oursOn(of server, as runtime.Policy) opener {
	return func(ctx context.Context, s *site, l limit) (*instance, error) {
		t, err := s.openTable(ctx, of, l)
		if err != nil {
			return nil, err
		}
		store, err := sqlstore.New(t.db, t.dialect, sqlstore.Options{Table: t.name})
		if err != nil {
			t.drop()
			return nil, err
		}
		return ourStore(store, as, l, t.drop), nil
	}
}

type closingStore interface {
	runtime.Store
	runtime.Sweeper
	io.Closer
}

// ourStore takes tokens like code that is generated from limits.yaml. end runs after the store is closed.
func ourStore(store closingStore, policy runtime.Policy, l limit, end func()) *instance {
	limits := limiter.New(store)
	policy.Name, policy.Kind = l.name, runtime.TokenBucket
	policy.Rate, policy.Period, policy.Capacity = int64(l.rate), l.period, int64(l.capacity)
	return &instance{
		take: func(ctx context.Context, key string) (bool, error) {
			// A new handle for each call, as generated code makes it: encoding the key is part of the cost.
			d, err := limits.Limit(&policy, runtime.KeyOf(runtime.String(key))).Allow(ctx)
			return d.Allowed, err
		},
		sweep: func(ctx context.Context) (int, error) { return store.Sweep(ctx, &policy) },
		close: func() {
			closeAndLog(store)
			end()
		},
	}
}

func closeAndLog(c io.Closer) {
	if err := c.Close(); err != nil {
		logf("close: %v", err)
	}
}

// bucket is a token bucket as it is written by hand: a transaction of four statements that locks, reads and writes a row.
type bucket struct {
	*table
	limit
	read, update, insert *sql.Stmt
}

func selectForUpdate(ctx context.Context, s *site, l limit) (*instance, error) {
	t, err := s.openTable(ctx, postgres, l)
	if err != nil {
		return nil, err
	}
	b := &bucket{table: t, limit: l}
	if err := b.prepare(); err != nil {
		t.drop()
		return nil, err
	}
	return &instance{take: b.take, close: t.drop}, nil
}

func (b *bucket) prepare() error {
	var errs [3]error
	b.read, errs[0] = b.table.prepare("SELECT value, at_ns FROM {table} WHERE name = ? AND {key} = ? FOR UPDATE")
	b.update, errs[1] = b.table.prepare("UPDATE {table} SET value = ?, at_ns = ? WHERE name = ? AND {key} = ?")
	b.insert, errs[2] = b.prepareUpsert()
	return errors.Join(errs[:]...)
}

func (b *bucket) take(ctx context.Context, key string) (bool, error) {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	now := time.Now().UnixNano()
	// A key without a row has a full bucket.
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
