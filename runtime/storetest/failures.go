package storetest

import (
	"context"
	"errors"

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
				request(bucket(), "k", runtime.Ask{Op: runtime.Charge, Count: 5}),
			} {
				if _, err := s.store.Do(ended, []runtime.Call{call(q)}); !errors.Is(err, context.Canceled) {
					s.broken("the error is %v", err)
				}
				s.wantValue(q.Policy, "k", 10)
			}
		}},
	}
}
