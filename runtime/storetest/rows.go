package storetest

import (
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// rows are the clauses for a [runtime.RowLister]. Other stores cannot list their rows, and pass them.
func rows() []clause {
	return []clause{{
		name: "Rows", rule: "every row of a limit is on exactly one page, in order, and the rows of a key have the tokens that a Peek returns",
		policies: []*runtime.Policy{basic(runtime.TokenBucket), shards(runtime.TokenBucket), shards(runtime.FixedWindow), precise()},
		check: func(s *subject, p *runtime.Policy) {
			if lister, ok := s.store.(runtime.RowLister); ok {
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
