package storetest

import (
	"errors"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// hostile are parts of keys that a store might mistake for each other, or for something else.
var hostile = []string{
	"", "user", "User", "USER", "user ", " user", "user\t", "user\x00", "user\x00x", "üser", "u\u0308ser",
	"\xff", "\xfe", "\xff\xfe", "\xc3", "%", "%25", "%FF", "|", "%7C", "a|b", "'", "''", `"`, "`", `\`, `\'`,
	"'; DROP TABLE rate_limits; --", "$1", "?", ":name", "😀", "😁", "\u200b", "\u202e", "null", "NULL", "0", "00", "0.0",
	strings.Repeat("x", 10_000), strings.Repeat("x", 9_999) + "y", strings.Repeat("x", 255), strings.Repeat("x", 256),
	strings.Repeat("é", 200), strings.Repeat("\x00", 300),
}

// keys are the clauses about what a key may be.
func keys() []clause {
	return []clause{
		{"Keys", "distinct keys are distinct, whatever is in them", func(s *subject) {
			var all []string
			for _, part := range hostile {
				all = append(all, runtime.KeyOf(runtime.String(part)).String())
			}
			all = append(all, runtime.Key{}.String(), runtime.KeyOf(runtime.String(""), runtime.String("")).String())
			for i, key := range all {
				if !s.take(bucket(), key, int64(1+i%9)) {
					s.broken("key %.40q was not fresh", key)
				}
			}
			for i, key := range all {
				s.wantValue(bucket(), key, float64(10-(1+i%9)))
			}
		}},
		{"BadKeys", "a key that cannot be stored is an error of its own call alone", func(s *subject) {
			for _, key := range []string{"\xff", "a\x00b", strings.Repeat("x", 256)} {
				answers := s.do(call(taking(bucket(), key, 1)), call(taking(bucket(), "good", 1)))
				if !errors.Is(answers[0].Err, runtime.ErrInvalidKey) || !answers[1].Allowed() {
					s.broken("key %.40q was answered with %+v, its neighbour with %+v", key, answers[0], answers[1])
				}
			}
		}},
		{"Names", "a limit's name and its key are kept apart", func(s *subject) {
			a, b := bucket(), bucket()
			a.Name, b.Name = "ab", "a"
			s.take(a, "c", 10)
			s.wantValue(b, "bc", 10)
		}},
		{"Values", "what is stored comes back to the last bit", func(s *subject) {
			p := bucket()
			p.Rate, p.Capacity = 7, 1_000_000
			s.take(p, "k", 999_999)
			reference := &runtime.MemStore{Clock: s.clock.Now}
			reference.Do(s.ctx, []runtime.Call{call(taking(p, "k", 999_999))})
			for range 50 {
				s.clock.Add(12_345_678_901)
				want, _ := reference.Do(s.ctx, []runtime.Call{call(taking(p, "k", 1))})
				got := s.ask(p, "k", runtime.Request{Count: 1})
				if got != want[0].Decisions[0] {
					s.broken("%+v, not %+v", got, want[0].Decisions[0])
				}
			}
		}},
	}
}
