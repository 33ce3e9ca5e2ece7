package main

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/time/rate"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
)

// handOver is the cheapest way to answer many callers with one write: one of them writes the keys of all that wait, wakes
// them, and leaves the next write to one that has come meanwhile.
type handOver struct {
	// write writes the keys, which are sorted and differ.
	write func(keys []string) error

	mu            sync.Mutex
	writing       bool
	waiting, last []*waiter
	keys          []string
}

// waiter is a call that waits. It receives true if it is to write, and false if it was written.
type waiter struct {
	key  string
	err  error
	wake chan bool
}

var waiters = sync.Pool{New: func() any { return &waiter{wake: make(chan bool, 1)} }}

func (h *handOver) take(_ context.Context, key string) (bool, error) {
	w := waiters.Get().(*waiter)
	defer waiters.Put(w)
	w.key, w.err = key, nil
	h.mu.Lock()
	h.waiting = append(h.waiting, w)
	writes := !h.writing
	h.writing = true
	h.mu.Unlock()
	if !writes {
		writes = <-w.wake
	}
	if writes {
		h.writeAll(w)
	}
	return w.err == nil, w.err
}

// writeAll writes the keys of all that wait, one of which is w.
func (h *handOver) writeAll(w *waiter) {
	// Those that the last write has woken call again now: without this, half as many would be in a batch.
	runtime.Gosched()
	h.mu.Lock()
	batch := h.waiting
	h.waiting = h.last[:0]
	h.mu.Unlock()
	var err error
	if h.write != nil {
		h.keys = h.keys[:0]
		for _, b := range batch {
			h.keys = append(h.keys, b.key)
		}
		slices.Sort(h.keys)
		err = h.write(slices.Compact(h.keys))
	}
	for _, b := range batch {
		if b.err = err; b != w {
			b.wake <- false
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = batch
	if h.writing = len(h.waiting) > 0; h.writing {
		h.waiting[0].wake <- true
	}
}

// openHandOver opens a hand-over that writes nothing.
func openHandOver(context.Context, *site, limit) (*instance, error) {
	o := inMemory((&handOver{}).take)
	// Its callers wait for each other.
	o.stride = 1
	return o, nil
}

// emptyCall opens a contender that does nothing: its figures are those of the benchmark itself.
func emptyCall(context.Context, *site, limit) (*instance, error) {
	return inMemory(func(context.Context, string) (bool, error) { return true, nil }), nil
}

// floorOn opens a floor on a server, or on SQLite without one: the least that a limiter can cost that stores its counts in
// the database and answers its callers together. Its batches are as large as ours, and its statements write the same rows,
// but decide nothing.
func floorOn(of server) opener {
	return func(ctx context.Context, s *site, l limit) (*instance, error) {
		t, err := s.openTable(ctx, of, l)
		if err != nil {
			return nil, err
		}
		write, end, err := t.writer(ctx, s.servers[of], l)
		if err != nil {
			t.drop()
			return nil, err
		}
		return &instance{take: (&handOver{write: write}).take, close: func() { end(); t.drop() }}, nil
	}
}

// writer returns a function that writes the rows of keys. The timestamp changes, because databases skip the write of an
// unchanged row. end closes its connection.
func (t *table) writer(ctx context.Context, dsn string, l limit) (write func(keys []string) error, end func(), err error) {
	end = func() {}
	prepare := func(statement string) (func(args ...any) error, error) {
		stmt, err := t.prepare(statement)
		return func(args ...any) error { _, err := stmt.Exec(args...); return err }, err
	}
	if t.dialect == dialect.Postgres {
		// pgx without package database/sql costs less. It prepares statements at their first use.
		conn, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return nil, nil, err
		}
		end = func() { conn.Close(context.Background()) }
		prepare = func(statement string) (func(args ...any) error, error) {
			text, err := t.text(statement)
			return func(args ...any) error { _, err := conn.Exec(context.Background(), text, args...); return err }, err
		}
	}
	one, noOne := prepare(t.upsertOne())
	many, noMany := prepare(t.upsertMany(l))
	return func(keys []string) error {
		now := time.Now().UnixNano()
		if len(keys) == 1 {
			return one(l.name, keys[0], 1.0, now)
		}
		return many(1.0, now, t.keyList(keys))
	}, end, errors.Join(noOne, noMany)
}

// openXTimeRate opens a map from keys to limiters of golang.org/x/time/rate, which has no keys of its own.
func openXTimeRate(_ context.Context, _ *site, l limit) (*instance, error) {
	var limiters sync.Map
	perSecond := rate.Limit(float64(l.rate) / l.period.Seconds())
	return inMemory(func(_ context.Context, key string) (bool, error) {
		limiter, ok := limiters.Load(key)
		if !ok {
			// Another goroutine may have stored a limiter meanwhile.
			limiter, _ = limiters.LoadOrStore(key, rate.NewLimiter(perSecond, l.capacity))
		}
		return limiter.(*rate.Limiter).Allow(), nil
	}), nil
}

// selectForUpdate opens a token bucket as it is written by hand: a transaction of four statements that locks, reads and
// writes a row. pgx prepares them at their first use.
func selectForUpdate(ctx context.Context, s *site, l limit) (*instance, error) {
	t, err := s.openTable(ctx, postgres, l)
	if err != nil {
		return nil, err
	}
	read, noRead := t.text("SELECT value, at_ns FROM {table} WHERE name = ? AND {key} = ? FOR UPDATE")
	write, noWrite := t.text(t.upsertOne())
	take := func(ctx context.Context, key string) (bool, error) {
		tx, err := t.db.BeginTx(ctx, nil)
		if err != nil {
			return false, err
		}
		defer tx.Rollback()
		// A key without a row has a full bucket.
		now := time.Now().UnixNano()
		value, at := float64(l.capacity), now
		if err := tx.QueryRowContext(ctx, read, l.name, key).Scan(&value, &at); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return false, err
		}
		value += float64(now-at) * float64(l.rate) / float64(l.period)
		if value = min(value, float64(l.capacity)) - 1; value < 0 {
			return false, nil
		}
		if _, err := tx.ExecContext(ctx, write, l.name, key, value, now); err != nil {
			return false, err
		}
		return true, tx.Commit()
	}
	return &instance{take: take, close: t.drop}, errors.Join(noRead, noWrite)
}

// insertOnConflict opens a token bucket as it is written by hand in one statement, which each call sends for itself. If the
// row has no token, the statement writes and returns nothing.
func insertOnConflict(ctx context.Context, s *site, l limit) (*instance, error) {
	t, err := s.openTable(ctx, postgres, l)
	if err != nil {
		return nil, err
	}
	const has = "LEAST(0, t.value + GREATEST(0, excluded.at_ns - t.at_ns) * CAST(? AS float8))"
	text, err := t.text("INSERT INTO {table} AS t (name, {key}, shard, value, at_ns, prev) VALUES (?, ?, 0, -1, ?, 0) " +
		"ON CONFLICT (name, {key}, shard) DO UPDATE SET value = " + has + " - 1, at_ns = GREATEST(t.at_ns, excluded.at_ns) " +
		"WHERE " + has + " >= 1 - CAST(? AS float8) RETURNING value")
	if err != nil {
		t.drop()
		return nil, err
	}
	perNano := float64(l.rate) / float64(l.period)
	take := func(ctx context.Context, key string) (bool, error) {
		var left float64
		err := t.db.QueryRowContext(ctx, text, l.name, key, time.Now().UnixNano(), perNano, perNano, l.capacity).Scan(&left)
		if errors.Is(err, sql.ErrNoRows) {
			return false, nil
		}
		return err == nil, err
	}
	return &instance{take: take, close: t.drop}, nil
}
