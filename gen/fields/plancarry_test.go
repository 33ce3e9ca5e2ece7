package fields

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// fixedPlans returns a file with a random fixed window whose numbers depend on the plan.
func fixedPlans(d *rand.Rand, plans int) string {
	names := []string{"free", "team", "pro", "best"}[:plans]
	shards := 1
	fields := []string{"kind: fixed window"}
	switch d.IntN(6) {
	case 0:
		fields = append(fields, "period: day", "zone: America/New_York", "start: 06:00")
	case 1:
		fields = append(fields, "period: month", "zone: per key", "start: anniversary")
	case 2:
		fields = append(fields, "period: 1m", "start: first use")
	case 3:
		shards = 2 + d.IntN(3)
		fields = append(fields, "period: 1m", fmt.Sprintf("shards: %d", shards))
	default:
		fields = append(fields, "period: 1m")
	}
	reserves, same := d.IntN(2) == 0, d.IntN(3)
	carry := d.IntN(40)
	numbers := map[string][]string{}
	for _, name := range names {
		rate := shards + d.IntN(60)
		capacity, reserved := shards+d.IntN(80), shards+d.IntN(30)
		if !reserves {
			reserved = 0
		}
		switch same {
		case 0: // the same number carried
			capacity = max(shards, rate+carry-reserved)
		case 1: // none
			capacity = max(shards, rate-reserved-d.IntN(3))
		}
		numbers["rate"] = append(numbers["rate"], fmt.Sprintf("%s: %d", name, rate))
		numbers["capacity"] = append(numbers["capacity"], fmt.Sprintf("%s: %d", name, capacity))
		numbers["maxReserved"] = append(numbers["maxReserved"], fmt.Sprintf("%s: %d", name, reserved))
	}
	for _, field := range []string{"rate", "capacity", "maxReserved"} {
		fields = append(fields, field+": {"+strings.Join(numbers[field], ", ")+"}")
	}
	return strings.Replace(ids.LimitOf(fields...), "limits:", "plans: ["+strings.Join(names, ", ")+"]\nlimits:", 1)
}

// parsePlans returns the plans of the limit of a file, and whether check accepts them: otherwise they differ in nothing but
// what they carry.
func parsePlans(t *testing.T, text string) (plans []*spec.Limit, accepted bool) {
	file, ds := Parse("limits.yaml", []byte(text))
	if len(ds) == 0 {
		return file.Limits[0].Plans, true
	}
	require.Len(t, ds, 1, text)
	require.Equal(t, ids.PlanCarry.ID, ds[0].ID, "%v", ds[0])
	// Each plan alone is a valid file.
	names := strings.Split(strings.Trim(strings.Split(text, "\n")[1], "plans: []"), ", ")
	for _, name := range names {
		var lines []string
		for line := range strings.Lines(strings.Replace(text, "plans: ["+strings.Join(names, ", ")+"]\n", "", 1)) {
			if field, numbers, ok := strings.Cut(line, ": {"); ok {
				number := numbers[strings.Index(numbers, name+": ")+len(name)+2:]
				line = field + ": " + number[:strings.IndexAny(number, ",}")] + "\n"
			}
			lines = append(lines, line)
		}
		file, ds := Parse(name, []byte(strings.Join(lines, "")))
		require.Empty(t, ds, "%s", strings.Join(lines, ""))
		plans = append(plans, file.Limits[0])
	}
	return plans, false
}

// shardOf returns the rule of one shard, for a key with a zone and an anniversary if the limit needs them.
func shardOf(l *spec.Limit, i int) meter.Rule {
	q := runtime.Request{Policy: &l.Policy, Key: "k"}
	if l.Policy.Calendar.ZonePerKey {
		q.Zone = time.UTC
	}
	if l.Policy.Calendar.Anniversary {
		q.Anniversary = runtime.Date{Year: 2020, Month: time.January, Day: 31}
	}
	r := meter.RuleOf(&l.Policy, q.Key).For(q)
	return r.Shard(i, l.Policy.Shards)
}

// row is one row, from which tokens are taken at its instant.
type row struct {
	state  runtime.State
	now    int64
	passed int64
}

// take takes a number of tokens under a rule, and reserves them if the rule allows that.
func (w *row) take(t *testing.T, r *meter.Rule, count int64) bool {
	q := runtime.Request{Count: count, Reserve: r.Debt > 0}
	if float64(count) > r.Capacity+r.Debt {
		return false
	}
	next, d, err := r.Step(w.state, w.now, q)
	require.NoError(t, err)
	if d.Allowed {
		w.state = next
		w.passed += count
	}
	return d.Allowed
}

func (w *row) takeAll(t *testing.T, r *meter.Rule) {
	for count := int64(1 << 10); count > 0; count /= 2 {
		for w.take(t, r, count) {
		}
	}
}

// nextWindow moves on to the start of the next window.
func (w *row) nextWindow(r *meter.Rule) {
	if r.FirstUse {
		w.now = w.state.TS + r.Period
	} else {
		w.now = r.WindowEnd(w.now)
	}
}

// mostInWindows returns how many tokens one shard grants in some windows: to one plan, or to two of which touch takes a
// token at the start of each window, and all takes the others.
func mostInWindows(t *testing.T, all, touch meter.Rule) int64 {
	w := row{now: time.Date(2024, 2, 28, 12, 0, 0, 0, time.UTC).UnixNano()}
	w.takeAll(t, &all)
	for range 6 {
		w.nextWindow(&all)
		w.take(t, &touch, 1)
		w.takeAll(t, &all)
	}
	return w.passed
}

// check refuses two plans if and only if changing between them grants more than the better one of them alone.
func TestRefusedPlansWouldGrantTokensAgain(t *testing.T) {
	d := rand.New(rand.NewPCG(3, 1))
	refused, accepted := 0, 0
	for range 1500 {
		text := fixedPlans(d, 2)
		plans, ok := parsePlans(t, text)
		alone, flipped := make([]int64, 2), int64(0)
		for i := range max(1, plans[0].Policy.Shards) {
			var most int64
			for j, all := range plans {
				for k, touch := range plans {
					granted := mostInWindows(t, shardOf(all, i), shardOf(touch, i))
					most = max(most, granted)
					if j == k {
						alone[j] += granted
					}
				}
			}
			flipped += most
		}
		require.Equal(t, ok, flipped <= max(alone[0], alone[1]), "%s\nalone %v, with changes %d", text, alone, flipped)
		if ok {
			accepted++
		} else {
			refused++
		}
	}
	t.Logf("%d pairs refused, %d accepted", refused, accepted)
	require.Greater(t, refused, 150)
	require.Greater(t, accepted, 500)
}

// Whatever passes while a key changes among its plans at random passes if it always has the one that includes the others.
func TestChangesOfPlansGrantWhatTheLargestGrants(t *testing.T) {
	d := rand.New(rand.NewPCG(4, 1))
	tried, full := 0, 0
	for tried < 150 {
		file, ds := Parse("limits.yaml", []byte(fixedPlans(d, 2+d.IntN(3))))
		if len(ds) > 0 {
			continue
		}
		tried++
		plans := file.Limits[0].Plans
		largest := plans[slices.IndexFunc(plans, func(l *spec.Limit) bool {
			return !slices.ContainsFunc(plans, func(o *spec.Limit) bool { return !includes(l, o) })
		})]
		shard := d.IntN(max(1, largest.Policy.Shards))
		alone := shardOf(largest, shard)
		w := row{now: time.Date(2024, 2, 28, 12, 0, 0, 0, time.UTC).UnixNano()}
		same := row{now: w.now}
		windows, end := int64(0), alone.WindowEnd(w.now)
		for range 1000 {
			r := shardOf(plans[d.IntN(len(plans))], shard)
			count := 1 + d.Int64N(12)
			if w.take(t, &r, count) {
				same.now = w.now
				require.True(t, same.take(t, &alone, count), "%d of\n%v", count, file)
			}
			if d.IntN(4) == 0 {
				w.now += d.Int64N(alone.Period / 3)
			}
			if d.IntN(50) == 0 {
				w.now += d.Int64N(4 * alone.Period)
			}
			for ; !alone.FirstUse && end <= w.now; windows++ {
				end = alone.WindowEnd(end)
			}
			if !alone.FirstUse {
				bound := int64(alone.Capacity+alone.Debt) + windows*int64(alone.Rate)
				require.LessOrEqual(t, w.passed, bound, "%v", file)
				if 10*w.passed > 9*bound {
					full++
				}
			}
		}
	}
	t.Logf("%d takes came near the bound", full)
	require.Greater(t, full, 1500)
}
