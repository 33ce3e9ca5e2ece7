package storetest

import (
	"sync"
	"sync/atomic"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// goroutines is how many ask at once.
const goroutines = 64

// together are the clauses about many that ask at once.
func together() []clause {
	return []clause{
		{"Concurrent", "exactly as many are admitted as fit, on one key", func(s *subject) {
			for _, p := range append(kinds(), shards(runtime.TokenBucket), shards(runtime.FixedWindow)) {
				p.Rate, p.Capacity = 100, 100
				admitted := s.race(10, func(int) bool { return s.take(p, "hot", 1) })
				if admitted != 100 {
					s.broken("%s, %d shards: %d of 100 admitted", p.Kind, p.Shards, admitted)
				}
			}
		}},
		{"ConcurrentFirstUse", "many first uses of different keys do not disturb each other", func(s *subject) {
			p := bucket()
			admitted := s.race(4, func(i int) bool {
				return s.take(p, runtime.KeyOf(runtime.Int(i)).String(), 1)
			})
			if admitted != 4*goroutines {
				s.broken("%d of %d admitted", admitted, 4*goroutines)
			}
		}},
		{"ConcurrentPairs", "limits taken together in opposite orders do not wait for each other, and are taken exactly", func(s *subject) {
			a, b := bucket(), window()
			a.Rate, a.Capacity, b.Rate, b.Capacity = 60, 60, 100, 100
			admitted := s.race(8, func(i int) bool {
				pair := []runtime.Request{taking(a, "k", 1), taking(b, "k", 1)}
				if i%2 == 0 {
					pair[0], pair[1] = pair[1], pair[0]
				}
				return s.do(call(pair...))[0].Allowed()
			})
			if admitted != 60 {
				s.broken("%d of 60 admitted", admitted)
			}
			s.wantValue(a, "k", 0)
			s.wantValue(b, "k", 40)
		}},
		{"ConcurrentRefunds", "what is taken and given back is neither lost nor doubled", func(s *subject) {
			s.race(10, func(int) bool {
				if s.take(bucket(), "k", 1) {
					s.ask(bucket(), "k", runtime.Request{Op: runtime.Refund, Count: 1})
				}
				return true
			})
			s.wantValue(bucket(), "k", 10)
		}},
	}
}

// race has many goroutines try something so many times each, and counts how often it was true. The
// number that each try is given is its own.
func (s *subject) race(times int, try func(i int) bool) int64 {
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range times {
				if try(g*times + i) {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return admitted.Load()
}
