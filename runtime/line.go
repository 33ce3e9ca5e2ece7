package runtime

import (
	"context"
	"sync"
)

// line lets one at a time of those that wait for a row try: if all did, all but one would do so in vain.
// The zero line is empty.
type line struct {
	mu    sync.Mutex
	turns map[Row]*turn
}

// turn is whose turn it is at a row.
type turn struct {
	// taken holds one element while it is somebody's turn.
	taken chan struct{}
	// waiting counts those that have it or wait for it.
	waiting int
}

// join returns when it is the caller's turn, which ends with leave. The error is that of ctx.
func (l *line) join(ctx context.Context, row Row) (leave func(), err error) {
	t := l.enter(row)
	select {
	case t.taken <- struct{}{}:
		return func() { <-t.taken; l.exit(row, t) }, nil
	case <-ctx.Done():
		l.exit(row, t)
		return nil, ctx.Err()
	}
}

func (l *line) enter(row Row) *turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.turns[row]
	if t == nil {
		if l.turns == nil {
			l.turns = map[Row]*turn{}
		}
		t = &turn{taken: make(chan struct{}, 1)}
		l.turns[row] = t
	}
	t.waiting++
	return t
}

// exit forgets the row when nobody is left.
func (l *line) exit(row Row, t *turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.waiting--; t.waiting == 0 {
		delete(l.turns, row)
	}
}
