package model

import (
	"math"
	"math/big"
	"slices"
)

// give gives tokens back as of the last request, and those before them that are forgotten by now because a window has
// ended.
func (q request) give(now int64, t terms, tokens *big.Rat) {
	last := q.k.history[len(q.k.history)-1]
	missing := q.k.history.missing(last.now, last.by, false)
	if most := atMost(missing, t); t.windows.kind != bucket && q.k.history.windowEnd(last.now, last.by) <= now {
		tokens.Add(tokens, new(big.Rat).Sub(missing, most))
	}
	q.k.history = append(q.k.history, &event{now: last.now, tokens: tokens.Neg(tokens), used: new(big.Rat), by: last.by,
		hidden: last.hidden})
}

// learn makes the history of a key one that leaves a number of tokens, as far as settlements are in doubt. A number
// between the tokens missing if nothing was given back, and if only the used ones had been taken, is right.
func (q request) learn(now int64, t terms, value float64) {
	var doubted []*event
	hidden := false
	for _, e := range slices.Backward(q.k.history) {
		if hidden = hidden || e.hidden; e.other != nil && len(doubted) < 8 {
			doubted = append(doubted, e)
		}
	}
	missing := float64(t.full()) - value
	fit(doubted, func() bool { return math.Abs(missing-float(q.missing(now, t))) <= q.close(now, t) })
	was, ideal := float(q.missing(now, t)), float(q.k.history.missing(now, t, true))
	if hidden && missing < was-noise(t, q.missing(now, t)) && missing >= ideal-q.close(now, t) {
		q.give(now, t, new(big.Rat).SetFloat64(was-missing))
	}
}
