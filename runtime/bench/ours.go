package main

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// variant is a way to use a store of this module. The zero variant is the usual one: with group commit, and
// with neither leases nor a deny cache.
type variant struct {
	// batch is that of [sqlstore.Options].
	batch int
	// lease, denyCache and durability are those of the policy.
	lease      runtime.Lease
	denyCache  time.Duration
	durability runtime.Durability
}

// oursOnSQLite opens a store in a file of its own.
func oursOnSQLite(as variant) opener {
	return func(ctx context.Context, s *site, l limit) (*opened, error) {
		path := s.newFile()
		t, err := s.openFile(ctx, path, l)
		if err != nil {
			return nil, err
		}
		if err := t.db.Close(); err != nil {
			return nil, err
		}
		store, err := sqlite.OpenWith(path, sqlstore.Options{Batch: as.batch})
		if err != nil {
			return nil, err
		}
		o := ourStore(store, as, l, func() {})
		o.pid = func(context.Context) (int, error) { return os.Getpid(), nil }
		return o, nil
	}
}

// oursOn opens a store in a table of a server.
func oursOn(of server, as variant) opener {
	return func(ctx context.Context, s *site, l limit) (*opened, error) {
		t, err := s.openTable(ctx, of, l)
		if err != nil {
			return nil, err
		}
		store, err := sqlstore.New(t.db, t.dialect, sqlstore.Options{Table: t.name, Batch: as.batch})
		if err != nil {
			t.end()
			return nil, err
		}
		o := ourStore(store, as, l, t.end)
		o.pid = t.pid
		return o, nil
	}
}

// closingStore is a store that is closed after use.
type closingStore interface {
	runtime.Store
	io.Closer
}

// ourStore returns how a store is asked: as the code does that is generated from limits.yaml. What is behind
// the store ends after it.
func ourStore(store closingStore, as variant, l limit, end func()) *opened {
	limiter := runtime.NewLimiter(store)
	policy := &runtime.Policy{
		Name: l.name, Kind: runtime.TokenBucket, Rate: int64(l.rate), Period: l.period, Capacity: int64(l.capacity),
		Lease: as.lease, DenyCache: as.denyCache, Durability: as.durability,
	}
	return &opened{
		ask: func(ctx context.Context, key string) (bool, error) {
			d, err := limiter.Limit(policy, runtime.KeyOf(runtime.String(key))).Allow(ctx)
			return d.Allowed, err
		},
		askAll: func(ctx context.Context, keys []string) error { return takeOfAll(ctx, store, policy, keys) },
		close: func() {
			closeIt(store)
			end()
		},
	}
}

// takeOfAll takes a token of each of several keys, in calls that go together.
func takeOfAll(ctx context.Context, store runtime.Store, policy *runtime.Policy, keys []string) error {
	calls := make([]runtime.Call, len(keys))
	for i, key := range keys {
		take := runtime.Request{Op: runtime.Take, Count: 1}
		q := take
		q.Policy, q.Key = policy, runtime.KeyOf(runtime.String(key)).String()
		calls[i].Requests = []runtime.Request{q}
	}
	answers, err := store.Do(ctx, calls)
	if err != nil {
		return err
	}
	for _, a := range answers {
		if !a.Allowed() {
			return errors.Join(errors.New("a key was denied its token"), a.Err)
		}
	}
	return nil
}

// closeIt closes what has nothing more to say.
func closeIt(c io.Closer) {
	if err := c.Close(); err != nil {
		say("close: %v", err)
	}
}

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
