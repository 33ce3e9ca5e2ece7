package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/time/rate"
)

// handOver is the cheapest way to answer many callers with one write: one of them writes the keys of all that wait, wakes them,
// and leaves the next write to one that has come meanwhile.
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

// manyKeys selects the rows of a floor, at one instant, from a list of keys.
var manyKeys = map[string]string{
	"sqlite":   "SELECT '%s', value, 0, 1.0, ?, 0 FROM json_each(?) WHERE true",
	"postgres": "SELECT '%s', k, 0, 1.0, CAST($1 AS bigint), 0 FROM unnest(CAST($2 AS text[])) k",
	"mysql":    "SELECT '%s', k, 0, 1.0, ?, 0 FROM JSON_TABLE(?, '$[*]' COLUMNS (k VARBINARY(255) PATH '$')) j",
	"mariadb":  "SELECT '%s', k, 0, 1.0, ?, 0 FROM JSON_TABLE(?, '$[*]' COLUMNS (k VARBINARY(255) PATH '$')) j",
}

// floorOn opens a floor on a server, or on SQLite without one: the least that a limiter can cost that stores its counts in the
// database and answers its callers together. Its batches are as large as ours, and its statements write the same rows, but decide
// nothing.
func floorOn(of server) opener {
	return func(ctx context.Context, s *site, l limit) (*instance, error) {
		t, err := s.openTable(ctx, of, l)
		if err != nil {
			return nil, err
		}
		write, err := t.writer(ctx, s, of, l)
		if err != nil {
			t.drop()
			return nil, err
		}
		return &instance{take: (&handOver{write: write}).take, close: t.drop}, nil
	}
}

// writer returns a function that writes the rows of keys. The timestamp changes, because databases skip the write of an unchanged
// row.
func (t *table) writer(ctx context.Context, s *site, of server, l limit) (func(keys []string) error, error) {
	many := insertInto + fmt.Sprintf(manyKeys[t.dialect.Name], l.name) + t.setRow()
	if of == postgres {
		return t.pgxWriter(ctx, s.servers[of], l, many)
	}
	one, err := t.prepareUpsert()
	if err != nil {
		return nil, err
	}
	text, err := t.dialect.Text(many, t.name)
	if err != nil {
		return nil, err
	}
	batch, err := t.db.Prepare(text)
	return func(keys []string) error {
		now := time.Now().UnixNano()
		if len(keys) == 1 {
			_, err := one.Exec(l.name, keys[0], 0, 1.0, now, 0.0)
			return err
		}
		list, err := json.Marshal(keys)
		if err == nil {
			_, err = batch.Exec(now, list)
		}
		return err
	}, err
}

// pgxWriter is writer by pgx, without package database/sql. pgx prepares the statements at their first use.
func (t *table) pgxWriter(ctx context.Context, dsn string, l limit, many string) (func(keys []string) error, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	t.also = func() error { return conn.Close(context.Background()) }
	one, noOne := t.text(insertOne + t.setRow())
	many, noMany := t.dialect.Text(many, t.name)
	return func(keys []string) (err error) {
		now := time.Now().UnixNano()
		if len(keys) == 1 {
			_, err = conn.Exec(context.Background(), one, l.name, keys[0], 0, 1.0, now, 0.0)
		} else {
			_, err = conn.Exec(context.Background(), many, now, keys)
		}
		return err
	}, errors.Join(noOne, noMany)
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
