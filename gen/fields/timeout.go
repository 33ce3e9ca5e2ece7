package fields

import (
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var timeoutField = lengthOf(func(p *runtime.Policy) *time.Duration { return &p.Timeout }, limitField{
	name: "timeout", synonyms: []string{"deadline"},
	about:   "How long a decision may take. After that the store is treated as failed, though it may have taken the tokens.",
	more:    "Set about a second for requests that users wait for: without a timeout, a call waits up to 10s for a database that does not respond.",
	absent:  "that of `defaults`, or none",
	example: "250ms",
	change:  ids.TimeoutChanged,
})
