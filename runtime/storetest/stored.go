package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/internal/ability"
	"github.com/ratelimitgen/ratelimitgen/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
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

// rows are the clauses for a [runtime.RowLister]. Other stores cannot list their rows, and pass them.
func rows() []clause {
	return []clause{{
		name: "Rows", rule: "every row of a limit is on exactly one page, in order, and the rows of a key have the tokens that a Peek returns",
		policies: []*runtime.Policy{basic(runtime.TokenBucket), shards(runtime.TokenBucket), shards(runtime.FixedWindow), precise()},
		check: func(s *subject, p *runtime.Policy) {
			if lister, ok := ability.Of[runtime.RowLister](s.store); ok {
				s.compareRows(lister, p)
			}
		},
	}}
}

// compareRows compares the listed rows of seven keys with the tokens of the keys.
func (s *subject) compareRows(lister runtime.RowLister, p *runtime.Policy) {
	for i := range 7 {
		for n := range int64(i%3 + 1) {
			s.play(p, []step{charge(n + 1).of(fmt.Sprintf("key %d", i)), pause(p.Period / 100)})
		}
	}
	byKey := s.list(lister, p)
	if len(byKey) != 7 {
		s.broken("%d keys were listed, and 7 have rows", len(byKey))
	}
	for key, of := range byKey {
		listed, err := meter.PeekRows(p, of, s.clock.Now().UnixNano())
		if err != nil {
			s.Fatalf("PeekRows: %v", err)
		}
		peek := s.decide(p, runtime.Request{Op: runtime.Peek, Key: key})
		if listed.Value != peek.Value || listed.FullAfter != peek.FullAfter {
			s.broken("the rows of %q have %v tokens, full after %v, and a Peek returns %v and %v", key, listed.Value, listed.FullAfter, peek.Value, peek.FullAfter)
		}
	}
}

// list returns the rows of a limit by key, read by pages of three.
func (s *subject) list(lister runtime.RowLister, p *runtime.Policy) map[string][]runtime.StoredRow {
	byKey := map[string][]runtime.StoredRow{}
	after := runtime.Row{Name: p.Name, Shard: -1}
	for {
		page, at, err := lister.Rows(s.ctx, after, 3)
		if err != nil {
			s.Fatalf("Rows: %v", err)
		}
		if now := s.clock.Now().UnixNano(); len(page) > 3 || at != now {
			s.broken("a page has %d rows at %d, and at most 3 at %d were requested", len(page), at, now)
		}
		if len(page) == 0 {
			return byKey
		}
		for _, r := range page {
			if r.Row.Name != p.Name || r.Row.Compare(after) <= 0 {
				s.broken("row %v comes after %v", r.Row, after)
			}
			after = r.Row
			byKey[r.Row.Key] = append(byKey[r.Row.Key], r)
		}
	}
}

// registrations returns the clauses about limits that are another program's.
func registrations() []clause {
	mine, theirs, other := registered("example.com/mine", "int64"), registered("example.com/theirs", "int64"), registered("example.com/mine", "string")
	byHand := *mine
	byHand = runtime.Policy{Name: byHand.Name, Kind: byHand.Kind, Rate: byHand.Rate, Period: byHand.Period, Capacity: byHand.Capacity}
	beside := basic(runtime.FixedWindow)
	edited := func(p *runtime.Policy) { p.Rate, p.Capacity = 20, 20 }
	return []clause{{
		name: "Registrations", policies: []*runtime.Policy{mine},
		rule: "a limit belongs to its owner: those of another one, or with another key, are refused and take nothing, and calls beside them go on",
		check: func(s *subject, p *runtime.Policy) {
			if m, ok := ability.Of[interface {
				Migrate(ctx context.Context, policies ...*runtime.Policy) error
			}](s.store); ok {
				if err := m.Migrate(s.ctx, p); err != nil {
					s.Fatalf("Migrate: %v", err)
				}
			}
			s.play(p, []step{
				take(3),
				take(1).by(theirs).fails(runtime.ErrForeignCounts),
				take(1).by(other).fails(runtime.ErrForeignCounts),
				left(0).by(theirs).fails(runtime.ErrForeignCounts),
				reset().by(theirs).fails(runtime.ErrForeignCounts),
				left(7),
				all(take(1).by(beside), take(1).by(theirs).fails(runtime.ErrForeignCounts)),
				batch(take(1), take(1).by(other).fails(runtime.ErrForeignCounts), take(1).by(beside), take(1)),
				left(5),
				left(9).by(beside),
				// A policy by hand has no owner, and an edit of the numbers keeps it.
				take(1).by(&byHand),
				take(1).edited(edited),
				left(3),
			})
			if e, ok := ability.Of[runtime.Eraser](s.store); ok {
				limit := limiter.New(s.store).Limit(theirs, runtime.KeyOf(runtime.String("k")))
				if err := limit.Erase(s.ctx); !errors.Is(err, runtime.ErrForeignCounts) {
					s.broken("Erase of %T by the other owner: %v", e, err)
				}
			}
		},
	}}
}

// registered returns a policy of an owner, with a key.
func registered(owner, key string) *runtime.Policy {
	p := bucket()
	p.Name = "registered"
	runtime.NewCatalog(owner, runtime.Catalog{Limits: []runtime.CatalogLimit{{
		Name: p.Name, Key: []runtime.CatalogKey{{Name: "id", Type: key}}, Policies: []*runtime.Policy{p},
	}}})
	return p
}
