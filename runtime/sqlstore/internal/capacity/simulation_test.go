package capacity

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
)

// simulation is a discrete event simulation of a plan, in which every statement is an event. It is deterministic.
type simulation struct {
	Plan
	// shards is how many rows the hot key is split into, at least 1.
	shards int
	random *rand.Rand

	now    float64
	events events
	nextID int

	hosts    []*host
	busyNow  int
	waiting  []func()
	flushing bool
	toFlush  []func()
	locked   map[int][]func()

	// decided counts decisions, and statements the statements that made them.
	decided, statements int
}

// host is the queue of a host: how many calls wait, and the statements in flight.
type host struct {
	waiting  int
	inFlight []*flight
	// shortest and last are the shortest times of a statement in this window and the one before, and ended counts those
	// of this window.
	shortest, last float64
	ended          int
}

// flight is a statement in flight, and after is how many calls wait because they seem to have one of its keys.
type flight struct{ calls, after int }

// hashes is how many hashes of keys a host distinguishes.
const hashes = 2048

// window is how many statements a window has.
const window = 256

// add adds the time of a statement.
func (h *host) add(seconds float64) {
	h.shortest = min(h.shortest, seconds)
	if h.ended++; h.ended == window {
		h.last, h.shortest, h.ended = h.shortest, math.Inf(1), 0
	}
}

// ready reports whether enough calls wait for another statement.
func (h *host) ready(p Plan) bool {
	switch {
	case h.waiting == 0 || len(h.inFlight) == p.Lanes || p.Hot && len(h.inFlight) > 0:
		return false
	case len(h.inFlight) == 0:
		return true
	}
	calls := 0
	for _, f := range h.inFlight {
		calls += f.calls
	}
	shortest := min(h.shortest, h.last)
	if math.IsInf(shortest, 1) {
		shortest = 0
	}
	return h.waiting >= group.Enough(time.Duration(shortest*float64(time.Second)), len(h.inFlight), calls)
}

// event is something that happens at a time. Events at the same time happen in the order of their ids.
type event struct {
	at float64
	id int
	do func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].id < e[j].id
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

// simulate runs a plan with a number of shards for a number of simulated seconds, and returns the statements and
// decisions per second. The first fifth of the time is not counted, because all queues are empty at the start.
func simulate(p Plan, shards int, seconds float64) (statements, decisions float64) {
	s := &simulation{Plan: p, shards: shards, random: rand.New(rand.NewPCG(1, 2)), locked: map[int][]func(){}}
	for range p.Hosts {
		s.hosts = append(s.hosts, &host{shortest: math.Inf(1), last: math.Inf(1)})
	}
	for _, h := range s.hosts {
		for range p.Callers {
			s.after(s.random.Float64()*(p.RoundTrip+p.Commit), func() { s.call(h) })
		}
	}
	warm := seconds / 5
	s.after(warm, func() { s.decided, s.statements = 0, 0 })
	for s.events[0].at < seconds {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
	}
	return float64(s.statements) / (seconds - warm), float64(s.decided) / (seconds - warm)
}

// after schedules an event.
func (s *simulation) after(seconds float64, do func()) {
	s.nextID++
	heap.Push(&s.events, event{s.now + seconds, s.nextID, do})
}

// call adds a waiting caller to a host.
func (s *simulation) call(h *host) {
	for _, f := range h.inFlight {
		if s.random.IntN(hashes) < f.calls {
			f.after++
			return
		}
	}
	h.waiting++
	s.send(h)
}

// send sends a statement for the callers of a host that wait, if it is time for one.
func (s *simulation) send(h *host) {
	if !h.ready(s.Plan) {
		return
	}
	calls := min(h.waiting, s.Batch)
	h.waiting -= calls
	f := &flight{calls: calls}
	h.inFlight = append(h.inFlight, f)
	began := s.now
	s.transact(calls, func() {
		s.statements++
		s.decided += calls
		h.inFlight = slices.DeleteFunc(h.inFlight, func(o *flight) bool { return o == f })
		h.waiting += f.after
		h.add(s.now - began)
		s.send(h)
		for range calls {
			s.call(h)
		}
	})
}

// transact simulates the statement of some calls, or the transaction that takes from two shards.
func (s *simulation) transact(calls int, done func()) {
	if s.shards > 1 {
		s.transactSharded(done)
		return
	}
	rows, held := calls, []int(nil)
	if s.Hot {
		rows, held = 1, []int{0}
	}
	s.after(s.RoundTrip/2, func() {
		s.lock(held, func() {
			s.work(s.busy(float64(rows)), func() {
				s.flush(func() {
					s.unlock(held)
					s.after(s.RoundTrip/2, done)
				})
			})
		})
	})
}

// transactSharded simulates begin, read, write and commit.
func (s *simulation) transactSharded(done func()) {
	pair := s.random.Perm(s.shards)[:2]
	slices.Sort(pair)
	s.after(1.5*s.RoundTrip, func() {
		s.lock(pair, func() {
			s.work(s.busy(2), func() {
				s.after(s.RoundTrip, func() {
					s.work(s.busy(2), func() {
						s.after(s.RoundTrip, func() {
							s.flush(func() {
								s.unlock(pair)
								s.after(s.RoundTrip/2, done)
							})
						})
					})
				})
			})
		})
	})
}

// lock locks rows one after the other. A row that is locked is granted in the order of the requests.
func (s *simulation) lock(rows []int, then func()) {
	if len(rows) == 0 {
		then()
		return
	}
	next := func() { s.lock(rows[1:], then) }
	if queue, taken := s.locked[rows[0]]; taken {
		s.locked[rows[0]] = append(queue, next)
		return
	}
	s.locked[rows[0]] = nil
	next()
}

// unlock releases rows, each to the first in its queue.
func (s *simulation) unlock(rows []int) {
	for _, row := range rows {
		queue := s.locked[row]
		if len(queue) == 0 {
			delete(s.locked, row)
			continue
		}
		s.locked[row] = queue[1:]
		queue[0]()
	}
}

// work uses a core for a number of seconds, as soon as one is free, and then calls then.
func (s *simulation) work(seconds float64, then func()) {
	run := func() {
		s.after(seconds, func() {
			s.busyNow--
			if len(s.waiting) > 0 {
				next := s.waiting[0]
				s.waiting = s.waiting[1:]
				s.busyNow++
				next()
			}
			then()
		})
	}
	if s.busyNow < s.Cores {
		s.busyNow++
		run()
		return
	}
	s.waiting = append(s.waiting, run)
}

// flush waits until the log is on disk. Commits that come during a flush share the next one.
func (s *simulation) flush(then func()) {
	s.toFlush = append(s.toFlush, then)
	if !s.flushing {
		s.flushNow()
	}
}

func (s *simulation) flushNow() {
	together := s.toFlush
	s.toFlush, s.flushing = nil, true
	s.after(s.Commit, func() {
		s.flushing = false
		if len(s.toFlush) > 0 {
			s.flushNow()
		}
		for _, then := range together {
			then()
		}
	})
}
