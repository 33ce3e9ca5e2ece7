package operate

import (
	"fmt"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// shown is what show prints: what a key has by each plan, its log, and what is in force for it. For the whole limit it is
// the latter two.
type shown struct {
	limit  *runtime.CatalogLimit
	key    runtime.Key
	whole  bool
	stored bool
	by     []shownBalance
	// log has the entries of the key, limitLog those of the whole limit, and inForce those in force for either. unlogged is
	// why they cannot be read: without the table nothing was ever logged, and the balances are right.
	log, limitLog, inForce []runtime.OverrideEntry
	unlogged               error
}

// shownBalance is what a key has by one plan, under the policy in force.
type shownBalance struct {
	Planned
	balance runtime.Balance
	holders []meter.Holder
}

// show prints a key or, for -whole, a limit.
func (c *call) show() error {
	l, key, err := c.subject()
	if err != nil {
		return err
	}
	s := shown{limit: l, key: key, whole: c.flags.Whole}
	if !s.whole {
		if err := c.readKey(&s); err != nil {
			return err
		}
	}
	if err := c.readLog(&s); err != nil {
		return err
	}
	if !c.asJSON() {
		return c.printShown(&s)
	}
	if s.unlogged != nil {
		fmt.Fprintf(c.errs, "log: %s\n", printable.Line(s.unlogged.Error()))
	}
	return c.json(c.shownDocument(&s))
}

// readKey reads what a key has.
func (c *call) readKey(s *shown) (err error) {
	if s.key, err = inCalendar(s.limit, s.key, c.flags.Zone, c.flags.Since); err != nil {
		return err
	}
	all, err := c.program.Policies(s.limit, c.flags.Plan)
	if err != nil {
		return err
	}
	if s.stored, err = c.program.hasRow(c.ctx, s.limit.Name, s.key.String()); err != nil {
		return err
	}
	for _, of := range all {
		of.Policy = of.Policy.Inside().Except(s.key.String())
		if of.Policy, err = c.flags.numbers().of(of.Policy, false); err != nil {
			return err
		}
		limit := limiter.New(c.program.Store).Limit(of.Policy, s.key)
		b, err := limit.Peek(c.ctx)
		if err != nil {
			return err
		}
		// A check of no tokens is decided by the policy in force.
		if d, err := limit.CheckN(c.ctx, 0); err == nil && d.Policy != nil {
			of.Policy = d.Policy
		}
		holders, err := c.holders(of.Policy, s.key)
		if err != nil {
			return err
		}
		s.by = append(s.by, shownBalance{of, b, holders})
	}
	return nil
}

// readLog reads the log of a key and of its whole limit, and what is in force for them.
func (c *call) readLog(s *shown) (err error) {
	key := s.key.String()
	if s.log, s.unlogged = c.program.History(c.ctx, s.limit.Name, key); s.unlogged != nil {
		return nil
	}
	if i := slices.IndexFunc(s.log, func(e runtime.OverrideEntry) bool { return e.Key != key }); i >= 0 {
		s.log, s.limitLog = s.log[:i], s.log[i:]
	}
	s.inForce, err = c.program.InForce(c.ctx, *s.limit)
	s.inForce = slices.DeleteFunc(s.inForce, func(e runtime.OverrideEntry) bool { return e.Key != "" && e.Key != key })
	return err
}

func (c *call) printShown(s *shown) error {
	if s.whole {
		fmt.Fprintf(c.out, "%s, the whole limit\n", s.limit.Name)
		return c.printLog(s)
	}
	heading := s.limit.Name + ", " + subject(s.key.String())
	if len(c.program.Secret) > 0 {
		heading += ", fingerprint " + runtime.Fingerprint(c.program.Secret, s.key.String())
	}
	if !s.stored {
		heading += ", no stored count"
	}
	fmt.Fprintln(c.out, heading)
	if exception := c.program.Exception(s.limit, s.key); exception != "" {
		fmt.Fprintf(c.out, "  exception in limits.yaml: %s\n", exception)
	}
	for _, of := range s.by {
		line := Words(of.Policy, of.balance)
		if of.Plan != "" {
			line = of.Plan + ": " + line
		}
		fmt.Fprintf(c.out, "  %s\n", line)
		for _, h := range of.holders {
			fmt.Fprintf(c.out, "    fence %d holds %d, ends in %v unless renewed\n", h.Fence, h.Slots, h.Ends.Round(time.Millisecond))
		}
	}
	return c.printLog(s)
}

// holders returns the holders of slots of a key, if the limit is in flight and the store can list its rows.
func (c *call) holders(p *runtime.Policy, key runtime.Key) ([]meter.Holder, error) {
	if p.Kind != runtime.InFlight {
		return nil, nil
	}
	rows, at, err := c.program.Rows(c.ctx, p.Name, key.String())
	return meter.Holders(p, rows, at), err
}

// printLog prints the log of a key and of the whole limit, and what is in force.
func (c *call) printLog(s *shown) error {
	if s.unlogged != nil {
		_, err := fmt.Fprintf(c.out, "log: %s\n", printable.Line(s.unlogged.Error()))
		return err
	}
	for i, part := range [][]runtime.OverrideEntry{s.log, s.limitLog} {
		if len(part) == 0 {
			continue
		}
		fmt.Fprintln(c.out, []string{"log:", "log of the whole limit:"}[i])
		if err := c.printEntries(part, ""); err != nil {
			return err
		}
	}
	for _, e := range s.inForce {
		of := "this key"
		if e.Key == "" {
			of = "the whole limit"
		}
		fmt.Fprintf(c.out, "in force for %s: %s\n", of, printable.Line(Describe(e)))
	}
	return nil
}

func (c *call) shownDocument(s *shown) showJSON {
	d := showJSON{Limit: s.limit.Name, Stored: s.stored, InForce: entriesJSON(s.inForce)}
	if s.unlogged == nil {
		d.Log = entriesJSON(s.log)
	}
	if len(s.limitLog) > 0 {
		d.LimitLog = entriesJSON(s.limitLog)
	}
	if s.whole {
		return d
	}
	key := writtenKey(s.key.String())
	d.Key = &key
	if len(c.program.Secret) > 0 {
		d.Fingerprint = runtime.Fingerprint(c.program.Secret, s.key.String())
	}
	if x, ok := s.limit.Exception(s.key); ok {
		d.Exception = &exceptionJSON{Mode: x.Mode.String(), Unlimited: x.Numbers.Unlimited, Reason: x.Reason,
			numbersJSON: numbersJSON{x.Numbers.Rate, x.Numbers.Full(), x.Numbers.MaxReserved}}
		if 0 < x.Plan && x.Plan <= len(c.program.Catalog.Plans) {
			d.Exception.Plan = c.program.Catalog.Plans[x.Plan-1]
		}
	}
	for _, of := range s.by {
		b, p := of.balance, of.Policy
		one := balanceJSON{
			Plan: of.Plan, Kind: p.Kind.String(), Mode: p.Mode.String(), Most: p.Most(), ResetAt: b.ResetAt, Blocked: b.BlockedFor > 0,
			countJSON: countJSON{b.Capacity >= runtime.MaxTokens, b.Capacity, b.Value, b.Remaining, b.Used, b.FullAfter.Seconds(),
				b.PenaltyFor.Seconds()},
		}
		if b.BlockedFor < runtime.Never {
			one.BlockedFor = b.BlockedFor.Seconds()
		}
		for _, h := range of.holders {
			one.Holders = append(one.Holders, holderJSON{h.Fence, h.Slots, h.Ends.Seconds()})
		}
		d.Balances = append(d.Balances, one)
	}
	return d
}
