// Package explain has the pages of the explain command: what a limit of a file means in words and numbers, what a
// field of limits.yaml means, and what an id means that check or diff has printed.
//
// # The model
//
// [Limit], [Group], [List] and [Word] return each [Page] as plain values. A function for each format, such as
// [WriteTerminal], prints pages.
//
// # Guarantees
//
// The numbers of a limit are those that a review prints. Those about reserving are decisions of [meter.Rule.Step] for a
// key that is full at the beginning of a window. No page depends on a clock. Every field of [runtime.Policy] changes
// the page of a limit.
package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/describe"
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/judge"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// Limit returns the page of a limit: its rule, its numbers, examples of reservations and how to call it.
// For a calendar, it lists the windows that begin after an instant.
func Limit(file string, l *spec.Limit, after time.Time) Page {
	p := Page{Title: fmt.Sprintf("%s:%d:%d: %s", file, l.Pos.Line, l.Pos.Column, l.Policy.Name)}
	p.add("doc", l.Doc)
	p.add("key", key(l))
	p.rules(describe.Limit(l))
	p.add("by default", fields.FromDefaults(l))
	enforced := l.Policy.Mode == runtime.ModeEnforce
	if enforced && l.Policy.OnError == runtime.FailClosed && l.Policy.Timeout == 0 { // otherwise, the rule has a sentence about it
		p.add("store", "If the store fails, the request is not allowed: the call returns an error.")
	}
	p.windows(&l.Policy, after)
	if len(l.CallerNumbers()) > 0 {
		p.add("numbers", "The numbers below assume the largest that callers can give. With smaller ones, fewer requests pass and waits are longer.")
	}
	p.numbers(l)
	if len(l.Exceptions) > 0 {
		p.add("exceptions", "Unless an operator has blocked or overridden the key: "+exceptions(l)+".")
	}
	p.byPlan("denied", l, func(policy *runtime.Policy) string {
		sentence := denied(policy, spec.PartNames(l.Key))
		if sentence != "" && policy.Most() {
			sentence = "With the most that callers can give: " + strings.ToLower(sentence[:1]) + sentence[1:]
		}
		return sentence
	})
	p.byPlan("reserving", l, func(policy *runtime.Policy) string {
		sentences := strings.Join(reserving(policy, len(l.Prices) > 0), " ")
		if enforced || !policy.Reserves() {
			return sentences
		}
		return "If it were enforced: " + sentences
	})
	p.byPlan("exact", l, exactly)
	p.byPlan("lost", l, lost)
	if l.Policy.Shards > 1 {
		p.byPlan("shards", l, shards)
	}
	p.calls(l)
	return p
}

// key lists the parts of the key with the types that a call must pass.
func key(l *spec.Limit) string {
	if len(l.Key) == 0 {
		return "none; all callers share one count"
	}
	return strings.Join(words.Of(l.Key, func(part spec.KeyPart) string { return part.Name + " " + part.Type }), ", ")
}

// calls adds a call in Go, and lists the methods.
func (p *Page) calls(l *spec.Limit) {
	_, _, verb := l.Handle()
	p.add("call", "limit."+l.Call(verb))
	methods := words.List(judge.Verbs(l), "and") + "."
	if len(l.Prices) == 0 {
		methods += fmt.Sprintf(" N forms, such as %sN, take a count.", verb)
	} else {
		units := words.Of(l.Prices, func(price runtime.Price) string { return spec.GoName(price.Name) })
		methods += fmt.Sprintf(" The type of usage is %s, with %s.", l.UsageType(), words.List(units, "and"))
	}
	p.add("methods", methods)
}

// number is a row of the numbers that a policy implies for one key, in a state of the key if when is not empty.
type number struct {
	review.Number
	when, remark string
}

func (n number) text() string { return n.Format(n.New) }

// numbers adds the table of numbers.
func (p *Page) numbers(l *spec.Limit) {
	label := "at most, for " + words.Holder(spec.PartNames(l.Key))
	if l.Policy.Mode != runtime.ModeEnforce {
		label = "if it were enforced, " + label
	}
	if len(l.Plans) > 0 {
		p.table(label, "", planTable(l.Plans))
		return
	}
	var rows [][]string
	for _, n := range planNumbers(l) {
		rows = append(rows, []string{n.Name, n.text(), n.when + n.remark})
	}
	p.table(label, "", Table{Rows: rows, align: "lrl"})
}

// exceptions lists what single keys have.
func exceptions(l *spec.Limit) string {
	return strings.Join(words.Of(judge.ExceptionRows(l), func(row []string) string {
		if row[1] == "" {
			return row[0]
		}
		return row[0] + " has " + row[1] + " (" + row[2] + ")"
	}), "; ")
}

// impliedNumbers returns the numbers that a policy implies.
func impliedNumbers(p *runtime.Policy) (list []number) {
	add := func(m review.Measure, when, remark string) {
		if n := m.Of(nil, p); n.New != nil {
			list = append(list, number{n, when, remark})
		}
	}
	within, when := review.Within, ""
	if p.MaxReserved == runtime.Unbounded {
		// Every interval would be unbounded too, which is of no use. Bound the calls that do not reserve instead.
		within, when = review.WithinUnreserved, "when reserving"
	}
	add(review.Within(0), when, "")
	switch {
	case p.Reserves():
		add(review.WithinUnreserved(0), "", "")
	case grantsWholePeriods(p.Kind):
		edge := review.Within(1)
		edge.Name = "at a window's edge"
		add(edge, "", "just before and just after it")
	}
	for _, t := range intervals(bounds.Interval(p)) {
		if p.Kind != runtime.InFlight { // which has no bound in a time
			add(within(t), "", "")
		}
	}
	for _, m := range review.Measures() {
		when := ""
		if m.Name == review.NextToken || m.Name == review.FullAfter {
			when = "when empty"
		}
		add(m, when, "")
	}
	return list
}

// grantsWholePeriods reports whether a kind grants all tokens of a period at one instant. Then the instants just
// before and just after that one have numbers of their own, and a page that starts from "full" must name the instant.
func grantsWholePeriods(kind runtime.Kind) bool {
	switch kind {
	case runtime.FixedWindow:
		return true
	case runtime.TokenBucket, runtime.SlidingWindow, runtime.InFlight:
		return false
	}
	// No default: a new kind would be explained as one of the others, without a failing test.
	panic(fmt.Sprintf("explain: %v has no case in grantsWholePeriods", kind))
}

func intervals(period time.Duration) []time.Duration {
	list := []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, period}
	slices.Sort(list)
	return slices.Compact(list) // the period can be one of the others
}

// denied says which requests are denied after all tokens of a key are used, and for how long. It is empty for a limit that
// denies no request, or that is only reserved.
func denied(p *runtime.Policy, key []string) string {
	if p.Full() == 0 || p.Mode != runtime.ModeEnforce {
		return ""
	}
	who, others := words.Holder(key)+" is denied", "; others are not affected."
	if len(key) == 0 {
		who, others = "everybody is denied", "."
	}
	if p.Penalizes() {
		others = ", or until the penalty ends, if that is later" + others
	}
	if p.Kind == runtime.InFlight {
		return fmt.Sprintf("While %s in use, %s until one is released, for at most %s if none of their holders renews%s",
			areInUse(p.Slots), who, words.Length(p.Hold), others)
	}
	return fmt.Sprintf("After %s, %s until the next token, for at most %s%s", words.Count(p.Capacity, "token"), who,
		words.Length(bounds.NextAfter(p)), others)
}

// areInUse is the subject of a sentence on all slots.
func areInUse(n int64) string {
	if n == 1 {
		return "the slot is"
	}
	return "all " + words.Number(n) + " slots are"
}

// reserving describes, a sentence each, three calls at one instant: a reservation of all available tokens and up to a
// period's worth ahead, then one more reservation, then a plain call. The calls of a priced limit have no counts.
func reserving(p *runtime.Policy, priced bool) []string {
	call := func(verb, n string, count int64) string {
		if priced {
			return verb + " for a cost of " + words.Number(count)
		}
		return verb + n + "(" + words.Number(count) + ")"
	}
	if p.Kind == runtime.InFlight {
		return []string{"Slots cannot be reserved, because nobody knows when one is released: WaitAcquire waits until one is free."}
	}
	switch {
	case p.Reserves():
	case priced:
		return []string{"Reserve takes the cost of an estimate if so many tokens are available, to be settled: none can be taken before they have accrued."}
	default:
		why, instead := "maxReserved is 0, so nothing can be reserved", ": a call that finds too few tokens is denied."
		if p.Kind == runtime.SlidingWindow {
			why = "A sliding window has no reservations"
		}
		if p.Mode != runtime.ModeEnforce {
			instead = "."
		}
		return []string{why + instead}
	}
	// Time stands still at the beginning of a window, so that no page depends on a clock.
	rule, start, state := meter.RuleOf(p, ""), bounds.LongestWindow(p), runtime.State{}
	decide := func(q runtime.Request) (d runtime.Decision) {
		state, d = bounds.MustStep(&rule, state, start, q)
		return d
	}
	count := p.Capacity + min(p.Rate, p.MaxReserved)
	first := decide(runtime.Request{Count: count, Reserve: true})
	sentences := []string{fmt.Sprintf("%s, %s is allowed, with Delay %s.", fullMoment(p), call("Reserve", "N", count),
		words.Length(first.UsableAfter))}

	// Check takes nothing, so that both of these describe the state after the first reservation.
	next := decide(runtime.Request{Op: runtime.Check, Count: 1, Reserve: true})
	if next.Allowed {
		sentences = append(sentences, fmt.Sprintf("After it, %s is allowed, with Delay %s.", call("Reserve", "N", 1),
			words.Length(next.UsableAfter)))
	} else {
		sentences = append(sentences, fmt.Sprintf("After it, %s is denied, with RetryAfter %s.", call("Reserve", "N", 1),
			words.Length(next.RetryAfter)))
	}
	if p.Capacity > 0 {
		plain := decide(runtime.Request{Op: runtime.Check, Count: 1})
		sentences = append(sentences, fmt.Sprintf("%s at that moment is denied, with RetryAfter %s.", call("Allow", "", 1),
			words.Length(plain.RetryAfter)))
	}
	return sentences
}

// exactly says how a limit whose rate is an approximation can be written so that no period has more.
func exactly(p *runtime.Policy) string {
	if p.Kind != runtime.SlidingWindow || p.Precise {
		return ""
	}
	ways := []string{"precise: true"}
	if p.Rate > 1 {
		capacity := max(1, p.Rate/10)
		ways = append(ways, fmt.Sprintf("a token bucket with rate: %d and capacity: %d, or any other two with this sum",
			p.Rate-capacity, capacity))
	}
	return fmt.Sprintf("For never more than %s in any %s, write %s.", words.Number(p.Rate), words.Period(p.Period),
		words.List(ways, "or"))
}

// lost says what happens to the holder of a slot whose hold ends.
func lost(p *runtime.Policy) string {
	if p.Hold == 0 {
		return ""
	}
	return fmt.Sprintf("Slot.Do renews every %s, and ends the context of its function with ErrSlotLost if the slot is lost. "+
		"A holder that is frozen for longer than the hold notices it late: give Slot.Fence to what it writes to, which can refuse an older one.",
		words.Length(p.Hold/3))
}

// fullMoment names the state and the instant in which the calls of [reserving] begin.
func fullMoment(p *runtime.Policy) string {
	moment := fmt.Sprintf("With %s of %[1]s tokens left", words.Number(p.Capacity))
	if p.Capacity == 0 {
		moment = "With nothing reserved"
	}
	if grantsWholePeriods(p.Kind) {
		moment += " at the beginning of a window"
	}
	return moment
}

// shards describes one shard of a sharded limit.
func shards(p *runtime.Policy) string {
	first, last := meter.RuleOf(p, "").Shard(0, p.Shards), meter.RuleOf(p, "").Shard(p.Shards-1, p.Shards)
	has := []string{share(last.Rate, first.Rate) + " per " + fields.PeriodOf(p)}
	if p.Capacity > 0 {
		has = append(has, share(last.Capacity, first.Capacity)+" at once")
	}
	if p.Reserves() && p.MaxReserved < runtime.Unbounded {
		has = append(has, share(last.Debt, first.Debt)+" reserved ahead")
	}
	return fmt.Sprintf("Each of the %d shards has %s. A call takes from one of them, or from all of them if that has too few tokens.",
		p.Shards, words.List(has, "and"))
}

// share formats the part of one shard. The remainder of the division goes to the first shards, one token each, so
// that there are at most two different parts.
func share(least, most float64) string {
	if least == most {
		return words.Number(int64(most))
	}
	return words.Number(int64(least)) + " or " + words.Number(int64(most))
}

const unlimited = "unlimited"

// rules adds the rule or, if there are plans, the rule of each and what all of them have in common.
func (p *Page) rules(d *describe.Description) {
	if len(d.Plans) == 0 {
		p.add("rule", strings.Join(d.Lines(), " "))
		return
	}
	p.planRules("plan ", d)
	if len(d.Sentences) > 0 {
		p.add("all plans", strings.Join(d.Sentences, " "))
	}
}

// planRules adds the rule of each plan, after a label and the name of the plan.
func (p *Page) planRules(label string, d *describe.Description) {
	for _, of := range d.Plans {
		p.add(label+of.Plan, strings.Join(of.Lines(), " "))
	}
}

// byPlan adds a paragraph on the policy of each limited plan, or one if they are the same for all.
func (p *Page) byPlan(label string, l *spec.Limit, describe func(*runtime.Policy) string) {
	var labels, texts []string
	for _, of := range l.Each() {
		if !of.Numberless() && !of.CountsOnly() {
			labels, texts = append(labels, label+", plan "+of.Plan), append(texts, describe(&of.Policy))
		}
	}
	if len(slices.Compact(slices.Clone(texts))) == 1 {
		labels, texts = []string{label}, texts[:1]
	}
	for i := range texts {
		p.add(labels[i], texts[i])
	}
}

// planTable has a column for each plan, and a row for each number that one of them has.
func planTable(plans []*spec.Limit) Table {
	t := Table{Head: []string{""}, align: "l" + strings.Repeat("r", len(plans)), cut: []int{0}}
	var names []string
	values := make([]map[string]string, len(plans))
	for i, of := range plans {
		t.Head, values[i] = append(t.Head, of.Plan), map[string]string{}
		at := 0
		for _, n := range planNumbers(of) {
			name := n.Name
			if n.when != "" { // remarks would leave no room for the columns
				name += ", " + n.when
			}
			values[i][name] = n.text()
			// A number that the plans before do not have follows the one before it.
			if known := slices.Index(names, name); known >= 0 {
				at = known + 1
			} else {
				names = slices.Insert(names, at, name)
				at++
			}
		}
	}
	for _, name := range names {
		row := []string{name}
		for i := range plans {
			row = append(row, values[i][name])
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func planNumbers(of *spec.Limit) []number {
	switch {
	case of.UnlimitedRate, of.CountsOnly():
		return []number{{Number: review.Within(0).Of(nil, &runtime.Policy{Mode: runtime.ModeUnlimited})}}
	case of.Zero():
		return []number{{Number: review.Within(0).Of(nil, &of.Policy)}}
	}
	return impliedNumbers(&of.Policy)
}
