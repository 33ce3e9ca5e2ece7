package sim

import (
	"cmp"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Traffic is a generated trace.
type Traffic struct {
	limit *limitState
	// plan is the plan of requests whose clause has none.
	plan    string
	streams []*stream
	line    trace.Line
}

// trafficStart is the instant of the first request. It is fixed, so that the same text always makes the same trace.
var trafficStart = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// NewTraffic generates requests to a limit or a group of a replay, the same ones for the same seed. The text has one or more
// clauses, separated by ";", which run at the same time:
//
//	steady 5/s        evenly spaced requests, beginning at once
//	poisson 20/s      random requests, independent of each other, at an average rate
//	burst 100         requests at one instant
//
// Each clause can have options, in any order:
//
//	for 10m           duration; by default until the last of the other clauses ends, or a minute
//	at 2m             start, 0 by default
//	over 50 keys      number of keys, 1 by default: in turn, or at random for poisson
//	taking 800        tokens per request, 1 by default
//	using input=800   what each request uses of a limit with prices; by default a unit of each
//	running 2s        how long each request runs, and holds its slot of a limit in flight
//	plan pro          plan of the requests, if the limit depends on it; by default the given one
//
// A rate is a number of requests per unit or duration: 5/s, 100/m, 3/10s. If the limit has capacity 0, the requests
// reserve. If a calendar has a zone or an anniversary per key, that of all keys is UTC, or the day of the first request. The
// error is a [*TrafficError].
func NewTraffic(text string, of *Replay, name, plan string, seed uint64) (*Traffic, error) {
	limit := of.byName[name]
	clauses, err := parseTraffic(text, limit)
	if err != nil {
		return nil, err
	}
	if plan == "" && len(limit.plans) > 0 && slices.ContainsFunc(clauses, func(c clause) bool { return c.plan == "" }) {
		return nil, fmt.Errorf("%s depends on the plan: pass -plan with %s", name, words.List(limit.planNames(), "or"))
	}
	parts := len(limit.key)
	t := &Traffic{limit: limit, plan: plan, line: trace.Line{
		Limit: name, Reserve: limit.reserveOnly(), Key: make([]string, parts), KeyTypes: make([]trace.JSONType, parts),
	}}
	for _, c := range limit.calendars() {
		if c.ZonePerKey {
			t.line.Zone = "UTC"
		}
		if c.Anniversary {
			t.line.Anniversary = runtime.DateOf(trafficStart)
		}
	}
	for i, c := range clauses {
		// Each stream has random numbers of its own, so that editing one clause does not change the others.
		t.streams = append(t.streams, newStream(c, seed, uint64(i)))
	}
	return t, nil
}

// Replay calls answer with each request, in order, as [trace.Reader.Replay] does.
func (t *Traffic) Replay(answer func(*trace.Line) error, onFault func(*trace.Fault) error) error {
	for s := t.earliest(); s != nil; s = t.earliest() {
		t.set(s)
		s.advance()
		if err := trace.Handled(answer(&t.line), t.line.Number, onFault); err != nil {
			return err
		}
	}
	return nil
}

// earliest returns the stream with the next request, or nil at the end of all streams.
func (t *Traffic) earliest() *stream {
	var first *stream
	for _, s := range t.streams {
		if !s.done() && (first == nil || s.next < first.next) {
			first = s
		}
	}
	return first
}

// set makes the line the next request of a stream.
func (t *Traffic) set(s *stream) {
	l, number := &t.line, s.keyNumber()
	l.Number++
	l.At, l.Count, l.Units, l.Running, l.Plan = trafficStart.UnixNano()+int64(s.next), s.taking, s.using, s.running,
		cmp.Or(s.plan, t.plan)
	for i, part := range t.limit.key {
		l.Key[i] = partText(part, number, i)
	}
}

// partText returns part i of the key with a number, counting from 1. Different numbers make different keys, unless all parts
// are bools, of which n have 2^n values. A part that has one of several types has the first.
func partText(part spec.KeyPart, number int64, i int) string {
	if list := part.Alternatives(); len(list) > 0 {
		return list[0].Name + ":" + partText(list[0], number, i)
	}
	switch {
	case part.Type == "bool":
		return strconv.FormatBool(number>>i&1 == 1) // digit i in base 2, so that several bools count together
	case part.GoType() == spec.AddrType: // a prefix of such an address is the whole address
		return privateAddr(number).String()
	}
	return strconv.FormatInt(number, 10)
}

// privateAddr returns a different address of 10.0.0.0/8 for each number up to maxKeys.
func privateAddr(number int64) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(number >> 16), byte(number >> 8), byte(number)})
}

// stream generates the requests of a clause, one after the other.
type stream struct {
	clause
	// next is the time of the next request since the start of the traffic, and made how many there were before it.
	next   time.Duration
	made   int64
	random *rand.Rand
}

func newStream(c clause, seed, number uint64) *stream {
	s := &stream{clause: c, next: c.at, random: rand.New(rand.NewPCG(seed, number))}
	if c.kind == poisson {
		s.next += s.gap() // the time before the first request is random like the others
	}
	return s
}

func (s *stream) done() bool {
	if s.kind == burst {
		return s.made >= s.n
	}
	return s.next >= s.clause.at+s.length
}

func (s *stream) advance() {
	s.made++
	switch s.kind {
	case poisson:
		s.next += s.gap()
	case steady:
		// at + made*per/n in 128 bits: adding rounded gaps would drift, and the product overflows an int64.
		high, low := bits.Mul64(uint64(s.made), uint64(s.per))
		after, _ := bits.Div64(high, low, uint64(s.n))
		s.next = s.clause.at + time.Duration(after)
	}
}

// gap returns a random time between two requests. The gaps of a Poisson process are distributed exponentially.
func (s *stream) gap() time.Duration {
	return time.Duration(s.random.ExpFloat64() * float64(s.per) / float64(s.n))
}

// keyNumber returns the number of the key of the next request, counting from 1.
func (s *stream) keyNumber() int64 {
	if s.kind == poisson && s.keys > 1 {
		return 1 + s.random.Int64N(s.keys)
	}
	return 1 + s.made%s.keys
}
