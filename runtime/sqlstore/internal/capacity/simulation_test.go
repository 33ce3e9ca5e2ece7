package capacity

import (
	"container/heap"
	"math/rand/v2"
	"slices"
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

	lanes    []*lane
	busyNow  int
	waiting  []func()
	flushing bool
	toFlush  []func()
	locked   map[int][]func()

	// decided counts decisions, and statements the statements that made them.
	decided, statements int
}

// lane is a queue of a host, with one statement in flight at a time.
type lane struct {
	host, callers int
	inFlight      bool
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
	for host := range p.Hosts {
		for range p.Lanes {
			s.lanes = append(s.lanes, &lane{host: host})
		}
	}
	for host := range p.Hosts {
		for range p.Callers {
			s.after(s.random.Float64()*(p.RoundTrip+p.Commit), func() { s.call(host) })
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

// call adds a waiting caller to a lane of a host.
func (s *simulation) call(host int) {
	l := s.lanes[host*s.Lanes]
	if !s.Hot {
		l = s.lanes[host*s.Lanes+s.random.IntN(s.Lanes)]
	}
	l.callers++
	s.send(l)
}

// send sends a batch of the callers that wait in a lane, unless a statement is in flight.
func (s *simulation) send(l *lane) {
	if l.inFlight || l.callers == 0 {
		return
	}
	calls := min(l.callers, s.Batch)
	l.callers -= calls
	l.inFlight = true
	s.transact(calls, func() {
		s.statements++
		s.decided += calls
		l.inFlight = false
		s.send(l)
		for range calls {
			s.call(l.host)
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
