package operate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// top prints the keys that have the smallest part of their tokens left, of one limit or of all.
func (c *call) top() error {
	limits := c.catalog.Limits
	if len(c.args) > 0 {
		l, err := c.limit()
		if err != nil {
			return err
		}
		if limits = []runtime.CatalogLimit{*l}; len(c.args) > 1 {
			return usagef("top takes one limit, and no key: use show")
		}
	}
	lister, ok := c.store.(runtime.RowLister)
	if !ok {
		return errors.New("the store cannot list its rows")
	}
	n := 10
	if c.flags.n > 0 {
		n = int(min(c.flags.n, 10_000))
	}
	var busiest []busy
	for i := range limits {
		l := &limits[i]
		all, err := c.policies(l)
		if err != nil {
			return err
		}
		// By the smallest plan that counts, unless one was given: the table does not have the plan of a key.
		counted := slices.DeleteFunc(all, func(o named) bool {
			return o.policy.Mode == runtime.ModeUnlimited || o.policy.Mode == runtime.ModeOff
		})
		if len(counted) == 0 {
			continue
		}
		by := slices.MinFunc(counted, func(a, b named) int { return cmp.Compare(a.policy.Rate, b.policy.Rate) })
		if busiest, err = c.scan(lister, by, busiest, n); err != nil {
			return err
		}
	}
	if len(busiest) == 0 {
		_, err := fmt.Fprintln(c.out, "No key has used any tokens.")
		return err
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "LIMIT\tPLAN\tKEY\tLEFT\tCAPACITY\tFULL IN\n")
	for _, b := range busiest {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\n", b.by.policy.Name, cmp.Or(b.by.plan, "-"), printable(cmp.Or(b.key, "-")),
			tokens(b.decision.Value), b.by.policy.Capacity, fullIn(b.by.policy, b.decision))
	}
	return table.Flush()
}

// fullIn is when a key is full. The table does not have the windows of a key with a calendar of its own.
func fullIn(p *runtime.Policy, d runtime.Decision) string {
	if p.Calendar.PerKey() {
		return "-"
	}
	return d.FullAfter.Round(time.Millisecond).String()
}

// busy is a key that lacks tokens.
type busy struct {
	by       named
	key      string
	decision runtime.Decision
}

// used is the part of the capacity that the key lacks; more than 1 in debt.
func (b *busy) used() float64 {
	return 1 - b.decision.Value/float64(max(1, b.by.policy.Capacity))
}

// scan reads the rows of a limit page by page, and returns the n busiest keys of them and of those before.
func (c *call) scan(lister runtime.RowLister, by named, busiest []busy, n int) ([]busy, error) {
	after := runtime.Row{Name: by.policy.Name, Shard: -1}
	var ofKey []runtime.StoredRow
	var at int64
	judge := func() error {
		if len(ofKey) == 0 {
			return nil
		}
		d, err := by.policy.PeekRows(ofKey, at)
		if err != nil {
			return err
		}
		if b := (busy{by, ofKey[0].Row.Key, d}); d.Value < float64(by.policy.Capacity) {
			i, _ := slices.BinarySearchFunc(busiest, b, func(o, b busy) int { return cmp.Compare(b.used(), o.used()) })
			busiest = slices.Insert(busiest, i, b)
			busiest = busiest[:min(n, len(busiest))]
		}
		ofKey = ofKey[:0]
		return nil
	}
	for {
		page, now, err := lister.Rows(c.ctx, after, runtime.RowPage)
		if err != nil {
			return nil, err
		}
		if at = now; len(page) == 0 {
			return busiest, judge()
		}
		for _, row := range page {
			if len(ofKey) > 0 && ofKey[0].Row.Key != row.Row.Key {
				if err := judge(); err != nil {
					return nil, err
				}
			}
			if row.State.Exists {
				ofKey = append(ofKey, row)
			}
		}
		after = page[len(page)-1].Row
	}
}

// show prints the tokens of a key by each plan, what is in force for it, and its log.
func (c *call) show() error {
	l, err := c.limit()
	if err != nil {
		return err
	}
	key, err := c.key(l)
	if err != nil {
		return err
	}
	all, err := c.policies(l)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "%s, key %s\n", l.Name, printable(cmp.Or(key.String(), "(shared)")))
	for _, of := range all {
		b, err := c.limits.Limit(of.policy, key).Peek(c.ctx)
		if err != nil {
			return err
		}
		line := b.String()
		if b.Value < 0 {
			line += fmt.Sprintf(", %s in debt", tokens(-b.Value))
		}
		if b.ResetAfter > 0 {
			line += fmt.Sprintf(", window ends in %v", b.ResetAfter.Round(time.Millisecond))
		}
		if of.policy.Mode != runtime.ModeEnforce && of.policy.Mode != runtime.ModeUnlimited {
			line += fmt.Sprintf(", mode %v", of.policy.Mode)
		}
		if of.plan != "" {
			line = of.plan + ": " + line
		}
		fmt.Fprintf(c.out, "  %s\n", line)
	}
	return c.printLog(l, key.String())
}

// log prints the log of a key, or of the whole limit.
func (c *call) log() error {
	l, err := c.limit()
	if err != nil {
		return err
	}
	// The log of the whole limit has an empty key.
	key := runtime.Key{}
	if whole := c.flags.whole || len(c.args) == 1 && !c.flags.given["stored"]; !whole {
		if key, err = c.key(l); err != nil {
			return err
		}
	} else if len(c.args) > 1 || c.flags.given["stored"] {
		return usagef("give a key or -whole, not both")
	}
	log, ok := c.store.(runtime.OverrideStore)
	if !ok {
		return runtime.ErrNoOverrides
	}
	entries, err := log.OverrideHistory(c.ctx, l.Name, key.String())
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		fmt.Fprintln(c.out, "The log has no entries.")
	}
	return c.printEntries(entries)
}

// printLog prints what is in force for a key, and the log of the key and of the whole limit, as far as the store has them.
func (c *call) printLog(l *runtime.CatalogLimit, key string) error {
	log, ok := c.store.(runtime.OverrideStore)
	if !ok {
		return nil
	}
	for i, of := range []string{key, ""} {
		entries, err := log.OverrideHistory(c.ctx, l.Name, of)
		if err != nil {
			// Without the table nothing was ever logged, and the tokens above are right.
			_, err = fmt.Fprintf(c.out, "log: %s\n", printable(err.Error()))
			return err
		}
		if i == 1 && key == "" || len(entries) == 0 {
			continue
		}
		fmt.Fprintln(c.out, []string{"log:", "log of the whole limit:"}[i])
		if err := c.printEntries(entries); err != nil {
			return err
		}
	}
	return c.printInForce(log, l, key)
}

// printInForce prints the blocks and overrides that apply to a key.
func (c *call) printInForce(log runtime.OverrideStore, l *runtime.CatalogLimit, key string) error {
	if !l.Policies[0].Overridable() {
		return nil
	}
	view := log.OverrideView()
	if err := view.Refresh(c.ctx); err != nil {
		return err
	}
	for _, e := range view.InForce() {
		if e.Limit == l.Name && (e.Key == key || e.Key == "") {
			whom := "this key"
			if e.Key == "" {
				whom = "the whole limit"
			}
			fmt.Fprintf(c.out, "in force for %s: %s\n", whom, printable(describe(e)))
		}
	}
	return nil
}

// printEntries prints entries of the log, the oldest first.
func (c *call) printEntries(entries []runtime.OverrideEntry) error {
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, e := range entries {
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", moment(e.At), printable(describe(e)), printable(e.Author), printable(e.Reason))
	}
	return table.Flush()
}

// describe returns what an entry does, in words.
func describe(e runtime.OverrideEntry) string {
	var words []string
	switch e.What {
	case runtime.OverrideGranted, runtime.OverrideTaken:
		return fmt.Sprintf("%s %d", e.What, e.Rate)
	case runtime.OverrideNone:
		return "ended"
	case runtime.OverrideUnblock:
		return "unblocked"
	case runtime.OverrideReset:
		return e.What
	case runtime.OverridePlan:
		words = append(words, "plan "+e.Plan)
	case runtime.OverrideNumbers:
	default:
		words = append(words, e.What)
	}
	for _, n := range []struct {
		name string
		n    int64
	}{{"rate", e.Rate}, {"capacity", e.Capacity}, {"maxReserved", e.MaxReserved}} {
		if n.n != 0 {
			words = append(words, fmt.Sprintf("%s %d", n.name, n.n))
		}
	}
	until := "for good"
	if !e.Until.Equal(runtime.ForGood) {
		until = "until " + moment(e.Until)
	}
	return strings.Join(append(words, until), ", ")
}
