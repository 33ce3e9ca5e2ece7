package trace

import (
	"cmp"
	"slices"
	"time"
)

// DefaultLate is how far out of order the lines of logs may be if [Reader.Late] is not set: a server writes a line at
// the end of a request, which is seldom open longer.
const DefaultLate = time.Minute

// queue puts lines in order of time that are less than a duration out of order. It holds the lines of that duration.
type queue struct {
	held []*Line // in order, those before first are free
	// first is the index of the earliest line.
	first int
	free  []*Line
}

func (q *queue) len() int { return len(q.held) - q.first }

// push copies a line. Among lines of one instant, those that were read first come first.
func (q *queue) push(l *Line) {
	var own *Line
	if n := len(q.free); n > 0 {
		own, q.free = q.free[n-1], q.free[:n-1]
	} else {
		own = new(Line)
	}
	key := append(own.Key[:0], l.Key...)
	types := append(own.KeyTypes[:0], l.KeyTypes...)
	*own = *l
	own.Key, own.KeyTypes, own.Raw = key, types, nil
	if q.len() == 0 || q.held[len(q.held)-1].At <= l.At {
		q.held = append(q.held, own)
		return
	}
	i, _ := slices.BinarySearchFunc(q.held[q.first:], l.At, func(other *Line, at int64) int {
		if other.At == at {
			return -1
		}
		return cmp.Compare(other.At, at)
	})
	q.held = slices.Insert(q.held, q.first+i, own)
}

// pop returns the earliest line, if it is no later than an instant. It is valid until the next push.
func (q *queue) pop(until int64) *Line {
	if q.len() == 0 || q.held[q.first].At > until {
		return nil
	}
	l := q.held[q.first]
	q.held[q.first] = nil
	q.first++
	q.free = append(q.free, l)
	if q.first > len(q.held)/2 { // so that moving the rest costs no more than the lines that were returned
		q.held = q.held[:copy(q.held, q.held[q.first:])]
		q.first = 0
	}
	return l
}
