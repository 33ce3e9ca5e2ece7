package gen

import (
	"fmt"
	"go/format"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// manyLimits returns a file of n limits.
func manyLimits(n int) string {
	var text strings.Builder
	text.WriteString("version: 1\npackage: limits\nlimits:\n")
	for i := range n {
		fmt.Fprintf(&text, "  limit%d: {doc: bounds things., key: {userID: int64, team: string}, kind: token bucket, rate: %d, period: 1m}\n", i, i+1)
	}
	return text.String()
}

// BenchmarkGenerate compares generating 1,000 limits with formatting what comes out, which nobody can do
// without.
func BenchmarkGenerate(b *testing.B) {
	file, diagnostics := spec.Parse("limits.yaml", []byte(manyLimits(1000)))
	require.Empty(b, diagnostics)
	var generating, formatting time.Duration
	for b.Loop() {
		start := time.Now()
		code, err := Generate(file, Options{})
		generating += time.Since(start)
		require.NoError(b, err)

		start = time.Now()
		_, err = format.Source(code)
		formatting += time.Since(start)
		require.NoError(b, err)
	}
	b.ReportMetric(float64(generating)/float64(formatting), "times-gofmt")
}
