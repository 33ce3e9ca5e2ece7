package storetest

import (
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// rows are the clauses for a [runtime.RowLister]. Other stores cannot list their rows, and pass them.
func rows() []clause {
	return []clause{
		{"Rows", "every row of a limit is on exactly one page, in order, and the rows of a key have the tokens that a Peek returns", (*subject).rows},
	}
}

func (s *subject) rows() {
	lister, ok := s.store.(runtime.RowLister)
	if !ok {
		return
	}
	for _, p := range []*runtime.Policy{basic(runtime.TokenBucket), shards(runtime.TokenBucket), shards(runtime.FixedWindow), precise()} {
		for i := range 7 {
			for n := range int64(i%3 + 1) {
				if err := s.do(runtime.Call{Requests: []runtime.Request{{Policy: p, Key: fmt.Sprintf("key %d", i), Op: runtime.Charge, Count: n + 1}}})[0].Err; err != nil {
					s.Fatalf("Charge: %v", err)
				}
				s.clock.Add(p.Period / 100)
			}
		}
		byKey := map[string][]runtime.StoredRow{}
		after := runtime.Row{Name: p.Name, Shard: -1}
		at := int64(0)
		for {
			page, now, err := lister.Rows(s.ctx, after, 3)
			if err != nil {
				s.Fatalf("Rows: %v", err)
			}
			if len(page) > 3 {
				s.broken("a page has %d rows, and at most 3 were requested", len(page))
			}
			if at = now; len(page) == 0 {
				break
			}
			for _, r := range page {
				if r.Row.Name != p.Name || r.Row.Compare(after) <= 0 {
					s.broken("row %v comes after %v", r.Row, after)
				}
				after = r.Row
				byKey[r.Row.Key] = append(byKey[r.Row.Key], r)
			}
		}
		if len(byKey) != 7 {
			s.broken("%d keys were listed, and 7 have rows", len(byKey))
		}
		if want := s.clock.Now().UnixNano(); at != want {
			s.broken("the instant is %d, and the clock of the store shows %d", at, want)
		}
		for key, of := range byKey {
			listed, err := meter.PeekRows(p, of, at)
			if err != nil {
				s.Fatalf("PeekRows: %v", err)
			}
			peek := s.do(runtime.Call{Requests: []runtime.Request{{Policy: p, Key: key, Op: runtime.Peek}}})[0].Decisions[0]
			if listed.Value != peek.Value || listed.FullAfter != peek.FullAfter {
				s.broken("the rows of %q have %v tokens, full after %v, and a Peek returns %v and %v", key, listed.Value, listed.FullAfter, peek.Value, peek.FullAfter)
			}
		}
	}
}
