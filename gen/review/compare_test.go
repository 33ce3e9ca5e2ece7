package review

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// An edit is loosened if and only if more can be used in an interval of some length, however long.
func TestLoosenessIsThatOfAllIntervals(t *testing.T) {
	d := roll(14)
	for range pairs() {
		old := d.bounded()
		new := d.edited(old)
		is := looseness(&old, &new)
		for range 2000 {
			length := time.Duration(d.Int64N(choose[int64](d, 3, 100) * int64(max(old.Period, new.Period))))
			if d.IntN(2) == 0 {
				p := choose(d, old.Period, new.Period)
				length = length/p*p + choose[time.Duration](d, 0, 1, p-1, p/3)
			}
			for _, kind := range []func(*runtime.Policy) *runtime.Policy{func(p *runtime.Policy) *runtime.Policy { return p }, spec.Unreserved} {
				was, now := Within(kind(&old), length), Within(kind(&new), length)
				require.False(t, now > was && !contains(is, Loosened), "%v: %d to %d\nof %+v\nto %+v", length, was, now, old, new)
				require.False(t, now < was && !contains(is, Tightened), "%v: %d to %d\nof %+v\nto %+v", length, was, now, old, new)
			}
		}
	}
}

func contains(classes []Class, class Class) bool {
	for _, c := range classes {
		if c == class {
			return true
		}
	}
	return false
}

func reviewed(t *testing.T, old, new string) *Subject {
	t.Helper()
	head := "version: 1\nlimits:\n  send: {"
	r := Of(parse(t, "old", head+old+"}\n"), parse(t, "new", head+new+"}\n"))
	require.Len(t, r.Subjects, 1)
	return &r.Subjects[0]
}

func TestLoosened(t *testing.T) {
	const window, bucket = "kind: fixed window, ", "kind: token bucket, "
	for _, test := range []struct {
		name, old, new string
		want           []Class
		note           string
	}{
		{
			"between the lengths that are printed", window + "start: first use, capacity: 0, rate: 5, period: 30m, maxReserved: 5",
			window + "start: first use, capacity: 0, rate: 8, period: 50m, maxReserved: 8", []Class{Loosened, Tightened, StoredState}, "",
		},
		{
			"all numbers fall though a field rises", bucket + "rate: 10, period: 1m, capacity: 20, maxReserved: 10",
			bucket + "rate: 5, period: 1m, capacity: 5, maxReserved: 12", []Class{Tightened}, "",
		},
		{
			"a rise that another field takes back", bucket + "rate: 10, period: 1m, capacity: 20, maxReserved: 0",
			bucket + "rate: 20, period: 4m, capacity: 10, maxReserved: 0", []Class{Tightened}, "",
		},
		{
			"short and long", bucket + "rate: 10, period: 1m, capacity: 10, maxReserved: 0",
			bucket + "rate: 5, period: 1m, capacity: 11, maxReserved: 0", []Class{Loosened, Tightened},
			`^It is looser in spans of up to about 6s, and tighter in longer ones\.$`,
		},
		{
			"reservations that a lease exceeds", bucket + "rate: 10, period: 1m, maxReserved: 2, lease: {tokens: 5, for: 1m}",
			bucket + "rate: 10, period: 1m, maxReserved: 3, lease: {tokens: 5, for: 1m}", []Class{Loosened}, "",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := reviewed(t, test.old, test.new)
			assert.Equal(t, test.want, s.Classes())
			if test.note != "" {
				require.Equal(t, Rule, s.Notes[0].About)
				assert.Regexp(t, test.note, s.Notes[0].Text)
			}
		})
	}
}
