package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// together returns the clauses about several requests in a call.
func together() []clause {
	return []clause{
		{"AllOrNone", "a call takes from all of its limits or from none", func(s *subject) {
			s.take(window(), "k", 8)
			a := s.do(call(taking(bucket(), "k", 5), taking(window(), "k", 3)))[0]
			if a.Err != nil || a.Allowed() || len(a.Decisions) != 2 {
				s.Fatalf("the answer to 5 of 10 and 3 of 2 tokens is %+v", a)
			}
			if !a.Decisions[0].Allowed || a.Decisions[1].Allowed || a.Decisions[1].RetryAfter <= 0 {
				s.broken("want the first limit allowed, and the second denied with a RetryAfter: got %v", a.Decisions)
			}
			if left := a.Decisions[0].Remaining; left != 10 {
				s.broken("the denied call changed a limit that had enough tokens: Remaining is %d, want 10", left)
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
				s.broken("the decision on 6 and 4 of 0 tokens, with 10 accruing per minute, is %v", d)
			}
			// Each fits, but the sum never does: a denial would make the caller wait forever.
			err := s.do(call(taking(bucket(), "k", 6), taking(bucket(), "k", 5)))[0].Err
			if !errors.Is(err, runtime.ErrExceedsCapacity) {
				s.broken("6 and 5 can never pass a capacity of 10, but the error is %v", err)
			}
		}},
		{"ReserveTogether", "a call with several reservations takes all of them or none, each with the delay of its limit", func(s *subject) {
			reserving := func(p *runtime.Policy, n int64) runtime.Request {
				return request(p, "k", runtime.Request{Count: n, Reserve: true})
			}
			a := s.do(call(reserving(bucket(), 12), reserving(window(), 10)))[0]
			if !a.Allowed() {
				s.Fatalf("the answer to reserving 12 of 10 and 10 of 10 tokens is %+v", a)
			}
			if d := a.Decisions; d[0].Delay != 12*time.Second || d[1].Delay != 0 {
				s.broken("the delays are %v and %v, want 12s for the bucket and none for the window", d[0].Delay, d[1].Delay)
			}
			// The window can be reserved for another 20 tokens, but the bucket only for 3.
			a = s.do(call(reserving(bucket(), 4), reserving(window(), 4)))[0]
			if a.Err != nil || a.Allowed() || a.Decisions[0].Allowed || !a.Decisions[1].Allowed {
				s.broken("the answer to reserving 4 of 3 and 4 of 20 tokens is %+v", a)
			}
			s.wantValue(bucket(), "k", -2)
			s.wantValue(window(), "k", 0)
			a = s.do(call(reserving(bucket(), 1), reserving(bucket(), 2), taking(window(), "other", 1)))[0]
			if !a.Allowed() || a.Decisions[1].Delay <= a.Decisions[0].Delay {
				s.broken("the answer to reserving 1 and 2 of 3 tokens of one key is %+v", a)
			}
			s.wantValue(bucket(), "k", -5)
			s.wantValue(window(), "other", 9)
		}},
		{"CheckTogether", "a check in a call must pass, and takes nothing", func(s *subject) {
			checking := func(p *runtime.Policy, n int64) runtime.Request {
				return request(p, "k", runtime.Request{Op: runtime.Check, Count: n})
			}
			for _, p := range kinds() {
				p.Name, p.MaxReserved = "checked "+p.Name, 0
				if a := s.do(call(taking(bucket(), p.Name, 3), checking(p, 10)))[0]; !a.Allowed() {
					s.broken("%s: the answer to taking 3 of 10 and checking 10 of 10 tokens is %+v", p.Name, a)
				}
				s.take(p, "k", 1)
				// In either order, with tokens taken from the key that is checked, and on rows of two keys or of one.
				for _, c := range []runtime.Call{
					call(taking(bucket(), p.Name, 3), checking(p, 10)),
					call(checking(p, 10), taking(bucket(), p.Name, 3)),
					call(taking(p, "k", 1), checking(p, 10)),
					call(checking(p, 10), taking(p, "k", 1)),
				} {
					a := s.do(c)[0]
					for i, d := range a.Decisions {
						if a.Err != nil || d.Allowed != (c.Requests[i].Op == runtime.Take) || !d.TakenAt.IsZero() {
							s.broken("%s: the answer to a take and a check of 10 of 9 tokens is %+v", p.Name, a)
						}
					}
				}
				s.wantValue(bucket(), p.Name, 7)
				s.wantValue(p, "k", 9)
				if a := s.do(call(taking(p, "k", 2), checking(p, 9), checking(p, 9)))[0]; !a.Allowed() {
					s.broken("%s: the answer to taking 2 and checking 9 of 9 tokens twice is %+v", p.Name, a)
				}
				s.wantValue(p, "k", 7)
			}
		}},
		{"GroupedLeases", "calls with several requests use the tokens of a lease, and leave no other count", func(s *subject) {
			leased, other := bucket(), bucket()
			leased.Name, leased.MaxReserved, leased.Lease = "leased", 0, runtime.Lease{Tokens: 4, For: time.Hour}
			other.Name = "other"
			if !s.take(leased, "k", 1) {
				s.broken("1 of 10 tokens was denied")
			}
			checked := request(leased, "k", runtime.Request{Op: runtime.Check, Count: 9})
			if a := s.do(call(checked, taking(other, "k", 1)))[0]; !a.Allowed() {
				s.broken("the answer to a check of 9 of 9 tokens, some of them leased, is %+v", a)
			}
			if a := s.do(call(taking(leased, "k", 9), request(other, "k", runtime.Request{Count: 12, Reserve: true})))[0]; !a.Allowed() {
				s.broken("the answer to taking 9 of 9 tokens, some of them leased, is %+v", a)
			}
			s.wantValue(leased, "k", 0)
			s.wantValue(other, "k", -3)
		}},
		{"OnlyTakesAndChecks", "a call with several requests has only takes and checks", func(s *subject) {
			a := s.do(call(taking(bucket(), "k", 3), request(bucket(), "k", runtime.Request{Op: runtime.Refund, Count: 1})))[0]
			if !errors.Is(a.Err, runtime.ErrInvalidCall) {
				s.broken("the answer to a take and a refund is %+v", a)
			}
			s.wantValue(bucket(), "k", 10)
		}},
	}
}

// batches returns the clauses about several calls in a batch.
func batches() []clause {
	return []clause{
		{"Order", "the calls of a batch are executed one after the other", func(s *subject) {
			// The second call is denied, and must not prevent the third, which needs fewer tokens.
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
					s.broken("the answer to call %d of a batch is %+v", i, answers[i])
				}
			}
			if got := answers[5].Decisions[0].Value; got != 0 {
				s.broken("after taking 6, 4 and 2 of 10 tokens and refunding 2, %v are left", got)
			}
		}},
		{"Neighbours", "a call that is an error does not fail its neighbours", func(s *subject) {
			// A store that fails the transaction for any of these would fail all of its callers.
			bad := &runtime.Policy{Name: "bad"}
			answers := s.do(
				call(taking(bucket(), "k", 3)),
				call(taking(bucket(), "k", -1)),
				call(taking(bucket(), "k", 11)),
				call(taking(bad, "k", 1)),
				call(taking(nil, "k", 1)),
				call(taking(bucket(), "k", 1), taking(bad, "k", 1)),
				call(taking(bucket(), "k", 3)),
			)
			wants := []error{nil, runtime.ErrInvalidCount, runtime.ErrExceedsCapacity, runtime.ErrInvalidPolicy, runtime.ErrInvalidPolicy, runtime.ErrInvalidPolicy, nil}
			for i, want := range wants {
				if err := answers[i].Err; !errors.Is(err, want) || want == nil && err != nil {
					s.broken("the error of call %d is %v, want %v", i, err, want)
				}
			}
			s.wantValue(bucket(), "k", 4)
		}},
		{"Empty", "a batch of no calls has no answers", func(s *subject) {
			s.do()
		}},
		{"SharedName", "policies of one name share their counts", func(s *subject) {
			twin := bucket()
			s.do(call(taking(bucket(), "k", 4)), call(taking(twin, "k", 4)))
			s.wantValue(twin, "k", 2)
		}},
		{"Plans", "keys of one name may have different policies in one call, but one key has a single one", func(s *subject) {
			small, large := bucket(), bucket()
			large.Rate, large.Capacity = 60, 60
			answers := s.do(
				call(taking(small, "a", 4), taking(large, "b", 50)),
				call(taking(small, "a", 1), taking(large, "b", 11)),
				call(taking(small, "a", 1), taking(large, "a", 1)),
				call(taking(large, "b", 10), taking(small, "a", 6)),
				call(taking(small, "c", 4)), call(taking(large, "c", 6)), call(taking(small, "c", 1)),
			)
			for i, allowed := range []bool{true, false, false, true, true, true, false} {
				if answers[i].Allowed() != allowed {
					s.broken("the answer to call %d is %+v", i, answers[i])
				}
			}
			if !errors.Is(answers[2].Err, runtime.ErrInvalidCall) {
				s.broken("the answer to two policies of one key is %+v", answers[2])
			}
			s.wantValue(small, "a", 0)
			s.wantValue(large, "b", 0)
			s.wantValue(small, "c", 0)
		}},
	}
}

// hostile are key parts that collations, escapes, trimming or truncation could confuse.
var hostile = []string{
	"user", "User", "USER", "user ", " user", "user\t", "user\x00", "user\x00x", "üser", "u\u0308ser",
	"\xff", "\xfe", "\xff\xfe", "\xc3", "%", "%25", "%FF", "|", "%7C", "a|b", "'", "''", `"`, "`", `\`, `\'`,
	"'; DROP TABLE rate_limits; --", "$1", "?", ":name", "😀", "😁", "\u200b", "\u202e", "null", "NULL", "0", "00", "0.0",
	strings.Repeat("x", 10_000), strings.Repeat("x", 9_999) + "y", strings.Repeat("x", 255), strings.Repeat("x", 256),
	strings.Repeat("é", 200), strings.Repeat("\x00", 300),
}

// keys returns the clauses about names and keys.
func keys() []clause {
	return []clause{
		{"Keys", "different keys have different counts, whatever bytes they contain", func(s *subject) {
			var all []string
			for _, part := range hostile {
				all = append(all, runtime.KeyOf(runtime.String(part)).String())
			}
			for _, beside := range []string{"", "user"} {
				all = append(all, runtime.KeyOf(runtime.String(beside), runtime.String("a")).String(),
					runtime.KeyOf(runtime.String("a"), runtime.String(beside)).String())
			}
			all = append(all, runtime.Key{}.String())
			// Different counts per key, so that two keys with one count are found whichever comes first.
			for i, key := range all {
				if !s.take(bucket(), key, int64(1+i%9)) {
					s.broken("key %.40q was not full at its first request", key)
				}
			}
			for i, key := range all {
				s.wantValue(bucket(), key, float64(10-(1+i%9)))
			}
		}},
		{"BadKeys", "a key that cannot be stored is an error of its call, and of no other", func(s *subject) {
			for _, key := range []string{"\xff", "a\x00b", strings.Repeat("x", 256)} {
				answers := s.do(call(taking(bucket(), key, 1)), call(taking(bucket(), "good", 1)))
				if !errors.Is(answers[0].Err, runtime.ErrInvalidKey) || !answers[1].Allowed() {
					s.broken("the answer for key %.40q is %+v, and that of the next call %+v", key, answers[0], answers[1])
				}
			}
		}},
		{"Names", "a limit's name and its key are stored separately", func(s *subject) {
			a, b := bucket(), bucket()
			a.Name, b.Name = "ab", "a"
			s.take(a, "c", 10)
			s.wantValue(b, "bc", 10)
		}},
		{"Values", "stored values are read back to the last bit", func(s *subject) {
			// 7 per minute gives fractions that need all bits of a double.
			p := bucket()
			p.Rate, p.Capacity = 7, 1_000_000
			s.take(p, "k", 999_999)
			reference := &memstore.Store{Clock: s.clock.Now}
			reference.Do(s.ctx, []runtime.Call{call(taking(p, "k", 999_999))})
			for range 50 {
				s.clock.Add(12_345_678_901)
				want, _ := reference.Do(s.ctx, []runtime.Call{call(taking(p, "k", 1))})
				got := s.decide(p, "k", runtime.Request{Count: 1})
				if !Same(got, want[0].Decisions[0]) {
					s.broken("the decision is %+v, want %+v", got, want[0].Decisions[0])
				}
			}
		}},
	}
}

// cancelled returns the clauses about contexts that have ended.
func cancelled() []clause {
	return []clause{
		{"Cancelled", "a request with an ended context takes nothing, and the error is that of the context", func(s *subject) {
			ended, cancel := context.WithCancel(s.ctx)
			cancel()
			requests := []runtime.Request{request(bucket(), "k", runtime.Request{Op: runtime.Charge, Count: 5})}
			for _, kind := range runtime.Kinds() {
				requests = append(requests, taking(basic(kind), "k", 5))
			}
			for _, q := range requests {
				if _, err := s.store.Do(ended, []runtime.Call{call(q)}); !errors.Is(err, context.Canceled) {
					s.broken("the error is %v", err)
				}
				s.wantValue(q.Policy, "k", 10)
			}
		}},
		{"CancelledMidway", "a request cancelled midway takes its tokens or nothing, and allowed requests have taken theirs", func(s *subject) {
			policies := []*runtime.Policy{shards(runtime.TokenBucket)}
			for _, kind := range runtime.Kinds() {
				policies = append(policies, basic(kind))
			}
			for _, p := range policies {
				p.Rate, p.Capacity, p.MaxReserved = 100_000, 100_000, 0
				requested := new(atomic.Int64)
				allowed := s.race(30, func(int) bool {
					requested.Add(1)
					ctx, cancel := context.WithTimeout(s.ctx, rand.N(200*time.Microsecond))
					defer cancel()
					answers, err := s.store.Do(ctx, []runtime.Call{call(taking(p, "k", 1))})
					if err != nil && !errors.Is(err, context.DeadlineExceeded) {
						s.broken("the error is %v", err)
					}
					return err == nil && answers[0].Allowed()
				})
				// The tokens of a request with an error may be taken or not, but no more than those.
				left := s.value(p, "k")
				if left > float64(100_000-allowed) || left < float64(100_000-requested.Load()) {
					s.broken("%s: %v tokens are left after %d of %d requests for one were allowed",
						p.Kind, left, allowed, requested.Load())
				}
			}
		}},
	}
}

// goroutines is the number of concurrent callers.
const goroutines = 64

// concurrent returns the clauses about concurrent callers.
func concurrent() []clause {
	return []clause{
		{"Concurrent", "concurrent requests for one key take exactly the tokens that it has", func(s *subject) {
			policies := kinds()
			for _, kind := range runtime.Kinds() {
				policies = append(policies, shards(kind))
			}
			for _, p := range policies {
				p.Rate, p.Capacity = 100, 100
				admitted := s.race(10, func(int) bool { return s.take(p, "hot", 1) })
				if admitted != 100 {
					s.broken("%s, %d shards: %d of 100 admitted", p.Kind, p.Shards, admitted)
				}
			}
		}},
		{"ConcurrentUpTo", "concurrent requests for up to some tokens take exactly the tokens that the key has", func(s *subject) {
			for _, p := range append(kinds(), shards(runtime.TokenBucket)) {
				p.Rate, p.Capacity = 1000, 1000
				taken := new(atomic.Int64)
				s.race(10, func(i int) bool {
					d := s.decide(p, "hot", runtime.Request{Op: runtime.TakeUpTo, Count: int64(1 + i%7)})
					taken.Add(d.Taken)
					return d.Allowed
				})
				if taken.Load() != 1000 {
					s.broken("%s, %d shards: %d of 1000 taken", p.Kind, p.Shards, taken.Load())
				}
			}
		}},
		{"ConcurrentFirstUse", "concurrent first requests for different keys do not disturb each other", func(s *subject) {
			// Inserts of new rows take other locks than updates: on some databases they deadlock.
			p := bucket()
			admitted := s.race(4, func(i int) bool {
				return s.take(p, runtime.KeyOf(runtime.Int(i)).String(), 1)
			})
			if admitted != 4*goroutines {
				s.broken("%d of %d admitted", admitted, 4*goroutines)
			}
		}},
		{"ConcurrentPairs", "calls for two limits in opposite orders do not deadlock, and take exactly the tokens that they have", func(s *subject) {
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
		{"ConcurrentGroups", "concurrent calls with takes, reservations and checks take from all of their limits or from none", func(s *subject) {
			a, b, gate := bucket(), window(), window()
			a.Rate, a.Capacity, a.MaxReserved = 30, 30, 30
			b.Rate, b.Capacity, b.MaxReserved = 100, 100, 0
			gate.Name, gate.Rate, gate.Capacity, gate.MaxReserved = "gate", 40, 40, 0
			admitted := s.race(8, func(i int) bool {
				// Whoever takes from the gate, and whoever only checks it, also takes from both others.
				pass := request(gate, "k", runtime.Request{Op: runtime.Op(i % 2), Count: 1})
				all := []runtime.Request{request(a, "k", runtime.Request{Count: 1, Reserve: true}), taking(b, "k", 1), pass}
				if i%3 == 0 {
					all[0], all[2] = all[2], all[0]
				}
				return s.do(call(all...))[0].Allowed()
			})
			if admitted < 40 || admitted > 60 {
				s.broken("%d admitted, want 40 to 60: each takes one of 60, and until the gate has no token, some take one of its 40", admitted)
			}
			s.wantValue(a, "k", float64(30-admitted))
			s.wantValue(b, "k", float64(100-admitted))
		}},
		{"ConcurrentRefunds", "concurrent takes and refunds neither lose nor double tokens", func(s *subject) {
			s.race(10, func(int) bool {
				if s.take(bucket(), "k", 1) {
					s.decide(bucket(), "k", runtime.Request{Op: runtime.Refund, Count: 1})
				}
				return true
			})
			s.wantValue(bucket(), "k", 10)
		}},
	}
}

// race calls try the given number of times in each of many goroutines, with a different i each time, and returns how
// often it returned true.
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
