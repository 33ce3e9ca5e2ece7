package judge

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// wholeFile is a random limits.yaml: the fields of each limit and group by name.
type wholeFile struct {
	plans          []string
	limits, groups map[string]map[string]string
}

func (f wholeFile) clone() wholeFile {
	c := wholeFile{plans: f.plans, limits: map[string]map[string]string{}, groups: map[string]map[string]string{}}
	for name, fields := range f.limits {
		c.limits[name] = maps.Clone(fields)
	}
	for name, fields := range f.groups {
		c.groups[name] = maps.Clone(fields)
	}
	return c
}

func (f wholeFile) String() string {
	var b strings.Builder
	b.WriteString("version: 1\n")
	if len(f.plans) > 0 {
		fmt.Fprintf(&b, "plans: [%s]\n", strings.Join(f.plans, ", "))
	}
	for _, section := range []struct {
		name string
		all  map[string]map[string]string
	}{{"limits", f.limits}, {"groups", f.groups}} {
		if len(section.all) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s:\n", section.name)
		for _, name := range slices.Sorted(maps.Keys(section.all)) {
			fmt.Fprintf(&b, "  %s:\n", name)
			for _, field := range slices.Sorted(maps.Keys(section.all[name])) {
				fmt.Fprintf(&b, "    %s: %s\n", field, section.all[name][field])
			}
		}
	}
	return b.String()
}

// wholeFile returns a random file, in which fields of all sections meet. Not all of them are valid.
func (d dice) wholeFile() wholeFile {
	f := wholeFile{limits: map[string]map[string]string{}, groups: map[string]map[string]string{}}
	if d.IntN(3) > 0 {
		f.plans = []string{"free", "pro", "team"}[:2+d.IntN(2)]
	}
	names := []string{"alpha", "beta", "gamma", "delta"}[:2+d.IntN(3)]
	for _, name := range names {
		f.limits[name] = d.limitFields(f.plans)
	}
	if d.IntN(2) == 0 {
		f.groups["both"] = d.groupFields(names)
	}
	return f
}

// number returns a number, or one for each plan.
func (d dice) number(plans []string, numbers ...int64) string {
	if len(plans) == 0 || d.IntN(2) == 0 {
		return fmt.Sprint(choose(d, numbers...))
	}
	var of []string
	for _, plan := range plans {
		of = append(of, fmt.Sprintf("%s: %d", plan, choose(d, numbers...)))
	}
	return "{" + strings.Join(of, ", ") + "}"
}

// limitFields returns the fields of a limit.
func (d dice) limitFields(plans []string) map[string]string {
	f := map[string]string{"key": "user", "period": choose(d, "1s", "30s", "1m", "90s", "1h")}
	f["rate"] = d.number(plans, 2, 3, 10, 60, 100)
	if len(plans) > 0 && d.IntN(5) == 0 {
		f["rate"] = fmt.Sprintf("{%s: unlimited}", strings.Join(plans, ": 10, "))
	}
	switch d.IntN(6) {
	case 0:
		f["kind"] = "sliding window"
		if d.IntN(2) == 0 {
			f["precise"] = "true"
		}
	case 1, 2:
		f["kind"] = "token bucket"
	case 3:
		f["kind"] = "fixed window"
		f["start"] = choose(d, "0s", "7s", "first use")
	case 4:
		f["kind"] = "fixed window"
	case 5:
		f["kind"], f["period"] = "fixed window", choose(d, "day", "week", "month", "3 months")
		f["zone"] = choose(d, "UTC", "Europe/Berlin", "America/New_York", "per key")
		if f["period"] == "month" {
			f["start"] = choose(d, "1st", "15th", "anniversary")
		}
	}
	if f["kind"] == "fixed window" && (strings.Contains(f["rate"], "unlimited") || d.IntN(6) == 0) && d.IntN(2) == 0 {
		if f["count"] = "true"; !strings.Contains(f["rate"], "unlimited") {
			f["rate"] = "unlimited"
		}
	}
	if f["kind"] != "sliding window" {
		if d.IntN(2) == 0 && !strings.Contains(f["rate"], "unlimited") {
			f["capacity"] = d.number(plans, 2, 5, 20, 61, 150)
		}
		if d.IntN(3) == 0 {
			f["maxReserved"] = d.number(plans, 4, 10, 35)
		}
	}
	if d.IntN(4) == 0 && f["precise"] == "" {
		f["shards"] = fmt.Sprint(choose(d, 2, 2, 3))
	}
	if d.IntN(5) == 0 && f["precise"] == "" && f["start"] != "first use" {
		f["lease"] = "{tokens: 2, for: 200ms}"
	}
	if d.IntN(4) == 0 {
		f["mode"] = choose(d, "shadow", "off", "block", "enforce")
	}
	if d.IntN(4) == 0 && f["shards"] == "" && f["lease"] == "" && f["maxReserved"] == "" {
		f["penalty"] = choose(d, "10s", "[1s, 10m, 1h]")
	}
	if d.IntN(4) == 0 {
		f["jitter"] = choose(d, "10ms", "3s")
	}
	if d.IntN(6) == 0 {
		f["denyCache"] = "1s"
	}
	return f
}

// groupFields returns a group that takes from some limits and checks another.
func (d dice) groupFields(names []string) map[string]string {
	names = slices.Clone(names)
	d.Shuffle(len(names), func(i, k int) { names[i], names[k] = names[k], names[i] })
	var takes []string
	for _, name := range names[:1+d.IntN(len(names)-1)] {
		keys := []string{"{user: user" + choose(d, "", ", n: 2", ", n: amount") + "}", "{user: friend" + choose(d, "", ", n: 2") + "}"}
		takes = append(takes, name+": ["+strings.Join(keys[:1+d.IntN(2)], ", ")+"]")
	}
	f := map[string]string{"takes": "{" + strings.Join(takes, ", ") + "}"}
	if d.IntN(2) == 0 {
		f["checks"] = fmt.Sprintf("{%s: {user: user%s}}", names[len(names)-1], choose(d, "", ", n: 2", ", n: amount"))
	}
	return f
}

// edited changes one to three fields of limits, or the group.
func (f wholeFile) edited(d dice) wholeFile {
	c := f.clone()
	names := slices.Sorted(maps.Keys(c.limits))
	for range 1 + d.IntN(3) {
		name := choose(d, names...)
		other := d.limitFields(f.plans)
		switch d.IntN(8) {
		case 0:
			c.limits[name] = other
		case 1:
			if len(c.groups) > 0 {
				c.groups["both"] = d.groupFields(names)
			}
		default:
			field := choose(d, "rate", "rate", "period", "capacity", "maxReserved", "shards", "lease", "mode", "jitter", "precise", "start", "zone")
			if value, ok := other[field]; ok {
				c.limits[name][field] = value
			} else {
				delete(c.limits[name], field)
			}
			if field == "rate" { // an unlimited one and its count belong together
				delete(c.limits[name], "count")
				if other["count"] != "" {
					c.limits[name]["count"] = other["count"]
				}
			}
		}
	}
	return c
}

// judged counts what a judge has confirmed.
type judged map[string]int

func (y judged) String() (text string) {
	for _, what := range slices.Sorted(maps.Keys(y)) {
		text += fmt.Sprintf("%s: %d\n", what, y[what])
	}
	return text
}

// Reviews of whole files, in which plans, groups, calendars, modes, jitter, precise windows, shards and leases meet: every
// number is one that a replay does not exceed and, where one row decides, reaches, and every limit is classified as
// looser or tighter if and only if a replay uses more or fewer tokens in some interval.
func TestReviewsOfWholeFilesAreConfirmedByReplay(t *testing.T) {
	d := roll(101)
	y := judged{}
	files, found := fewPairs(), []string{"numbers reached", "calendar numbers not exceeded", "durations", "looser", "tighter", "mixed", "modes", "groups"}
	if *long {
		found = append(found, "neither")
	}
	for tried := 0; tried < files; {
		was := d.wholeFile()
		is := was.edited(d)
		old, wrong := fields.Parse("old", []byte(was.String()))
		new, alsoWrong := fields.Parse("new", []byte(is.String()))
		if len(wrong)+len(alsoWrong) > 0 {
			y["files refused"]++
			continue
		}
		if tried++; tried%250 == 0 {
			t.Logf("%d pairs of files\n%s", tried, y)
		}
		r := Review(old, new)
		for _, l := range new.Limits {
			i := slices.IndexFunc(old.Limits, func(o *spec.Limit) bool { return o.Policy.Name == l.Policy.Name })
			s := slices.IndexFunc(r.Subjects, func(s review.Subject) bool { return s.Limit == l.Policy.Name })
			if s < 0 {
				require.Equal(t, old.Limits[i].Policy, l.Policy, "an edit without a review")
				continue
			}
			if !confirmLimit(t, d, y, &r.Subjects[s], old.Limits[i], l) {
				t.Fatalf("%s\nof\n%s\nto\n%s", l.Policy.Name, was, is)
			}
		}
		for _, g := range new.Groups {
			i := slices.IndexFunc(old.Groups, func(o *spec.Group) bool { return o.GoName == g.GoName })
			s := slices.IndexFunc(r.Subjects, func(s review.Subject) bool { return s.Group != "" })
			if i >= 0 && s >= 0 {
				confirmGroup(t, y, &r.Subjects[s], old.Groups[i], g)
			}
		}
	}
	t.Log("\n" + y.String())
	for _, what := range found {
		require.Positive(t, y[what], what)
	}
}

// plansOfBoth returns the pairs of policies of two versions of a limit, by plan.
func plansOfBoth(old, new *spec.Limit) map[string]compare.Pair {
	all := map[string]compare.Pair{}
	for _, l := range append([]*spec.Limit{new}, new.Plans...) {
		was := old
		if i := slices.IndexFunc(old.Plans, func(o *spec.Limit) bool { return o.Plan == l.Plan }); i >= 0 {
			was = old.Plans[i]
		}
		all[l.Plan] = compare.Pair{Old: was, New: l}
	}
	for _, o := range old.Plans {
		if len(new.Plans) == 0 {
			all[o.Plan] = compare.Pair{Old: o, New: new}
		}
	}
	if len(all) > 1 {
		delete(all, "")
	}
	return all
}

// confirmLimit compares the review of a limit with replays, and returns false after a failure.
func confirmLimit(t *testing.T, d dice, y judged, s *review.Subject, old, new *spec.Limit) bool {
	looser, tighter, inexact := false, false, false
	all := plansOfBoth(old, new)
	for _, plan := range slices.Sorted(maps.Keys(all)) {
		p := all[plan]
		if old.Policy.Mode == new.Policy.Mode {
			p = p.Enforced()
		}
		lengths := []int64{0}
		for _, n := range s.Numbers {
			if n.Plan != plan {
				continue
			}
			if length, ok := intervalNamed(n.Name); ok {
				lengths = append(lengths, length)
			}
			for side, l := range []*spec.Limit{p.Old, p.New} {
				value := []*int64{n.Old, n.New}[side]
				if value != nil {
					confirmNumber(t, d, y, l, p, n, *value)
				}
			}
		}
		more, fewer, exact := compareByReplay(d, p, lengths)
		looser, tighter, inexact = looser || more, tighter || fewer, inexact || !exact
	}
	if t.Failed() {
		return false
	}
	classes := s.Classes()
	what := map[[2]bool]string{{true, false}: "looser", {false, true}: "tighter", {true, true}: "mixed", {false, false}: "neither"}[[2]bool{looser, tighter}]
	says := [2]bool{slices.Contains(classes, review.Loosened), slices.Contains(classes, review.Tightened)}
	if inexact {
		// A replay of shards, leases or calendars need not reach the bound: it only refutes.
		assert.True(t, (!looser || says[0]) && (!tighter || says[1]), "%s by replay, but the review says %v", what, classes)
		y[what+", not refuted"]++
	} else {
		assert.Equal(t, [2]bool{looser, tighter}, says, "%s by replay, but the review says %v", what, classes)
		y[what]++
	}
	return !t.Failed()
}

// confirmNumber compares a number of one version with a replay of it.
func confirmNumber(t *testing.T, d dice, y judged, l *spec.Limit, p compare.Pair, n review.Number, value int64) {
	policy := l.Policy
	bounded := n.Unit == review.Tokens && n.Name != review.LargestReservation
	switch {
	case without(l) || bounded && p.ModesDiffer() && policy.Mode != runtime.ModeEnforce:
		passed := passingAtOnce(t, &policy, 500)
		require.Equal(t, value == math.MaxInt64, passed == 500, "%s of %+v: %d", n.Name, policy, value)
		require.True(t, value == math.MaxInt64 || value == 0 && passed == 0, "%s of %+v: %d", n.Name, policy, value)
		y["modes"]++
		return
	case n.Unit == review.Nanoseconds:
		confirmDuration(t, d, y, &policy, n.Name, value)
		return
	}
	policy.Mode = runtime.ModeEnforce
	if compare.HasCalendar(&policy) {
		if bounded && !strings.HasSuffix(n.Name, review.Unreserved) {
			uses := useCalendar(t, d, &policy)
			if length, ok := intervalNamed(n.Name); ok {
				require.LessOrEqual(t, most(uses, length), value, "%s of %+v", n.Name, policy)
				y["calendar numbers not exceeded"]++
			}
		}
		return
	}
	if _, ok := intervalNamed(n.Name); !ok && n.Name != review.LargestReservation && !strings.HasSuffix(n.Name, review.Unreserved) {
		return
	}
	if againstNumber(t, d, &policy, n.Name, value, [][]use{roam(d, &policy)}) {
		y["numbers reached"]++
	}
}

// passingAtOnce returns how many of n requests at one instant pass.
func passingAtOnce(t *testing.T, p *runtime.Policy, n int) (passed int) {
	store := &memstore.Store{Clock: func() time.Time { return time.Unix(0, compare.Origin) }}
	q := runtime.Request{Policy: p, Count: 1}
	if p.Calendar.ZonePerKey {
		q.Zone = time.UTC
	}
	if p.Calendar.Anniversary {
		q.Anniversary = runtime.Date{Year: 2020, Month: time.January, Day: 31}
	}
	for range n {
		answers, err := store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{q}}})
		require.NoError(t, err)
		if answers[0].Allowed() {
			passed++
		}
	}
	return passed
}

// useCalendar takes all tokens at the ends and starts of some windows of a calendar, for a key of some zone.
func useCalendar(t *testing.T, d dice, p *runtime.Policy) (uses []use) {
	now := time.Date(2024, 1, 1+d.IntN(700), d.IntN(24), 0, 0, 0, time.UTC)
	store := &memstore.Store{Clock: func() time.Time { return now }}
	q := runtime.Request{Policy: p, Op: runtime.TakeUpTo, Count: p.Capacity}
	if p.Calendar.ZonePerKey {
		zone, err := time.LoadLocation(choose(d, "UTC", "Asia/Tokyo", "America/Santiago"))
		require.NoError(t, err)
		q.Zone = zone
	}
	if p.Calendar.Anniversary {
		q.Anniversary = runtime.Date{Year: 2020, Month: time.January, Day: 1 + d.IntN(31)}
	}
	for range 40 {
		if p.Reserves() {
			q.Op, q.Reserve = runtime.Take, true
			q.Count = 1 + d.Int64N(p.Capacity+p.MaxReserved)
		}
		answers, err := store.Do(t.Context(), []runtime.Call{{Requests: []runtime.Request{q}}})
		require.NoError(t, err)
		require.NoError(t, answers[0].Err)
		decision := answers[0].Decisions[0]
		if decision.Taken > 0 {
			uses = append(uses, use{now.UnixNano() + int64(decision.UsableAfter), decision.Taken})
		}
		now = now.Add(choose(d, decision.ResetAfter-1, decision.ResetAfter, decision.ResetAfter/3))
	}
	return uses
}

// confirmDuration compares a duration with what a key has to wait after all was taken, at the start of a window and at
// random instants.
func confirmDuration(t *testing.T, d dice, y judged, p *runtime.Policy, name string, value int64) {
	if p.Calendar.PerKey() || p.Shards > 1 || p.Precise || value == math.MaxInt64 {
		return
	}
	rule := meter.RuleOf(paced(p), keyOfCaller)
	longest := time.Duration(0)
	starts := []int64{bounds.LongestWindow(p)}
	if compare.HasCalendar(p) {
		for range 400 {
			starts = append(starts, rule.WindowEnd(starts[len(starts)-1]))
		}
	} else {
		starts = []int64{rule.Phase + 40*rule.Period, rule.Phase + 40*rule.Period + d.Int64N(rule.Period)}
	}
	for _, at := range append(starts, starts[0]+d.Int64N(rule.Period), starts[0]+d.Int64N(rule.Period)) {
		count := p.Full()
		if name == "next token after reserving all" || name == review.LongestDelay {
			count += p.MaxReserved
		}
		state, taken, err := rule.Step(runtime.State{}, at, runtime.Request{Count: count, Reserve: count > p.Full()})
		require.NoError(t, err)
		switch name {
		case "full after":
			longest = max(longest, taken.FullAfter)
		case review.LongestDelay:
			longest = max(longest, taken.UsableAfter)
		default:
			_, check, err := rule.Step(state, at, runtime.Request{Op: runtime.Check, Count: 1})
			require.NoError(t, err)
			longest = max(longest, check.RetryAfter)
		}
	}
	require.Equal(t, time.Duration(value), longest, "%s of %+v", name, p)
	y["durations"]++
}

// compareByReplay reports whether schedules use more or fewer tokens of the new version in an interval of some length,
// and whether they reach the bounds of both.
func compareByReplay(d dice, p compare.Pair, lengths []int64) (more, fewer, exact bool) {
	if p.ModesDiffer() || without(p.Old) || without(p.New) {
		lets := func(l *spec.Limit) int {
			if without(l) && l.Policy.Mode != runtime.ModeBlock {
				return 2
			}
			return modes[l.Policy.Mode].lets
		}
		was, is := lets(p.Old), lets(p.New)
		return is > was, is < was, true
	}
	old, new := p.Old.Policy, p.New.Policy
	if old == new {
		return false, false, true
	}
	// Clients that are told to wait longer, cached denials, penalties, and tokens that other processes hold.
	more = new.Jitter < old.Jitter || new.DenyCache < old.DenyCache || new.Lease.Tokens < old.Lease.Tokens || new.Lease.For < old.Lease.For
	fewer = new.Jitter > old.Jitter || new.DenyCache > old.DenyCache || new.Lease.Tokens > old.Lease.Tokens || new.Lease.For > old.Lease.For
	for n := 1; n <= runtime.MaxPenaltySteps; n++ {
		was, is := old.Penalty.Step(n), new.Penalty.Step(n)
		more, fewer = more || is < was, fewer || is > was
	}
	exact = true
	for _, q := range []*runtime.Policy{&old, &new} {
		q.Mode, q.Jitter, q.DenyCache = runtime.ModeEnforce, 0, 0
		if compare.HasCalendar(q) || q.Lease.Tokens > 0 || q.Shards > 1 {
			exact = false
		}
	}
	if compare.HasCalendar(&old) || compare.HasCalendar(&new) {
		return more, fewer, false
	}
	for _, period := range []time.Duration{paced(&old).Period, paced(&new).Period} {
		lengths = append(lengths, 1, int64(period)/max(paced(&old).Rate, paced(&new).Rate)/2, int64(period)/3)
		for _, n := range []int64{1, 2, 3, 7, 20} {
			lengths = append(lengths, n*int64(period)-1, n*int64(period), n*int64(period)+1, n*int64(period)+int64(period)/3)
		}
	}
	// The bound in the long run.
	lengths = append(lengths, 300*int64(max(paced(&old).Period, paced(&new).Period)))
	for _, length := range lengths {
		if length > 1000*int64(min(paced(&old).Period, paced(&new).Period)) {
			continue
		}
		for _, of := range []func(*runtime.Policy) *runtime.Policy{func(p *runtime.Policy) *runtime.Policy { return p }, bounds.Unreserved} {
			was, is := of(&old), of(&new)
			if was.Full()+was.MaxReserved == 0 || is.Full()+is.MaxReserved == 0 {
				continue
			}
			used, uses := attack(d, was, closed(was, length)), attack(d, is, closed(is, length))
			more = more || uses > bounds.Within(was, time.Duration(length)) || exact && uses > used
			fewer = fewer || used > bounds.Within(is, time.Duration(length)) || exact && uses < used
		}
	}
	if exact {
		more = more || bounds.LargestReservation(&new) > bounds.LargestReservation(&old)
		fewer = fewer || bounds.LargestReservation(&new) < bounds.LargestReservation(&old)
	}
	return more, fewer, exact
}

// confirmGroup compares the classes of a group with what a call of it takes from and needs of each limit.
func confirmGroup(t *testing.T, y judged, s *review.Subject, old, new *spec.Group) {
	costs := func(g *spec.Group, amount int64) map[string]int64 {
		all := map[string]int64{}
		for i, m := range g.Members() {
			member := fmt.Sprint(i >= len(g.Takes), m.InWords())
			if all[member] = m.Count; m.CountArg != "" {
				all[member] = amount
			}
		}
		return all
	}
	more, fewer := false, false
	for _, amount := range []int64{0, 100} {
		was, is := costs(old, amount), costs(new, amount)
		for name := range was {
			more, fewer = more || is[name] > was[name], fewer || is[name] < was[name]
		}
		for name := range is {
			more, fewer = more || is[name] > was[name], fewer || is[name] < was[name]
		}
	}
	require.Equal(t, [2]bool{fewer, more}, [2]bool{slices.Contains(s.Classes(), review.Loosened), slices.Contains(s.Classes(), review.Tightened)}, "%v", s.Findings)
	y["groups"]++
}
