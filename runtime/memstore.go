package runtime

import (
	"context"
	"sync"
	"time"
)

// MemStore is a [Store] in the memory of this process: for tests, and for limits that may be forgotten
// when the process ends. The zero MemStore is ready to use. It is the reference for every other Store.
type MemStore struct {
	// Clock tells the time; time.Now if nil.
	Clock func() time.Time

	mu   sync.Mutex
	rows map[Row]State
}

// Do implements [Store]. The error is that of ctx.
func (m *MemStore) Do(ctx context.Context, calls []Call) ([]Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	b := NewBatch(calls)
	for !b.Run(now, m.read(b.Rows())) {
	}
	m.write(b.Changes())
	return b.Answers(), nil
}

// Len returns how many rows are stored.
func (m *MemStore) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.rows)
}

// Sweep deletes the rows of the policies that are worth no more than a key never seen, and returns how
// many it deleted. Rows of other policies are kept. If several policies share a name, such as a limit before
// and after an edit, a row is deleted only if that is so for each of them: see [Sweepable]. The error is that
// of ctx, or [ErrInvalidPolicy]: then nothing is deleted.
func (m *MemStore) Sweep(ctx context.Context, policies ...*Policy) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	same, err := byName(policies)
	if err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before, now := len(m.rows), m.now()
	for row, s := range m.rows {
		if Sweepable(same[row.Name], row, s, now) {
			delete(m.rows, row)
		}
	}
	return before - len(m.rows), nil
}

func (m *MemStore) now() int64 {
	if m.Clock == nil {
		return time.Now().UnixNano()
	}
	return m.Clock().UnixNano()
}

func (m *MemStore) read(rows []Row) []State {
	states := make([]State, len(rows))
	for i, row := range rows {
		states[i] = m.rows[row]
	}
	return states
}

func (m *MemStore) write(changes []Change) {
	if m.rows == nil {
		m.rows = map[Row]State{}
	}
	for _, c := range changes {
		if c.State.Exists {
			m.rows[c.Row] = c.State
		} else {
			delete(m.rows, c.Row)
		}
	}
}
