package judge

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/diff"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// planned returns a limit with plans that have multiples of its numbers. At least one of them is limited.
func (d dice) planned(base runtime.Policy, names []string) *spec.Limit {
	l := limitOf(base, true)
	l.Policy.Mode = runtime.ModeUnlimited
	for i, name := range names {
		of := limitOf(base, true)
		of.Plan = name
		times := choose[int64](d, 1, 2, 3, 10)
		of.Policy.Rate, of.Policy.Capacity, of.Policy.MaxReserved = times*base.Rate, times*base.Capacity, times*base.MaxReserved
		if base.Kind == runtime.TokenBucket {
			of.Policy.Period = choose(d, base.Period, 3*base.Period)
		}
		switch {
		case d.IntN(5) == 0 && (i+1 < len(names) || !l.Unlimited()):
			of.Policy = runtime.Policy{Name: base.Name, Kind: base.Kind, Shards: base.Shards, Mode: runtime.ModeUnlimited}
			of.UnlimitedRate = true
		case l.Unlimited():
			l.Policy = of.Policy
		}
		l.Plans = append(l.Plans, of)
	}
	return l
}

func fileOf(l *spec.Limit) *spec.File {
	file := &spec.File{Limits: []*spec.Limit{l}}
	for _, name := range l.PlanNames() {
		file.Plans = append(file.Plans, spec.Plan{Name: name, GoName: spec.PlanGoName(name)})
	}
	return file
}

// The review of a limit with plans says of each plan what the review of a limit with this plan's numbers says: the same
// numbers, classes and notes.
func TestReviewOfAPlanIsThatOfItsNumbers(t *testing.T) {
	d := roll(31)
	compared, unlimited := 0, 0
	for range 3 * fewPairs() {
		base := d.bounded()
		old, new := d.planned(base, []string{"free", "pro", "team"}), d.planned(d.edited(base), []string{"free", "pro", "team"})
		whole := subjectOfPair(old, new)
		for i, of := range new.Plans {
			was, is := *old.Plans[i], *of
			was.Plan, is.Plan = "", ""
			if was.Unlimited() || is.Unlimited() {
				unlimited++
				requireUnlimited(t, &whole, &was, &is, of.Plan)
				continue
			}
			compared++
			r := Review(fileOf(&was), fileOf(&is))
			if len(r.Subjects) == 0 {
				require.False(t, slices.ContainsFunc(whole.Findings, func(f review.Finding) bool {
					return slices.ContainsFunc(f.Changes, func(c review.Change) bool { return c.Plan == of.Plan || c.Plan == "" })
				}), "%+v to %+v", old, new)
				continue
			}
			requirePart(t, &whole, &r.Subjects[0], of.Plan)
		}
	}
	require.Greater(t, compared, 5*fewPairs())
	require.Greater(t, unlimited, fewPairs())
}

// requirePart checks that a subject has everything that the subject of one of its plans has.
func requirePart(t *testing.T, whole, part *review.Subject, plan string) {
	t.Helper()
	var numbers []review.Number
	for _, n := range whole.Numbers {
		if n.Plan == plan {
			n.Plan = ""
			numbers = append(numbers, n)
		}
	}
	require.Equal(t, part.Numbers, numbers)
	for _, f := range part.Findings {
		i := slices.IndexFunc(whole.Findings, func(o review.Finding) bool { return o.Kind == f.Kind })
		require.GreaterOrEqual(t, i, 0, f.Kind.ID)
		for _, class := range f.Classes() {
			if class != review.Cosmetic {
				require.Contains(t, whole.Findings[i].Classes(), class, f.Kind.ID)
			}
		}
		for _, c := range whole.Findings[i].Changes {
			if c.Plan == plan {
				require.Equal(t, f.Classes(), c.Classes, "%s: the row of a plan has the classes of that plan", f.Kind.ID)
			}
		}
	}
	for _, n := range part.Notes {
		with := n
		with.Text = plan + ": " + n.Text
		require.True(t, slices.Contains(whole.Notes, n) || slices.Contains(whole.Notes, with), "%s: %+v\nis not in %+v", plan, n, whole.Notes)
	}
}

// requireUnlimited checks the findings about a plan that is unlimited on some side.
func requireUnlimited(t *testing.T, whole *review.Subject, was, is *spec.Limit, plan string) {
	t.Helper()
	var class review.Class
	switch {
	case was.Unlimited() && is.Unlimited():
		return
	case is.Unlimited():
		class = review.Loosened
	default:
		class = review.Tightened
	}
	require.Contains(t, whole.Classes(), class)
	for _, n := range whole.Numbers {
		if n.Plan == plan && strings.HasPrefix(n.Name, "at once") {
			if is.Unlimited() {
				require.True(t, review.IsUnbounded(*n.New))
				require.Equal(t, bounds.Within(&was.Policy, 0), *n.Old)
			} else {
				require.True(t, review.IsUnbounded(*n.Old))
				require.Equal(t, bounds.Within(&is.Policy, 0), *n.New)
			}
			return
		}
	}
	require.Fail(t, "the numbers lack the plan", plan)
}

// Edits of a blocked limit are judged as if it were enforced: an unlimited plan has no bound then.
func TestUnlimitedPlanOfABlockedLimitHasNoBound(t *testing.T) {
	const head = "version: 1\nplans: [free, pro]\nlimits:\n  a: {key: userID, kind: token bucket, mode: block, period: 1s, maxReserved: 4, "
	old := parse(t, "old", head+"rate: {free: 10, pro: unlimited}, shards: 2}\n").Limits[0]
	new := parse(t, "new", head+"rate: {free: 10, pro: unlimited}}\n").Limits[0]
	numbers := subjectOfPair(old, new).Numbers
	i := slices.IndexFunc(numbers, func(n review.Number) bool { return n.Label() == "pro: at once" })
	require.GreaterOrEqual(t, i, 0)
	require.True(t, review.IsUnbounded(*numbers[i].Old) && review.IsUnbounded(*numbers[i].New))
	p := plansOfBoth(old, new)["pro"].Enforced()
	require.True(t, p.Old.Unlimited() && p.New.Unlimited())
	p = plansOfBoth(old, new)["free"].Enforced()
	require.Equal(t, runtime.ModeEnforce, p.New.Policy.Mode)
}

// Nothing is looser than a rate without a bound, also not a reservation, although only the other version has those.
func TestReservationsAreNoLooserThanCounting(t *testing.T) {
	const head = "version: 1\nlimits:\n  a: {key: userID, period: 30s, "
	counts := parse(t, "old", head+"kind: fixed window, start: 7s, rate: unlimited, count: true}\n").Limits[0]
	reserves := parse(t, "new", head+"kind: token bucket, rate: 10, capacity: 5, maxReserved: 10, shards: 2}\n").Limits[0]
	tighter, looser := subjectOfPair(counts, reserves), subjectOfPair(reserves, counts)
	tightened, loosened := tighter.Classes(), looser.Classes()
	require.Contains(t, tightened, review.Tightened)
	require.NotContains(t, tightened, review.Loosened)
	require.Contains(t, loosened, review.Loosened)
	require.NotContains(t, loosened, review.Tightened)
}

func TestPlanRenamesAreGuessedFromNumbers(t *testing.T) {
	file := func(plans, rates string) string {
		return "version: 1\nplans: " + plans + "\nlimits:\n  a: {kind: token bucket, period: 1m, rate: " + rates + "}\n  b: {kind: token bucket, period: 1m, rate: 5}\n"
	}
	for _, test := range []struct {
		name, old, new string
		want           map[string]string
	}{
		{"the same numbers", file("[free, pro]", "{free: 1, pro: 2}"), file("[free, gold]", "{free: 1, gold: 2}"), map[string]string{"gold": "pro"}},
		{"other numbers", file("[free, pro]", "{free: 1, pro: 2}"), file("[free, gold]", "{free: 1, gold: 3}"), nil},
		{"two added ones are alike", file("[free, pro]", "{free: 1, pro: 2}"), file("[free, gold, silver]", "{free: 1, gold: 2, silver: 2}"), nil},
		{"two removed ones are alike", file("[free, pro, max]", "{free: 1, pro: 2, max: 2}"), file("[free, gold]", "{free: 1, gold: 2}"), nil},
		{"numbers swap", file("[free, pro]", "{free: 1, pro: 2}"), file("[silver, gold]", "{silver: 2, gold: 1}"), map[string]string{"silver": "pro", "gold": "free"}},
		{"no numbers, the same place", file("[free, pro]", "4"), file("[free, gold]", "4"), map[string]string{"gold": "pro"}},
		{"no numbers, another place", file("[free, pro]", "4"), file("[gold, free]", "4"), nil},
		{"no numbers, one more", file("[free, pro]", "4"), file("[free, gold, max]", "4"), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := test.want
			if want == nil {
				want = map[string]string{}
			}
			require.Equal(t, want, diff.RenamesOf(parse(t, "old", test.old), parse(t, "new", test.new)).Plans)
		})
	}
}
