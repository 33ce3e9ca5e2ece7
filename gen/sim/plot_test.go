package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
)

// However long the trace is, a timeline has few bins, and each column counts exactly the decisions in its time.
func TestTimelineCountsEachColumnExactly(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		span := time.Duration(1) << random.IntN(62)
		ats := make([]int64, 1+random.IntN(200))
		for i := range ats {
			ats[i] = random.Int64N(int64(span)) + int64(500*words.Day)
		}
		slices.Sort(ats)
		var line timeline
		want := map[int64]bin{}
		axisOf := func() axis { return newAxis(ats[0], ats[len(ats)-1], line.width()) }
		answers := make([]Outcome, len(ats))
		for i, at := range ats {
			answers[i] = Outcome(random.IntN(int(Outcomes)))
			line.add(at, answers[i])
		}
		require.LessOrEqual(t, len(line.bins), maxBins)
		a := axisOf()
		require.LessOrEqual(t, a.columns(), int64(maxColumns))
		for i, at := range ats {
			column := at/int64(a.width) - a.first/int64(a.width)
			b := want[column]
			b[answers[i]]++
			want[column] = b
		}
		for i, got := range line.columns(a.first, a.last, int64(a.width)) {
			require.Equal(t, want[int64(i)], got, "column %d of %v", i, a)
		}
	}
}

func TestBinWidthsDivideEachOtherAndAreColumnWidths(t *testing.T) {
	for i, width := range binWidths[1:] {
		assert.Zero(t, width%binWidths[i], width)
		assert.Contains(t, columnWidths, width)
	}
	longest := int64(trace.LastInstant.Sub(trace.FirstInstant))
	assert.LessOrEqual(t, longest/int64(columnWidths[len(columnWidths)-1]), int64(maxColumns), "a trace can be longer than the widest columns")
}

func TestBarsShowEvenOneRequest(t *testing.T) {
	assert.Equal(t, []string{" ▁▁▄█"}, bars([]int64{0, 1, 100, 500, 1000}, 1000, 1))
	assert.Equal(t, []string{"    █", "   ▁█", " ▁▁██"}, bars([]int64{0, 1, 40, 360, 1000}, 1000, 3))
}

func TestAxisLabelsAreRoundTimes(t *testing.T) {
	at := func(text string) int64 {
		v, err := time.Parse(time.DateTime, text)
		require.NoError(t, err)
		return v.UnixNano()
	}
	for _, test := range []struct{ first, last, width, want string }{
		{"2030-01-01 00:00:00", "2030-01-01 00:00:00", "1ms", "00:00:00.000"},
		{"2030-01-01 10:00:00", "2030-01-01 10:09:59", "10s", "10:00:00    10:02:00    10:04:00    10:06:00    10:08:00"},
		{"2030-01-01 10:00:55", "2030-01-01 10:59:59", "1m0s", "10:00     10:10     10:20     10:30     10:40     10:50"},
		{"2030-01-01 23:07:00", "2030-01-02 02:00:00", "5m0s", "           01-02 00:00             01-02 02:00"},
		{"2030-01-01 00:00:00", "2030-02-20 00:00:00", "24h0m0s", "     2030-01-06          2030-01-26          2030-02-15"},
	} {
		a := newAxis(at(test.first), at(test.last), 1)
		assert.Equal(t, test.width, a.width.String())
		assert.Equal(t, test.want, a.labels())
	}
}
