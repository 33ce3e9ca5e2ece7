package fields

import (
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

var holdField = limitField{
	name: "hold", requiredBy: kindNeeds("hold"), synonyms: []string{"ttl", "holdtime", "maxduration"},
	about:     "For a limit in flight: how long a slot is held after it was acquired or last renewed, unless it is released. Then its holder is presumed dead.",
	more:      "`Slot.Do` renews every third of it while its function runs, so that work may take longer. After a crash, a short hold frees the slot soon; a long one survives longer failures of the store.",
	accepts:   "a duration, as for `period`, or a map with one for each plan",
	absent:    "none; required for `in flight`",
	example:   "2m",
	schema:    orByPlan(durationSchema, false),
	read:      byPlan(durationReader(func(l *draft) *time.Duration { return &l.policy.Hold }), nil),
	change:    ids.HoldChanged,
	byPlan:    true,
	effective: func(l *spec.Limit) string { return unlessZero(l.Policy.Hold) },
	sentences: holdSentences,
}

// noHold refuses a hold for kinds that grant tokens.
var noHold = refusal{
	field: "hold", message: "only a limit in flight has a hold", why: ": tokens are used, and not given back",
	help: "leave hold out, or write kind: in flight, without rate and period",
}

// holdSentences describes when a slot is free again.
func holdSentences(l *spec.Limit) []string {
	if l.Policy.Hold == 0 {
		return nil
	}
	return []string{
		fmt.Sprintf("A slot is held until it is released, or for %s after it was acquired or last renewed: then its holder is presumed dead.", words.Duration(l.Policy.Hold)),
		"How many can start in a time has no bound, because a released slot is free at once.",
	}
}
