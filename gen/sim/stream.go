package sim

import (
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"time"
)

// stream makes the requests of a clause, one after the other.
type stream struct {
	clause
	// next is when the next request is, after the beginning of the traffic; made is how many there were before it.
	next   time.Duration
	made   int64
	random *rand.Rand
}

func newStream(c clause, seed, number uint64) *stream {
	s := &stream{clause: c, next: c.at, random: rand.New(rand.NewPCG(seed, number))}
	if c.kind == poisson {
		s.next += s.gap()
	}
	return s
}

// done reports whether there are no more requests.
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
		high, low := bits.Mul64(uint64(s.made), uint64(s.per))
		after, _ := bits.Div64(high, low, uint64(s.n))
		s.next = s.clause.at + time.Duration(after)
	}
}

// gap returns the time between two requests that come at random: exponentially distributed.
func (s *stream) gap() time.Duration {
	return time.Duration(s.random.ExpFloat64() * float64(s.per) / float64(s.n))
}

// key returns the number of the key of the next request, counting from 1.
func (s *stream) key() int64 {
	if s.kind == poisson && s.keys > 1 {
		return 1 + s.random.Int64N(s.keys)
	}
	return 1 + s.made%s.keys
}

// addrOf returns a private address for each number below 2^24.
func addrOf(number int64) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(number >> 16), byte(number >> 8), byte(number)})
}
