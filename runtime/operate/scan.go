package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/ability"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
)

// BusyKey is a key that lacks tokens.
type BusyKey struct {
	// Policy is that by which it was read, and Plan its plan.
	Policy *runtime.Policy
	Plan   string
	// Entry is the entry of the log that is in force for the key or the whole limit, or 0. InForce describes the block or the override of the key or of the whole limit, and a penalty of the key, or is "".
	Entry   int64
	InForce string
	// Key is the key as it is stored.
	Key string
	// Decision has the tokens left.
	Decision runtime.Decision
}

// Used is the part of the capacity that the key lacks; more than 1 in debt.
func (b *BusyKey) Used() float64 {
	return 1 - b.Decision.Value/float64(max(1, b.Policy.Full()))
}

// left and capacity are the tokens left and the most that there can be, in words.
func (b *BusyKey) left() string {
	if p := b.Policy.Inside(); p.CountsOnly() {
		return strconv.FormatInt(p.Used(b.Decision.Value), 10) + " used"
	}
	return tokens(b.Decision.Value)
}

func (b *BusyKey) capacity() string {
	if b.Policy.Inside().CountsOnly() {
		return "unlimited"
	}
	return strconv.FormatInt(b.Policy.Full(), 10)
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

// UsedQuery chooses the rows that [Program.Busiest] reads.
type UsedQuery struct {
	Limit *runtime.CatalogLimit
	// Plan, if not "", is the plan by which to read a limit that depends on it.
	Plan string
	// Most is how many keys to return, and Pages how many pages of rows to read at most, or 0 for all.
	Most, Pages int
}

// Busiest returns the busiest keys of a limit. It reads its rows page by page. If the store keeps overrides, each key is
// read by the override in force for it. A limit that depends on the plan is otherwise read by the smallest one that counts,
// or by the given one, because the table does not have the plan of a key. Limits that count nothing have no busy keys, and
// keys whose override lifts the limit are left out. The error is [runtime.ErrForeignCounts] if the rows of that name are of
// another program.
func (p Program) Busiest(ctx context.Context, q UsedQuery) (used Used, err error) {
	all, err := p.Policies(q.Limit, q.Plan)
	if err == nil {
		err = override.CheckCounts(ctx, p.Store, q.Limit.Policies[0])
	}
	if err != nil {
		return Used{}, err
	}
	smallest := all[0]
	all = slices.DeleteFunc(all, func(p Planned) bool { return p.Policy.Mode.Passes() })
	switch {
	case len(all) > 0:
		smallest = slices.MinFunc(all, func(a, b Planned) int {
			return cmp.Or(cmp.Compare(a.Policy.Rate, b.Policy.Rate), cmp.Compare(a.Policy.Full(), b.Policy.Full()))
		})
	case smallest.Policy.Mode != runtime.ModeUnlimited || !smallest.Policy.Overridable(): // else an override may give a key another plan
		return Used{}, nil
	}
	inForce, err := p.InForce(ctx, *q.Limit)
	if err != nil {
		return Used{}, err
	}
	r, scan := rowReader{store: p.Store, pages: q.Pages}, meter.Scan{}
	for rows := range r.keys(ctx, runtime.Row{Name: q.Limit.Name, Shard: -1}) {
		b := smallest.busy(p.Store, inForce, rows[0].Row.Key)
		if b.Policy.Inside().Uncounted() {
			continue
		}
		if left, ok := scan.Left(b.Policy, rows, r.at); ok {
			// Most keys of a large limit are not among the busiest, so the rest of their decisions is not needed.
			b.Decision.Value = left
			if lacks := left < float64(b.Policy.Full()); !lacks || !ranks(used.Busiest, &b, q.Most) {
				if lacks {
					used.InUse++
				}
				continue
			}
		}
		if b.Decision, err = meter.PeekRows(b.Policy, rows, r.at); err != nil {
			return used, err
		}
		if lasts := b.Decision.PenaltyFor; lasts > 0 {
			b.InForce = strings.TrimPrefix(b.InForce+", penalty for "+lasts.Round(time.Millisecond).String(), ", ")
		}
		if b.Decision.Value < float64(b.Policy.Full()) || b.Decision.PenaltyFor > 0 {
			used.Busiest = insert(used.Busiest, b, q.Most)
			used.InUse++
		}
	}
	used.More = r.more
	return used, r.err
}

// Others returns the limits in a store that are not those of a catalog, as far as the store remembers them: they belong to
// another program, or were removed. One that has the name of a limit of the catalog is among them.
func (p Program) Others(ctx context.Context) (others []runtime.Registration, err error) {
	for _, l := range p.Catalog.Limits {
		// With another key or format, it is nevertheless this program's.
		if foreign, ok := errors.AsType[*runtime.RegistrationError](override.CheckCounts(ctx, p.Store, l.Policies[0])); ok && foreign.Stored.Owner != foreign.Own.Owner {
			others = append(others, foreign.Stored)
		}
	}
	s, ok := ability.Of[interface {
		Registrations(context.Context) ([]runtime.Registration, error)
	}](p.Store)
	if !ok {
		return others, nil
	}
	all, err := s.Registrations(ctx)
	for _, r := range all {
		if _, own := p.Catalog.Limit(r.Limit); !own {
			others = append(others, r)
		}
	}
	return others, err
}

// busy returns a key with the policy by which to read it, given the entries in force.
func (p Planned) busy(store runtime.Store, inForce []runtime.OverrideEntry, key string) BusyKey {
	b := BusyKey{Policy: p.Policy.Inside().Except(key), Plan: p.Plan, Key: key}
	if b.Policy != p.Policy {
		b.InForce = "exception"
	}
	if len(inForce) == 0 {
		return b
	}
	log, _ := ability.Of[override.Store](store) // which has the entries
	of, err := log.OverrideView().PolicyOf(b.Policy, key)
	if err != nil {
		// A later version wrote the entry. The numbers of the file are as good as any.
		b.InForce = "unknown"
		return b
	}
	id, _ := of.Override()
	i, ok := slices.BinarySearchFunc(inForce, id, func(e runtime.OverrideEntry, id int64) int { return cmp.Compare(e.ID, id) })
	if !ok {
		return b
	}
	b.Policy, b.Entry, b.InForce = of, id, Describe(inForce[i])
	if e := overrideBehind(inForce, i, key); e.What == runtime.OverridePlan {
		b.Plan = e.Plan
	}
	return b
}

// overrideBehind returns the override that gives a key its numbers, given the index of the entry in force: the entry
// itself, or behind a block the override of the key or of the whole limit.
func overrideBehind(inForce []runtime.OverrideEntry, i int, key string) (behind runtime.OverrideEntry) {
	first := inForce[i]
	if first.What != runtime.OverrideBlock {
		return first
	}
	for _, e := range inForce {
		if e.Limit == first.Limit && e.What != runtime.OverrideBlock && (e.Key == key || e.Key == "" && behind.ID == 0) {
			behind = e
		}
	}
	return behind
}

// ranks reports whether a key is among the n that have used most.
func ranks(busiest []BusyKey, b *BusyKey, n int) bool {
	last := len(busiest) - 1
	return last < 0 || len(busiest) < n || !(b.Used() < busiest[last].Used())
}

// insert inserts a key in the order of use, and keeps the n that have used most.
func insert(busiest []BusyKey, b BusyKey, n int) []BusyKey {
	if !ranks(busiest, &b, n) {
		return busiest
	}
	i, _ := slices.BinarySearchFunc(busiest, b, func(o, b BusyKey) int { return cmp.Compare(b.Used(), o.Used()) })
	busiest = slices.Insert(busiest, i, b)
	return busiest[:min(n, len(busiest))]
}

// InForce returns the blocks and overrides in force of limits and of their keys, in the order of their IDs. It reads the
// log if one of the limits has overrides.
func (p Program) InForce(ctx context.Context, limits ...runtime.CatalogLimit) ([]runtime.OverrideEntry, error) {
	overridable := map[string]bool{}
	for _, l := range limits {
		if l.Policies[0].Overridable() {
			overridable[l.Name] = true
		}
	}
	if len(overridable) == 0 {
		return nil, nil
	}
	log, ok := ability.Of[override.Store](p.Store)
	if !ok {
		return nil, ability.Missing(runtime.ErrNoOverrides, p.Store)
	}
	view := log.OverrideView()
	if err := view.Refresh(ctx); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(view.InForce(), func(e runtime.OverrideEntry) bool { return !overridable[e.Limit] }), nil
}

// History returns the log of a key and, after it, the log of its whole limit; for the key "" the latter alone. It is empty
// if the store has no log.
func (p Program) History(ctx context.Context, limit, key string) (entries []runtime.OverrideEntry, err error) {
	log, ok := ability.Of[override.Store](p.Store)
	if !ok {
		return nil, nil
	}
	if key != "" {
		if entries, err = log.OverrideHistory(ctx, limit, key); err != nil {
			return nil, err
		}
	}
	whole, err := log.OverrideHistory(ctx, limit, "")
	return append(entries, whole...), err
}

// Rows returns the rows of a key and the time of the store, if it can list them.
func (p Program) Rows(ctx context.Context, limit, key string) (rows []runtime.StoredRow, at int64, err error) {
	if _, ok := ability.Of[runtime.RowLister](p.Store); !ok {
		return nil, 0, nil
	}
	r := rowReader{store: p.Store}
	for rows = range r.keys(ctx, runtime.Row{Name: limit, Key: key, Shard: -1}) {
		break
	}
	if len(rows) > 0 && rows[0].Row.Key != key {
		rows = nil
	}
	return rows, r.at, r.err
}

// PenalizedKey is a key with a [runtime.Penalty] in force.
type PenalizedKey struct {
	Policy *runtime.Policy
	// Key is the key as it is stored.
	Key string
	// Until is when the penalty ends.
	Until time.Time
	// Lifted, if it is not 0, is the entry of the log because of which requests pass meanwhile.
	Lifted int64
}

// String says until when the penalty lasts, what a denial after it does, and how to end it.
func (k *PenalizedKey) String() string {
	p := &k.Policy.Penalty
	does, next := "all requests are denied", "a penalty of "+p.Step(1).String()
	switch {
	case k.Lifted != 0:
		does = fmt.Sprintf("requests pass, because of entry %d of the log", k.Lifted)
	case k.Policy.Mode == runtime.ModeShadow:
		does = "requests pass, because it is in shadow mode"
	}
	if n := p.Len(); n > 1 {
		next = "the next penalty, of at most " + p.Step(n).String()
	}
	end := "reset"
	if k.Policy.Overridable() {
		end = "unblock or reset"
	}
	return fmt.Sprintf("penalty until %s: %s, and a denial after it starts %s; %s ends it", Moment(k.Until), does, next, end)
}

// Penalized returns the penalties in force of a limit, of one key, or without one of all keys: a log does not have them. It
// reads the rows of the limit, and returns nothing if the limit has no penalties, the store cannot list its rows, or they
// are of another program.
func (p Program) Penalized(ctx context.Context, l *runtime.CatalogLimit, key ...string) (found []PenalizedKey, err error) {
	i := slices.IndexFunc(l.Policies, (*runtime.Policy).Penalizes)
	if _, lists := ability.Of[runtime.RowLister](p.Store); i < 0 || !lists {
		return nil, nil
	}
	if override.CheckCounts(ctx, p.Store, l.Policies[i]) != nil {
		return nil, nil
	}
	if _, err := p.InForce(ctx, *l); err != nil {
		return nil, err
	}
	policy, r, after := l.Policies[i], rowReader{store: p.Store}, runtime.Row{Name: l.Name, Shard: -1}
	if len(key) > 0 {
		after.Key = key[0]
	}
	for rows := range r.keys(ctx, after) {
		if len(key) > 0 && rows[0].Row.Key != key[0] {
			break
		}
		d, err := meter.PeekRows(policy, rows, r.at)
		if err != nil {
			return nil, err
		}
		if d.PenaltyFor > 0 {
			key := rows[0].Row.Key
			found = append(found, PenalizedKey{policy, key, time.Unix(0, r.at).Add(d.PenaltyFor), lifted(p.Store, policy, key)})
		}
		if len(key) > 0 {
			break
		}
	}
	return found, r.err
}

// lifted returns the entry in force because of which penalties of a key deny no requests, or 0.
func lifted(store runtime.Store, p *runtime.Policy, key string) int64 {
	log, ok := ability.Of[override.Store](store)
	if !ok {
		return 0
	}
	of, err := log.OverrideView().PolicyOf(p.Inside().Except(key), key)
	if err != nil || of.Mode == runtime.ModeBlock || of.Mode == runtime.ModeEnforce && of.Penalizes() {
		return 0
	}
	entry, _ := of.Override()
	return entry
}

// hasRow reports whether the store has a count of a key. It is true if the store cannot list its rows.
func (p Program) hasRow(ctx context.Context, limit, key string) (bool, error) {
	if _, ok := ability.Of[runtime.RowLister](p.Store); !ok {
		return true, nil
	}
	rows, _, err := p.Rows(ctx, limit, key)
	return len(rows) > 0, err
}

var errNoRows = errors.New("the store cannot list its rows")

// rowReader reads the rows of a limit page by page: all of them, or if pages is not 0, at most those of so many pages.
type rowReader struct {
	store runtime.Store
	pages int
	// at is the time of the store, and more is set if there are rows after those that were read.
	at   int64
	more bool
	err  error
}

// keys yields the rows of each key after a row. The slice is used again.
func (r *rowReader) keys(ctx context.Context, after runtime.Row) iter.Seq[[]runtime.StoredRow] {
	return func(yield func([]runtime.StoredRow) bool) {
		var ofKey []runtime.StoredRow
		for row := range r.rows(ctx, after) {
			if len(ofKey) > 0 && ofKey[0].Row.Key != row.Row.Key {
				if !yield(ofKey) {
					return
				}
				ofKey = ofKey[:0]
			}
			ofKey = append(ofKey, row)
		}
		if len(ofKey) > 0 {
			yield(ofKey)
		}
	}
}

// rows yields the rows after one.
func (r *rowReader) rows(ctx context.Context, after runtime.Row) iter.Seq[runtime.StoredRow] {
	return func(yield func(runtime.StoredRow) bool) {
		lister, ok := ability.Of[runtime.RowLister](r.store)
		if !ok {
			r.err = ability.Missing(errNoRows, r.store)
			return
		}
		var rows []runtime.StoredRow
		for page := 0; r.pages == 0 || page < r.pages; page++ {
			if rows, r.at, r.err = lister.Rows(ctx, after, runtime.RowPage); len(rows) == 0 {
				return
			}
			for _, row := range rows {
				if !yield(row) {
					return
				}
			}
			after = rows[len(rows)-1].Row
		}
		rows, _, r.err = lister.Rows(ctx, after, 1)
		r.more = len(rows) > 0
	}
}

// FoundKey is a key of a limit, as it is stored.
type FoundKey struct{ Limit, Key string }

// Who returns the keys of limits that have a fingerprint under the Secret; see [runtime.Fingerprint]. It reads the rows of
// the limits page by page, and the log of overrides, which has keys that are blocked and have no row. If pages is not 0, it
// reads at most that many pages of each, and more reports whether there are others. A key that has neither a row nor an
// entry, because it was full and has been swept, is not found. If none of the limits has overrides, the log is optional.
func (p Program) Who(ctx context.Context, limits []runtime.CatalogLimit, fingerprint string, pages int) (found []FoundKey, more bool, err error) {
	more, err = p.eachKey(ctx, limits, pages, func(limit, key string) {
		k := FoundKey{limit, key}
		if runtime.Fingerprint(p.Secret, key) == fingerprint && !slices.Contains(found, k) {
			found = append(found, k)
		}
	})
	return found, more, err
}

// eachKey calls f for the keys of limits: for those of their rows, and then for those of the log, which may be the same
// ones.
func (p Program) eachKey(ctx context.Context, limits []runtime.CatalogLimit, pages int, f func(limit, key string)) (more bool, err error) {
	searched, overridable := map[string]bool{}, false
	for _, l := range limits {
		searched[l.Name] = true
		overridable = overridable || l.Policies[0].Overridable()
		if len(l.Key) == 0 {
			f(l.Name, "")
			continue
		}
		r := rowReader{store: p.Store, pages: pages}
		for rows := range r.keys(ctx, runtime.Row{Name: l.Name, Shard: -1}) {
			f(l.Name, rows[0].Row.Key)
		}
		if r.err != nil {
			return false, r.err
		}
		more = more || r.more
	}
	others, err := p.eachEntry(ctx, pages, func(e runtime.OverrideEntry) {
		if searched[e.Limit] && e.Key != "" {
			f(e.Limit, e.Key)
		}
	})
	if err != nil && !overridable {
		// The table of the log may not exist.
		return more, nil
	}
	return more || others, err
}

// eachEntry calls f for the entries of the log of overrides, page by page.
func (p Program) eachEntry(ctx context.Context, pages int, f func(runtime.OverrideEntry)) (more bool, err error) {
	log, ok := ability.Of[override.Store](p.Store)
	if !ok {
		return false, ability.Missing(runtime.ErrNoOverrides, p.Store)
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

// LogQuery chooses entries of the log of a store.
type LogQuery struct {
	// Keys are the stored keys to find, by their limits; nil means those of all keys and limits.
	Keys map[string]string
	// Author is who has written the entries, if not "", and Since when at the earliest.
	Author string
	Since  time.Time
	// Before, if not 0, is the ID before which the entries are, for the next page.
	Before int64
	// Most is how many entries to return.
	Most int
}

// Log returns entries of the log across all limits, the newest first. More means that there are older ones. It reads the
// whole log page by page.
func (p Program) Log(ctx context.Context, q LogQuery) (entries []runtime.OverrideEntry, more bool, err error) {
	_, err = p.eachEntry(ctx, 0, func(e runtime.OverrideEntry) {
		key, of := q.Keys[e.Limit]
		switch {
		case q.Keys != nil && (!of || key != e.Key), q.Author != "" && q.Author != e.Author, e.At.Before(q.Since),
			q.Before > 0 && e.ID >= q.Before:
			return
		}
		if entries = append(entries, e); len(entries) > 2*q.Most {
			// Now and then, so that neither time nor memory grows with the log.
			entries, more = append(entries[:0], entries[len(entries)-q.Most:]...), true
		}
	})
	if len(entries) > q.Most {
		entries, more = entries[len(entries)-q.Most:], true
	}
	slices.Reverse(entries)
	return entries, more, err
}
