package spec

import (
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// WorstCase returns, in a sentence, how many tokens can be used in the most unlucky period:
// "Worst case: 30 in any minute." Where callers may reserve, that holds for reservations of one token each,
// counted when they are due; many tokens that fall due at once can exceed it.
func (l *Limit) WorstCase() string {
	worst := fmt.Sprintf("Worst case: %s in any %s", grouped(l.worst()), periodInWords(l.Policy.Period))
	if l.Policy.Reserves() {
		worst += "; a large reservation can add to it when it is due"
	}
	return worst + "."
}

// worst returns the most tokens used within one period, its first and last instant included. A reserved
// token is used when it is due, and reservations are of one token each.
//
// Token bucket: what had piled up, and what accrues. With nothing piled up, the period can begin when a
// reserved token is due.
//
// Fixed window: a period holds the starts of two windows at most. Each grants rate tokens, of which no more
// can be used than fit below capacity, or into the debt before it; at the first one there may be more piled
// up. Windows that begin at first use can also leave nearly two periods between their starts: one token
// opens a window, the others go at its end, and the next window follows with all that accrued since it began.
//
// Sliding window: all of the rate at the very end of a window weighs next to nothing at the end of the next.
func (l *Limit) worst() int64 {
	p := &l.Policy
	switch p.Kind {
	case runtime.SlidingWindow:
		return 2 * p.Rate
	case runtime.TokenBucket:
		return max(p.Capacity, 1) + p.Rate
	}
	granted := min(p.Rate, p.Capacity+p.MaxReserved)
	worst := max(p.Capacity, granted) + granted
	if p.Start.FirstUse() {
		worst = max(worst, p.Capacity-1+min(p.Capacity+p.MaxReserved, 2*p.Rate-1))
	}
	return worst
}
