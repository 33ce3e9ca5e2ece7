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
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/ability"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// top prints the keys that have the smallest part of their tokens left, of one limit or of all.
func (c *call) top() error {
	limits := c.program.Catalog.Limits
	if len(c.args) > 0 {
		l, err := c.limit()
		if err != nil {
			return err
		}
		if limits = []runtime.CatalogLimit{*l}; len(c.args) > 1 {
			return usagef("top takes one limit, and no key: use show")
		}
	}
	plans := c.program.Catalog.Plans
	if plan := c.flags.Plan; len(c.args) == 0 && plan != "" && len(plans) > 0 && !slices.Contains(plans, plan) {
		return noPlan(plan, plans)
	}
	n := int(min(cmp.Or(c.flags.Tokens, 10), 10_000))
	others, note := []runtime.Registration(nil), ""
	if len(c.args) == 0 {
		var err error
		if others, err = c.program.Others(c.ctx); err != nil {
			note = fmt.Sprintf("The limits of other programs cannot be listed: %s\n", printable.Line(err.Error()))
		}
	}
	var busiest []BusyKey
	for i := range limits {
		if slices.ContainsFunc(others, func(r runtime.Registration) bool { return r.Limit == limits[i].Name }) {
			continue
		}
		plan := c.flags.Plan
		if len(c.args) == 0 && len(plans) > 0 && len(limits[i].Policies) == 1 {
			plan = "" // which is for the limits that depend on it
		}
		of, err := c.program.Busiest(c.ctx, UsedQuery{Limit: &limits[i], Plan: plan, Most: n})
		switch {
		case len(c.args) == 0 && errors.Is(err, runtime.ErrForeignCounts):
			note += printable.Line(err.Error()) + "\n"
		case err != nil:
			return err
		}
		for _, b := range of.Busiest {
			busiest = insert(busiest, b, n)
		}
	}
	for _, r := range others {
		note += printable.Line(fmt.Sprintf("Not a limit of this program: %s, of %s", r.Limit,
			cmp.Or(r.Owner, "an unknown owner"))) + "\n"
	}
	if c.asJSON() {
		return c.json(topDocument(busiest, others))
	}
	if len(busiest) == 0 {
		_, err := fmt.Fprintf(c.out, "No key has used any tokens.\n%s", note)
		return err
	}
	rows, read := [][]string{{"LIMIT", "PLAN", "KEY", "LEFT", "CAPACITY", "FULL IN", "IN FORCE"}}, ""
	for _, b := range busiest {
		key := "-"
		if b.Key != "" {
			key = QuoteKey(b.Key)
		}
		rows = append(rows, []string{b.Policy.Name, cmp.Or(b.Plan, "-"), key, b.left(), b.capacity(), fullIn(&b),
			printable.Line(cmp.Or(b.InForce, "-"))})
		if b.Plan != "" && c.flags.Plan == "" {
			read = "The store does not have the plans of keys. Without -plan, limits are read by their smallest plan.\n"
		}
		if most := printable.Line(b.Policy.Name) + " is read by the most that callers can give, because the store does not have their numbers.\n"; b.Policy.Most() && !strings.Contains(note, most) {
			note = most + note
		}
	}
	return c.table(rows, read+note)
}

// table prints rows of cells, with a note after them.
func (c *call) table(rows [][]string, note string) error {
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	fmt.Fprint(table, note)
	return table.Flush()
}

// fullIn is when a key is full. The table does not have the windows of a key with a calendar of its own.
func fullIn(b *BusyKey) string {
	if b.Policy.Calendar.PerKey() {
		return "-"
	}
	return b.Decision.FullAfter.Round(time.Millisecond).String()
}

// Words says what a key has by the policy in force: "8 of 10 left, full after 12s", or "2 of 5 slots in use, all free after
// 40s".
func Words(p *runtime.Policy, b runtime.Balance) string {
	line := b.String()
	switch {
	case p.Kind == runtime.InFlight && b.Capacity < runtime.MaxTokens:
		line = slotWords(b)
	case b.Value < 0:
		line += fmt.Sprintf(", %s in debt", tokens(-b.Value))
	}
	if b.ResetAfter > 0 {
		line += fmt.Sprintf(", window ends in %v", b.ResetAfter.Round(time.Millisecond))
	}
	if p.Warn.Len() > 0 && b.Capacity < runtime.MaxTokens {
		line += fmt.Sprintf(", warns at %v", p.Warn)
	}
	if p.Mode != runtime.ModeEnforce && p.Mode != runtime.ModeUnlimited && p.Mode != runtime.ModeBlock {
		line += fmt.Sprintf(", mode %v", p.Mode)
	}
	if mode, relaxed := p.Relaxed(); relaxed && mode == p.Mode {
		line += " by limiter.Mode"
	}
	if p.Most() {
		line += ", by the most that callers can give"
	}
	return line
}

func slotWords(b runtime.Balance) string {
	line := words.Number(b.Used) + " of " + words.Number(b.Capacity) + " slots in use"
	switch {
	case b.BlockedFor > 0:
		line = "blocked, " + line
	case b.PenaltyFor > 0:
		line = fmt.Sprintf("penalty for %v, %s", b.PenaltyFor.Round(time.Millisecond), line)
	}
	if b.FullAfter > 0 {
		line += fmt.Sprintf(", all free after %v unless renewed", b.FullAfter.Round(time.Millisecond))
	}
	return line
}

// log prints the log of a key, or of the whole limit.
func (c *call) log() error {
	if c.flags.all {
		return c.logAll()
	}
	for _, name := range []string{"author", "since", "before", "n"} {
		if c.flags.given[name] {
			return usagef("-%s is for log -all", name)
		}
	}
	// The log of the whole limit has an empty key.
	l, key, err := c.subject()
	if err != nil {
		return err
	}
	log, ok := ability.Of[override.Store](c.program.Store)
	if !ok {
		return ability.Missing(runtime.ErrNoOverrides, c.program.Store)
	}
	entries, err := log.OverrideHistory(c.ctx, l.Name, key.String())
	if err != nil {
		return err
	}
	var penalties []PenalizedKey
	if !c.flags.Whole {
		if penalties, err = c.program.Penalized(c.ctx, l, key.String()); err != nil {
			return err
		}
	}
	if c.asJSON() {
		return c.json(logJSON{Entries: entriesJSON(entries), Penalties: penaltiesJSON(penalties)})
	}
	if len(entries) > 0 {
		return c.printEntries(entries, penaltyLines(penalties))
	}
	stored, err := c.program.hasRow(c.ctx, l.Name, key.String())
	if err != nil {
		return err
	}
	note := ""
	if !stored && !c.flags.Whole {
		note = ", and " + subject(key.String()) + " has no stored count"
	}
	_, err = fmt.Fprintf(c.out, "The log has no entries%s.\n%s", note, penaltyLines(penalties))
	return err
}

// penaltyLines returns a line for each penalty in force, which the log does not have.
func penaltyLines(penalties []PenalizedKey) (lines string) {
	for _, k := range penalties {
		lines += fmt.Sprintf("%s, %s: %s\n", printable.Line(k.Policy.Name), subject(k.Key), k.String())
	}
	return lines
}

// logAll prints the log across all limits, the newest entries first.
func (c *call) logAll() error {
	parts, err := c.parts()
	if err != nil {
		return err
	}
	if c.flags.Whole || c.flags.given["stored"] {
		return usagef("log -all is about the log of all limits: leave -whole and -stored out")
	}
	q := LogQuery{Author: c.flags.Author, Before: c.flags.before, Most: 50}
	if c.flags.given["n"] {
		q.Most = int(min(c.flags.Tokens, 10_000))
	}
	if c.flags.given["since"] {
		if q.Since, err = instant("-since", c.flags.Since); err != nil {
			return err
		}
	}
	if len(parts) > 0 {
		all, err := c.program.keysOf(parts, false)
		if err != nil {
			return err
		}
		q.Keys = map[string]string{}
		for _, of := range all {
			if of.err != nil {
				continue
			}
			if err := override.CheckCounts(c.ctx, c.program.Store, of.limit.Policies[0]); err != nil {
				return err
			}
			q.Keys[of.limit.Name] = of.key.String()
		}
	}
	entries, more, err := c.program.Log(c.ctx, q)
	if err != nil {
		return err
	}
	penalties, err := c.penaltiesOf(q)
	if err != nil {
		return err
	}
	if c.asJSON() {
		return c.json(logJSON{entriesJSON(entries), more, penaltiesJSON(penalties)})
	}
	note := penaltyLines(penalties)
	if len(entries) == 0 {
		_, err := fmt.Fprintf(c.out, "The log has no such entries.\n%s", note)
		return err
	}
	rows := [][]string{{"ENTRY", "TIME", "LIMIT", "KEY", "WHAT", "AUTHOR", "REASON"}}
	for _, e := range entries {
		rows = append(rows, append([]string{fmt.Sprint(e.ID), Moment(e.At), e.Limit, shownKey(e.Key)}, wordsOf(e)...))
	}
	if more {
		note += fmt.Sprintf("There are older entries: add -before %d.\n", entries[len(entries)-1].ID)
	}
	return c.table(rows, note)
}

// penaltiesOf returns the penalties that a query is about. They have no author, and are newer than all entries.
func (c *call) penaltiesOf(q LogQuery) (found []PenalizedKey, err error) {
	if q.Author != "" || q.Before > 0 {
		return nil, nil
	}
	for i := range c.program.Catalog.Limits {
		l, keys := &c.program.Catalog.Limits[i], []string(nil)
		if key, ok := q.Keys[l.Name]; ok {
			keys = []string{key}
		} else if q.Keys != nil {
			continue
		}
		of, err := c.program.Penalized(c.ctx, l, keys...)
		if err != nil {
			return nil, err
		}
		found = append(found, of...)
	}
	return found, nil
}

// shownKey returns the key of an entry of the log for a table.
func shownKey(key string) string {
	switch {
	case key == "":
		return "(all)"
	case override.IsErased(key):
		return "(erased)"
	}
	return QuoteKey(key)
}

// printEntries prints entries of the log, the oldest first, with a note after them.
func (c *call) printEntries(entries []runtime.OverrideEntry, note string) error {
	var rows [][]string
	for _, e := range entries {
		rows = append(rows, append([]string{"  " + Moment(e.At)}, wordsOf(e)...))
	}
	return c.table(rows, note)
}

// wordsOf returns what an entry does, and who wrote it, and why.
func wordsOf(e runtime.OverrideEntry) []string {
	return []string{printable.Line(Describe(e)), printable.Line(e.Author), printable.Line(e.Reason)}
}

// who prints the keys that have a fingerprint.
func (c *call) who() error {
	if len(c.program.Secret) == 0 {
		return errors.New("this program does not have the secret of the fingerprints: set it in operate.Program")
	}
	if len(c.args) != 1 {
		return usagef("who takes one fingerprint: who 99cf03e72f3b")
	}
	fingerprint := strings.ToLower(c.args[0])
	if len(fingerprint) != 12 || strings.Trim(fingerprint, "0123456789abcdef") != "" {
		return usagef("a fingerprint has 12 hexadecimal digits, unlike %q", c.args[0])
	}
	limits := c.program.Catalog.Limits
	if c.flags.given["limit"] {
		l, err := c.program.limit(c.flags.limit)
		if err != nil {
			return err
		}
		limits = []runtime.CatalogLimit{*l}
	}
	found, _, err := c.program.Who(c.ctx, limits, fingerprint, 0)
	if err != nil {
		return err
	}
	if c.asJSON() {
		return c.json(whoDocument(found))
	}
	if len(found) == 0 {
		_, err := fmt.Fprintf(c.out, "No stored key has the fingerprint %s under this secret.\n", fingerprint)
		return err
	}
	rows := [][]string{{"LIMIT", "KEY"}}
	for _, k := range found {
		shown := "(shared)"
		if k.Key != "" {
			shown = QuoteKey(k.Key)
		}
		rows = append(rows, []string{k.Limit, shown})
	}
	return c.table(rows, "")
}
