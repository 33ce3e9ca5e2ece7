package spec

import (
	"fmt"
	"math"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// WorstCase returns, in a sentence, how many tokens can be used in the most unlucky period, see [Within]:
// "Worst case: 30 in any minute." If reservations have no bound, the number is for callers who do not reserve.
func (l *Limit) WorstCase() string {
	p := &l.Policy
	worst := func(p *runtime.Policy) string {
		return fmt.Sprintf("Worst case: %s in any %s", countInWords(Within(p, p.Period)), words.Period(p.Period))
	}
	switch {
	case p.MaxReserved == runtime.Unbounded && p.Capacity == 0:
		return "Worst case: reservations have no bound."
	case p.MaxReserved == runtime.Unbounded:
		return worst(Unreserved(p)) + " without reservations, which have no bound."
	case p.Reserves():
		return worst(p) + ", with reserved tokens counted when their delay has passed."
	}
	return worst(p) + "."
}

// countInWords says how many tokens there are.
func countInWords(n int64) string {
	if n == math.MaxInt64 {
		return "more than can be counted"
	}
	return words.Number(n)
}
