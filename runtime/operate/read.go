package operate

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
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
	if c.flags.Tokens > 0 {
		n = int(min(c.flags.Tokens, 10_000))
	}
	var busiest []BusyKey
	for i := range limits {
		// For the error if there is no such plan.
		if _, err := policies(c.catalog, &limits[i], c.flags.Plan); err != nil {
			return err
		}
		of, err := Busiest(c.ctx, lister, c.catalog, &limits[i], c.flags.Plan, n, 0)
		if err != nil {
			return err
		}
		for _, b := range of.Busiest {
			busiest = insert(busiest, b, n)
		}
	}
	if len(busiest) == 0 {
		_, err := fmt.Fprintln(c.out, "No key has used any tokens.")
		return err
	}
	return c.printBusiest(busiest)
}

func (c *call) printBusiest(busiest []BusyKey) error {
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "LIMIT\tPLAN\tKEY\tLEFT\tCAPACITY\tFULL IN\tIN FORCE\n")
	plans := false
	for _, b := range busiest {
		key := "-"
		if b.Key != "" {
			key = QuoteKey(b.Key)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", b.Policy.Name, cmp.Or(b.Plan, "-"), key,
			tokens(b.Decision.Value), b.Policy.Capacity, fullIn(b.Policy, b.Decision), printable.Line(cmp.Or(b.InForce, "-")))
		plans = plans || b.Plan != ""
	}
	if plans && c.flags.Plan == "" {
		fmt.Fprintln(table, "The store does not have the plans of keys. Without -plan, limits are read by their smallest plan.")
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

// show prints the tokens of a key by each plan, its log, and the blocks and overrides in force for it. For -whole, it
// prints the log and what is in force for the whole limit.
func (c *call) show() error {
	l, err := c.limit()
	if err != nil {
		return err
	}
	key, err := c.key(l)
	if err != nil {
		return err
	}
	if c.flags.Whole {
		fmt.Fprintf(c.out, "%s, the whole limit\n", l.Name)
		return c.printLog(l, "")
	}
	if key, err = inCalendar(l, key, c.flags.Zone, c.flags.Since); err != nil {
		return err
	}
	all, err := policies(c.catalog, l, c.flags.Plan)
	if err != nil {
		return err
	}
	heading := l.Name + ", " + subject(key.String())
	if len(c.secret) > 0 {
		heading += ", fingerprint " + runtime.Fingerprint(c.secret, key.String())
	}
	switch stored, err := hasRow(c.ctx, c.store, l.Name, key.String()); {
	case err != nil:
		return err
	case !stored:
		heading += ", no stored count"
	}
	fmt.Fprintln(c.out, heading)
	for _, of := range all {
		b, err := limiter.New(c.store).Limit(of.policy, key).Peek(c.ctx)
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
	key, err := c.key(l)
	if err != nil {
		return err
	}
	log, ok := c.store.(override.Store)
	if !ok {
		return runtime.ErrNoOverrides
	}
	entries, err := log.OverrideHistory(c.ctx, l.Name, key.String())
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return c.printEntries(entries)
	}
	stored, err := hasRow(c.ctx, c.store, l.Name, key.String())
	if err != nil {
		return err
	}
	note := ""
	if !stored && !c.flags.Whole {
		note = ", and " + subject(key.String()) + " has no stored count"
	}
	_, err = fmt.Fprintf(c.out, "The log has no entries%s.\n", note)
	return err
}

// printLog prints the log of a key and of the whole limit, and the blocks and overrides in force, as far as the store has them.
func (c *call) printLog(l *runtime.CatalogLimit, key string) error {
	log, ok := c.store.(override.Store)
	if !ok {
		return nil
	}
	for i, of := range []string{key, ""} {
		entries, err := log.OverrideHistory(c.ctx, l.Name, of)
		if err != nil {
			// Without the table nothing was ever logged, and the tokens above are right.
			_, err = fmt.Fprintf(c.out, "log: %s\n", printable.Line(err.Error()))
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
func (c *call) printInForce(log override.Store, l *runtime.CatalogLimit, key string) error {
	if !l.Policies[0].Overridable() {
		return nil
	}
	view := log.OverrideView()
	if err := view.Refresh(c.ctx); err != nil {
		return err
	}
	for _, e := range view.InForce() {
		if e.Limit == l.Name && (e.Key == key || e.Key == "") {
			subject := "this key"
			if e.Key == "" {
				subject = "the whole limit"
			}
			fmt.Fprintf(c.out, "in force for %s: %s\n", subject, printable.Line(Describe(e)))
		}
	}
	return nil
}

// printEntries prints entries of the log, the oldest first.
func (c *call) printEntries(entries []runtime.OverrideEntry) error {
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, e := range entries {
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", moment(e.At), printable.Line(Describe(e)), printable.Line(e.Author), printable.Line(e.Reason))
	}
	return table.Flush()
}

// who prints the keys that have a fingerprint.
func (c *call) who() error {
	if len(c.secret) == 0 {
		return errors.New("this program does not have the secret of the fingerprints: pass it in operate.Options")
	}
	if len(c.args) != 1 {
		return usagef("who takes one fingerprint: who 99cf03e72f3b")
	}
	fingerprint := strings.ToLower(c.args[0])
	if len(fingerprint) != 12 || strings.Trim(fingerprint, "0123456789abcdef") != "" {
		return usagef("a fingerprint has 12 hexadecimal digits, unlike %q", c.args[0])
	}
	limits := c.catalog.Limits
	if c.flags.given["limit"] {
		l, err := limitNamed(c.catalog, c.flags.limit)
		if err != nil {
			return err
		}
		limits = []runtime.CatalogLimit{*l}
	}
	found, _, err := Who(c.ctx, c.store, limits, c.secret, fingerprint, 0)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		_, err := fmt.Fprintf(c.out, "No stored key has the fingerprint %s under this secret.\n", fingerprint)
		return err
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "LIMIT\tKEY\n")
	for _, k := range found {
		shown := "(shared)"
		if k.Key != "" {
			shown = QuoteKey(k.Key)
		}
		fmt.Fprintf(table, "%s\t%s\n", k.Limit, shown)
	}
	return table.Flush()
}
