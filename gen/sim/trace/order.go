package trace

import (
	"slices"
	"sort"
	"time"
)

// DefaultLate is how far out of order the lines of logs may be if [Reader.Late] is not set: a server writes a line at
// the end of a request, which is seldom open longer.
const DefaultLate = time.Minute

// queue sorts lines by time, if none is later than a duration. It holds the lines of that duration, but only
// once what lines at different times have in common.
type queue struct {
	held []heldLine // in order, those before first are gone
	// first is the index of the earliest line.
	first int
	// requests has the lines without number, time and count, by their JSON.
	requests map[string]*Line
	text     []byte
	line     Line
}

type heldLine struct {
	at, count int64
	number    int
	request   *Line
}

func (q *queue) len() int { return len(q.held) - q.first }

// push copies a line. Among lines of one instant, those that were read first come first.
func (q *queue) push(l *Line) {
	i := q.first + sort.Search(q.len(), func(i int) bool { return q.held[q.first+i].at > l.At })
	q.held = slices.Insert(q.held, i, heldLine{l.At, l.Count, l.Number, q.request(l)})
}

// request returns the line without number, time and count, which the queue has once.
func (q *queue) request(l *Line) *Line {
	own := *l
	own.Number, own.At, own.Count, own.Raw = 0, 0, 1, nil
	q.text = own.appendParsed(q.text[:0])
	for _, u := range own.Units {
		if u.Fault != nil {
			q.text = append(q.text, u.Fault.Error()...)
		}
	}
	if known := q.requests[string(q.text)]; known != nil {
		return known
	}
	if len(q.requests) >= max(1024, q.len()) { // most of them are of lines that are gone
		clear(q.requests)
	}
	if q.requests == nil {
		q.requests = map[string]*Line{}
	}
	own.Key, own.KeyTypes, own.Units = slices.Clone(l.Key), slices.Clone(l.KeyTypes), slices.Clone(l.Units)
	q.requests[string(q.text)] = &own
	return &own
}

// pop returns the earliest line, if it is no later than an instant. It is valid until the next pop.
func (q *queue) pop(until int64) *Line {
	if q.len() == 0 || q.held[q.first].at > until {
		return nil
	}
	held := q.held[q.first]
	q.line = *held.request
	q.line.Number, q.line.At, q.line.Count = held.number, held.at, held.count
	if q.first++; q.first > len(q.held)/2 { // so that moving the rest costs no more than the lines that were returned
		q.held = slices.Delete(q.held, 0, q.first)
		q.first = 0
	}
	return &q.line
}
