package storetest

import (
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// hostile are key parts that collations, escapes, trimming or truncation could confuse.
var hostile = []string{
	"user", "User", "USER", "user ", " user", "user\t", "user\x00", "user\x00x", "üser", "u\u0308ser",
	"\xff", "\xfe", "\xff\xfe", "\xc3", "%", "%25", "%FF", "|", "%7C", "a|b", "'", "''", `"`, "`", `\`, `\'`,
	"'; DROP TABLE rate_limits; --", "$1", "?", ":name", "😀", "😁", "\u200b", "\u202e", "null", "NULL", "0", "00", "0.0",
	strings.Repeat("x", 10_000), strings.Repeat("x", 9_999) + "y", strings.Repeat("x", 255), strings.Repeat("x", 256),
	strings.Repeat("é", 200), strings.Repeat("\x00", 300),
}

// keys returns the clauses about names, keys and stored values.
func keys() []clause {
	p := one(bucket())
	return []clause{
		{name: "Keys", rule: "different keys have different counts, whatever bytes they contain", policies: p, script: takeFromHostile()},
		{name: "BadKeys", rule: "a key that cannot be stored is an error of its call, and of no other", policies: p, script: []step{
			batch(take(1).of("\xff").fails(runtime.ErrInvalidKey), take(1)), batch(take(1).of("a\x00b").fails(runtime.ErrInvalidKey), take(1)),
			batch(take(1).of(strings.Repeat("x", 256)).fails(runtime.ErrInvalidKey), take(1)),
		}},
		{name: "Names", rule: "a limit's name and its key are stored separately", policies: one(named("ab", bucket())), script: []step{
			take(10).of("c"), left(10).of("bc").by(named("a", bucket())),
		}},
		{name: "Values", rule: "stored values are read back to the last bit", policies: p, check: func(s *subject, p *runtime.Policy) {
			// 7 per minute gives fractions that need all bits of a double.
			p.Rate, p.Capacity = 7, 1_000_000
			reference := &memstore.Store{Clock: s.clock.Now}
			for _, n := range append([]int64{999_999}, slices.Repeat([]int64{1}, 50)...) {
				q := request(p, runtime.Request{Count: n})
				want, _ := reference.Do(s.ctx, []runtime.Call{call(q)})
				if got := s.decide(p, q); !Same(got, want[0].Decisions[0]) {
					s.broken("the decision is %+v, want %+v", got, want[0].Decisions[0])
				}
				s.clock.Add(12_345_678_901 * time.Nanosecond)
			}
		}},
	}
}

// takeFromHostile takes tokens of every hostile key, and then reads what is left.
func takeFromHostile() (script []step) {
	all := []string{runtime.Key{}.String()}
	for _, part := range hostile {
		all = append(all, runtime.KeyOf(runtime.String(part)).String())
	}
	for _, beside := range []string{"", "user"} {
		all = append(all, runtime.KeyOf(runtime.String(beside), runtime.String("a")).String(),
			runtime.KeyOf(runtime.String("a"), runtime.String(beside)).String())
	}
	var peeks []step
	for i, key := range all {
		// Different counts per key, so that two keys with one count are found whichever comes first.
		n := int64(1 + i%9)
		script, peeks = append(script, take(n).of(key)), append(peeks, left(float64(10-n)).of(key))
	}
	return append(script, peeks...)
}
