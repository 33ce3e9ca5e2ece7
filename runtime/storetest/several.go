package storetest

import (
	"errors"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// several are the clauses about several requests and several calls at once.
func several() []clause {
	return []clause{
		{"AllOrNone", "a call takes from all of its limits or from none", func(s *subject) {
			s.take(window(), "k", 8)
			a := s.do(call(taking(bucket(), "k", 5), taking(window(), "k", 3)))[0]
			if a.Err != nil || a.Allowed() || len(a.Decisions) != 2 {
				s.Fatalf("5 of 10 and 3 of 2 tokens: %+v", a)
			}
			if !a.Decisions[0].Allowed || a.Decisions[1].Allowed || a.Decisions[1].RetryAfter <= 0 {
				s.broken("the decisions do not tell which limit stood in the way: %v", a.Decisions)
			}
			if left := a.Decisions[0].Remaining; left != 10 {
				s.broken("nothing was taken of 10 tokens, but %d remain", left)
			}
			s.wantValue(bucket(), "k", 10)
			s.wantValue(window(), "k", 2)
			if !s.do(call(taking(bucket(), "k", 5), taking(window(), "k", 2)))[0].Allowed() {
				s.broken("5 of 10 and 2 of 2 tokens were denied")
			}
			s.wantValue(bucket(), "k", 5)
			s.wantValue(window(), "k", 0)
		}},
		{"SameKeyTwice", "requests of one call for one key add up", func(s *subject) {
			both := call(taking(bucket(), "k", 6), taking(bucket(), "k", 4))
			if !s.do(both)[0].Allowed() {
				s.broken("6 and 4 of 10 tokens were denied")
			}
			d := s.do(both)[0].Decisions[1]
			if d.Allowed || d.RetryAfter != time.Minute {
				s.broken("6 and 4 of 0 tokens, 10 a minute: %v", d)
			}
			err := s.do(call(taking(bucket(), "k", 6), taking(bucket(), "k", 5)))[0].Err
			if !errors.Is(err, runtime.ErrExceedsCapacity) {
				s.broken("6 and 5 can never pass a capacity of 10, but the error is %v", err)
			}
		}},
		{"Order", "the calls of a batch are answered one after the other", func(s *subject) {
			answers := s.do(
				call(taking(bucket(), "k", 6)),
				call(taking(bucket(), "k", 6)),
				call(taking(bucket(), "k", 4)),
				call(request(bucket(), "k", runtime.Request{Op: runtime.Refund, Count: 2})),
				call(taking(bucket(), "k", 2)),
				call(request(bucket(), "k", runtime.Request{Op: runtime.Peek})),
			)
			for i, want := range []bool{true, false, true, true, true, true} {
				if answers[i].Allowed() != want {
					s.broken("call %d of a batch: %+v", i, answers[i])
				}
			}
			if got := answers[5].Decisions[0].Value; got != 0 {
				s.broken("6, 4 and 2 taken of 10 and 2 given back leave %v", got)
			}
		}},
		{"Neighbours", "a call that is an error does not fail its neighbours", func(s *subject) {
			bad := &runtime.Policy{Name: "bad"}
			answers := s.do(
				call(taking(bucket(), "k", 3)),
				call(taking(bucket(), "k", 0)),
				call(taking(bucket(), "k", -1)),
				call(taking(bucket(), "k", 11)),
				call(taking(bad, "k", 1)),
				call(taking(nil, "k", 1)),
				call(taking(bucket(), "k", 1), taking(bad, "k", 1)),
				call(taking(bucket(), "k", 3)),
			)
			wants := []error{nil, runtime.ErrInvalidCount, runtime.ErrInvalidCount, runtime.ErrExceedsCapacity,
				runtime.ErrInvalidPolicy, runtime.ErrInvalidPolicy, runtime.ErrInvalidPolicy, nil}
			for i, want := range wants {
				if err := answers[i].Err; !errors.Is(err, want) || want == nil && err != nil {
					s.broken("call %d: the error is %v, not %v", i, err, want)
				}
			}
			s.wantValue(bucket(), "k", 4)
		}},
		{"OnlyTakes", "only takes go together in a call", func(s *subject) {
			a := s.do(call(taking(bucket(), "k", 3), request(bucket(), "k", runtime.Request{Op: runtime.Refund, Count: 1})))[0]
			if !errors.Is(a.Err, runtime.ErrInvalidCall) {
				s.broken("a take and a refund: %+v", a)
			}
			s.wantValue(bucket(), "k", 10)
		}},
		{"Empty", "a batch of no calls has no answers", func(s *subject) {
			s.do()
		}},
		{"SharedName", "policies of one name share their counts", func(s *subject) {
			twin := bucket()
			s.do(call(taking(bucket(), "k", 4)), call(taking(twin, "k", 4)))
			s.wantValue(twin, "k", 2)
		}},
	}
}
