package spec

import (
	"fmt"
	"math"
)

// WorstCase returns, in a sentence, how many tokens can be used in the most unlucky period, see [Within]:
// "Worst case: 30 in any minute." Where callers may reserve, that holds for reservations of one token each,
// counted when they are due; many tokens that fall due at once can exceed it, and so can what is given back of a
// lease after others have reserved.
func (l *Limit) WorstCase() string {
	worst := fmt.Sprintf("Worst case: %s in any %s", countInWords(Within(&l.Policy, l.Policy.Period)), periodInWords(l.Policy.Period))
	if l.Policy.Reserves() {
		worst += "; a large reservation can add to it when it is due"
		if l.Policy.Lease.Tokens > 0 {
			worst += ", and what a lease gives back too"
		}
	}
	return worst + "."
}

// countInWords says how many tokens there are.
func countInWords(n int64) string {
	if n == math.MaxInt64 {
		return "more than can be counted"
	}
	return grouped(n)
}
