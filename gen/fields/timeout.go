package fields

import (
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var timeoutField = lengthOf(func(p *runtime.Policy) *time.Duration { return &p.Timeout }, limitField{
	name: "timeout", synonyms: []string{"deadline"},
	about:   "How long a decision may take. After that the store is treated as failed, though it may have taken the tokens.",
	absent:  "that of `defaults`, or as long as the call's context allows",
	example: "250ms",
	change:  ids.TimeoutChanged,
})
