package fields

import (
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var jitterField = lengthOf(func(p *runtime.Policy) *time.Duration { return &p.Jitter }, limitField{
	name: "jitter", synonyms: []string{"spread", "randomization"},
	about:     "The most by which clients are told to retry later than their tokens are due, so that they do not all come back at once. `Wait` and the delays of reservations use it too.",
	more:      "It spreads the keys of a limit: callers of one key that wait for the same token get the same delay.",
	absent:    "that of `defaults`, or none",
	example:   "10s",
	suits:     (*draft).limits,
	change:    ids.JitterChanged,
	sentences: jitterSentences,
})

func jitterSentences(l *spec.Limit) []string {
	if l.Policy.Jitter == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Clients are told to retry up to %s later than necessary, so that they do not all come back at once.", words.Duration(l.Policy.Jitter))}
}
