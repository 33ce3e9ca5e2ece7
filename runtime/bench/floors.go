package main

import (
	"context"
	"database/sql"
	"slices"
	"sync"
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
	upsertRows := t.rowsUpsert(l)
	o := &instance{
		take: take,
		takeAll: func(ctx context.Context, keys []string) error {
			// For a single row, the statement of take is the cheapest.
			if len(keys) == 1 {
				_, err := take(ctx, keys[0])
				return err
			}
			return upsertRows(ctx, keys)
		},
		close: t.drop,
	}
	if t.dialect.Name != "sqlite" {
		o.pid = t.pid
	}
	return o, nil
}

// rowsUpsert returns a function that inserts or updates the rows of several keys by one statement. Each row has a value of
// its own, as a decision writes it. README.md has the forms of this statement that were measured: this is the one that costs
// least in the database.
func (t *table) rowsUpsert(l limit) func(ctx context.Context, keys []string) error {
	from, rows := "JSON_TABLE(?, '$[*]' COLUMNS (k VARCHAR(255) PATH '$[0]', v DOUBLE PATH '$[1]')) j", pairs
	stamp, end := "?", setRowMySQL
	switch t.dialect.Name {
	case "postgres":
		stamp, end = "CAST(? AS BIGINT)", setRow
		from, rows = "unnest(CAST(? AS TEXT[]), CAST(? AS FLOAT8[])) u (k, v)", arrays
	case "sqlite":
		// The source has its names for a key and its value. A SELECT before ON CONFLICT needs a WHERE.
		from, rows, end = "(SELECT key k, value v FROM json_each(?)) WHERE true", object, setRow
	}
	upsert := t.lazily(insertInto + "SELECT '" + l.name + "', k, 0, v, " + stamp + ", 0 FROM " + from + end)
	return func(ctx context.Context, keys []string) error {
		return upsert(ctx, slices.Insert(rows(keys), 0, any(time.Now().UnixNano()))...)
	}
}

// arrays returns the keys and the values as two arrays.
func arrays(keys []string) []any { return []any{keys, slices.Repeat([]float64{1}, len(keys))} }

// pairs returns an array of pairs of a key and a value, as JSON.
func pairs(keys []string) []any { return jsonOf(keys, "[", `["`, `",1]`, "]") }

// object returns an object whose members are the keys, with the values, as JSON.
func object(keys []string) []any { return jsonOf(keys, "{", `"`, `":1.0`, "}") }

func jsonOf(keys []string, begin, beforeKey, afterKey, end string) []any {
	text := []byte(begin)
	for i, key := range keys {
		if i > 0 {
			text = append(text, ',')
		}
		// The benchmark's keys have no characters that JSON escapes.
		text = append(append(append(text, beforeKey...), key...), afterKey...)
	}
	// Not as bytes: MySQL does not read JSON from a binary string.
	return []any{string(append(text, end...))}
}

// lazily returns a function that prepares a statement at its first call, because most runs of a floor write single rows.
func (t *table) lazily(statement string) func(ctx context.Context, args ...any) error {
	prepare := sync.OnceValues(func() (*sql.Stmt, error) { return t.prepare(statement) })
	return func(ctx context.Context, args ...any) error {
		stmt, err := prepare()
		if err != nil {
			return err
		}
		_, err = stmt.ExecContext(ctx, args...)
		return err
	}
}

// bareHandOver opens the floor of the calls that wait for a decision of others: they append themselves to a batch, one
// goroutine takes the whole batch, and all of them continue.
func bareHandOver(context.Context, *site, limit) (*instance, error) {
	h := &handOver{open: newHandful(), wake: make(chan struct{}, 1)}
	go h.run()
	return &instance{
		take: func(_ context.Context, key string) (bool, error) {
			h.join(key)
			return true, nil
		},
		close: func() { close(h.wake) },
	}, nil
}

// handOver collects the calls that come while their predecessors are handed over.
type handOver struct {
	mu   sync.Mutex
	open *handful
	// wake has room for one signal, so that a caller never waits to send it.
	wake chan struct{}
	// handed, if not nil, gets each batch. Tests read it.
	handed func(keys []string)
}

// handful is the calls that continue together.
type handful struct {
	keys []string
	done chan struct{}
}

func newHandful() *handful { return &handful{done: make(chan struct{})} }

// join waits until the batch with the call has been taken.
func (h *handOver) join(key string) {
	h.mu.Lock()
	mine := h.open
	mine.keys = append(mine.keys, key)
	first := len(mine.keys) == 1
	h.mu.Unlock()
	if first {
		h.wake <- struct{}{}
	}
	<-mine.done
}

// run takes one batch after the other, until wake is closed.
func (h *handOver) run() {
	for range h.wake {
		h.mu.Lock()
		taken := h.open
		h.open = newHandful()
		h.mu.Unlock()
		if h.handed != nil {
			h.handed(taken.keys)
		}
		close(taken.done)
	}
}
