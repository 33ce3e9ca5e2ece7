package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// failures are the clauses about contexts that have ended.
func failures() []clause {
	return []clause{
		{"Cancelled", "a context that has ended takes nothing, and its error comes back", func(s *subject) {
			ended, cancel := context.WithCancel(s.ctx)
			cancel()
			for _, q := range []runtime.Request{
				taking(bucket(), "k", 5),
				taking(sliding(), "k", 5),
				request(bucket(), "k", runtime.Request{Op: runtime.Charge, Count: 5}),
			} {
				if _, err := s.store.Do(ended, []runtime.Call{call(q)}); !errors.Is(err, context.Canceled) {
					s.broken("the error is %v", err)
				}
				s.wantValue(q.Policy, "k", 10)
			}
		}},
		{"CancelledMidway", "what is cancelled midway takes its tokens or nothing, and what is allowed is taken", func(s *subject) {
			for _, p := range []*runtime.Policy{bucket(), sliding(), shards(runtime.TokenBucket)} {
				p.Rate, p.Capacity, p.MaxReserved = 100_000, 100_000, 0
				asked := new(atomic.Int64)
				allowed := s.race(30, func(int) bool {
					asked.Add(1)
					ctx, cancel := context.WithTimeout(s.ctx, rand.N(200*time.Microsecond))
					defer cancel()
					answers, err := s.store.Do(ctx, []runtime.Call{call(taking(p, "k", 1))})
					if err != nil && !errors.Is(err, context.DeadlineExceeded) {
						s.broken("the error is %v", err)
					}
					return err == nil && answers[0].Allowed()
				})
				left := s.value(p, "k")
				if left > float64(100_000-allowed) || left < float64(100_000-asked.Load()) {
					s.broken("of %s, %v tokens are left after %d of %d callers were told that they had taken one",
						p.Kind, left, allowed, asked.Load())
				}
			}
		}},
	}
}
