package review

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// BenchmarkReview compares all that diff does with two files of 1,000 limits, each of which has changed, with
// reading the files, which nobody can do without.
func BenchmarkReview(b *testing.B) {
	before, after := []byte(manyLimits(1000, "period: 1m")), []byte(manyLimits(1000, "period: 2m, capacity: 7, doc: x"))
	var reading, reviewing time.Duration
	for b.Loop() {
		start := time.Now()
		old, wrong := spec.Parse("old.yaml", before)
		new, alsoWrong := spec.Parse("new.yaml", after)
		reading += time.Since(start)
		require.Empty(b, append(wrong, alsoWrong...))

		start = time.Now()
		require.NoError(b, Of(old, new).WriteText(io.Discard, false))
		reviewing += time.Since(start)
	}
	b.ReportMetric(float64(reviewing)/float64(reading), "times-reading")
}
