package operate

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/override"
)

// BusyKey is a key that lacks tokens.
type BusyKey struct {
	// Policy is that by which it was read, and Plan its plan.
	Policy *runtime.Policy
	Plan   string
	// InForce describes the block or the override of the key or of the whole limit, or is "".
	InForce string
	// Key is the key as it is stored.
	Key string
	// Decision has the tokens left.
	Decision runtime.Decision
}

// Used is the part of the capacity that the key lacks; more than 1 in debt.
func (b *BusyKey) Used() float64 {
	return 1 - b.Decision.Value/float64(max(1, b.Policy.Capacity))
}

// Used is what the rows of a limit show.
type Used struct {
	// Busiest are the keys that have used the largest part of the capacity, those that have used most first.
	Busiest []BusyKey
	// InUse is how many keys lack tokens.
	InUse int
	// More means that the limit has more rows than were read.
	More bool
}

// Busiest returns the n busiest keys of a limit. It reads all rows of the limit page by page, or at most the given number
// of pages if that is not 0. If the lister is a [override.Store], each key is read by the override in force for it. A
// limit that depends on the plan is otherwise read by the smallest one that counts, or by the given one, because the table
// does not have the plan of a key. Limits that count nothing have no busy keys, and keys whose override lifts the limit are
// left out.
func Busiest(ctx context.Context, lister runtime.RowLister, catalog *runtime.Catalog, l *runtime.CatalogLimit, plan string, n, pages int) (Used, error) {
	s := scan{n: n}
	for i, p := range l.Policies {
		of := ""
		if len(l.Policies) > 1 {
			of = catalog.Plans[i]
		}
		if counts(p) && (plan == "" || plan == of) && (s.policy == nil || p.Rate < s.policy.Rate) {
			s.policy, s.plan = p, of
		}
	}
	if s.policy == nil {
		return Used{}, nil
	}
	if err := s.readOverrides(ctx, lister); err != nil {
		return Used{}, err
	}
	more, err := eachRow(ctx, lister, l.Name, pages, func(row runtime.StoredRow, at int64) error {
		s.at = at
		return s.add(row)
	})
	s.used.More = more
	return s.used, errors.Join(err, s.judge())
}

// counts reports whether tokens are counted by a policy.
func counts(p *runtime.Policy) bool {
	return p.Mode != runtime.ModeUnlimited && p.Mode != runtime.ModeOff
}

// eachRow calls f for the rows of a limit and the store's time, page by page. If pages is not 0 and there are more of them,
// it returns true after so many.
func eachRow(ctx context.Context, lister runtime.RowLister, limit string, pages int, f func(row runtime.StoredRow, at int64) error) (more bool, err error) {
	after := runtime.Row{Name: limit, Shard: -1}
	for page := 0; pages == 0 || page < pages; page++ {
		rows, at, err := lister.Rows(ctx, after, runtime.RowPage)
		if err != nil || len(rows) == 0 {
			return false, err
		}
		for _, row := range rows {
			if err := f(row, at); err != nil {
				return false, err
			}
		}
		after = rows[len(rows)-1].Row
	}
	rows, _, err := lister.Rows(ctx, after, 1)
	return len(rows) > 0, err
}

// scan collects the busiest keys of a limit, row by row.
type scan struct {
	policy *runtime.Policy
	plan   string
	n      int
	at     int64
	ofKey  []runtime.StoredRow
	used   Used
	// view has the overrides, and entries those in force by their numbers; both are nil if the limit has none.
	view    *override.View
	entries map[int64]runtime.OverrideEntry
}

// readOverrides reads the blocks and overrides in force, if the limit can have some.
func (s *scan) readOverrides(ctx context.Context, lister runtime.RowLister) error {
	log, ok := lister.(override.Store)
	if !ok || !s.policy.Overridable() {
		return nil
	}
	s.view, s.entries = log.OverrideView(), map[int64]runtime.OverrideEntry{}
	if err := s.view.Refresh(ctx); err != nil {
		return err
	}
	for _, e := range s.view.InForce() {
		s.entries[e.ID] = e
	}
	return nil
}

// busy returns a key with the policy by which to read it.
func (s *scan) busy(key string) BusyKey {
	b := BusyKey{Policy: s.policy, Plan: s.plan, Key: key}
	if s.view == nil {
		return b
	}
	p, err := s.view.PolicyOf(s.policy, key)
	if err != nil {
		// A later version wrote the entry. The numbers of the file are as good as any.
		b.InForce = "unknown"
		return b
	}
	id, _ := runtime.Decision{Policy: p}.Override()
	if e, ok := s.entries[id]; ok {
		b.Policy, b.InForce = p, Describe(e)
		if e.What == runtime.OverridePlan {
			b.Plan = e.Plan
		}
	}
	return b
}

// add adds a row. If it is the first of a key, the key before is complete, and judged.
func (s *scan) add(row runtime.StoredRow) error {
	if len(s.ofKey) > 0 && s.ofKey[0].Row.Key != row.Row.Key {
		if err := s.judge(); err != nil {
			return err
		}
	}
	if row.State.Exists {
		s.ofKey = append(s.ofKey, row)
	}
	return nil
}

// judge compares the key whose rows were added with the busiest.
func (s *scan) judge() error {
	if len(s.ofKey) == 0 {
		return nil
	}
	rows, b := s.ofKey, s.busy(s.ofKey[0].Row.Key)
	s.ofKey = rows[:0]
	if !counts(b.Policy) {
		return nil
	}
	var err error
	if b.Decision, err = meter.PeekRows(b.Policy, rows, s.at); err != nil {
		return err
	}
	if b.Decision.Value < float64(b.Policy.Capacity) {
		s.used.Busiest = insert(s.used.Busiest, b, s.n)
		s.used.InUse++
	}
	return nil
}

// insert inserts a key in the order of use, and keeps the n that have used most.
func insert(busiest []BusyKey, b BusyKey, n int) []BusyKey {
	i, _ := slices.BinarySearchFunc(busiest, b, func(o, b BusyKey) int { return cmp.Compare(b.Used(), o.Used()) })
	busiest = slices.Insert(busiest, i, b)
	return busiest[:min(n, len(busiest))]
}

// FoundKey is a key of a limit, as it is stored.
type FoundKey struct{ Limit, Key string }

// Who returns the keys of limits that have a fingerprint under a secret; see [runtime.Fingerprint]. It reads the rows of the
// limits page by page, and the log of overrides, which has keys that are blocked and have no row. If pages is not 0, it
// reads at most that many pages of each, and more reports whether there are others. A key that has neither a row nor an
// entry, because it was full and has been swept, is not found. If none of the limits has overrides, the log is optional.
func Who(ctx context.Context, store runtime.Store, limits []runtime.CatalogLimit, secret []byte, fingerprint string, pages int) (found []FoundKey, more bool, err error) {
	lister, ok := store.(runtime.RowLister)
	if !ok {
		return nil, false, errors.New("the store cannot list its rows")
	}
	add := func(limit, key string) {
		// All rows of a key follow one another, and entries of the log may repeat it.
		k := FoundKey{limit, key}
		if runtime.Fingerprint(secret, key) == fingerprint && !slices.Contains(found, k) {
			found = append(found, k)
		}
	}
	overridable := map[string]bool{}
	for _, l := range limits {
		overridable[l.Name] = l.Policies[0].Overridable()
		if len(l.Key) == 0 {
			add(l.Name, "")
			continue
		}
		others, err := eachRow(ctx, lister, l.Name, pages, func(row runtime.StoredRow, _ int64) error {
			add(l.Name, row.Row.Key)
			return nil
		})
		if err != nil {
			return nil, false, err
		}
		more = more || others
	}
	others, err := eachEntry(ctx, store, pages, func(e runtime.OverrideEntry) {
		if _, searched := overridable[e.Limit]; searched && e.Key != "" {
			add(e.Limit, e.Key)
		}
	})
	if err != nil && !slices.Contains(slices.Collect(maps.Values(overridable)), true) {
		// The table of the log may not exist.
		return found, more, nil
	}
	return found, more || others, err
}

// eachEntry calls f for the entries of the log of overrides, page by page.
func eachEntry(ctx context.Context, store runtime.Store, pages int, f func(runtime.OverrideEntry)) (more bool, err error) {
	log, ok := store.(override.Store)
	if !ok {
		return false, runtime.ErrNoOverrides
	}
	next := int64(1)
	for page := 0; pages == 0 || page < pages; page++ {
		entries, err := log.OverridesSince(ctx, next)
		if err != nil {
			return false, err
		}
		for _, e := range entries {
			f(e)
			next = e.ID + 1
		}
		if len(entries) < override.Page {
			return false, nil
		}
	}
	return true, nil
}
