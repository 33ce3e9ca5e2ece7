package fields

import (
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var timeoutField = lengthOf(func(p *runtime.Policy) *time.Duration { return &p.Timeout }, limitField{
	name: "timeout", synonyms: []string{"deadline"},
	about:   "How long a decision may take, at most 10s. After that the store is treated as failed, though it may have taken the tokens.",
	absent:  "that of `defaults`, or 10s",
	example: "250ms",
	change:  ids.TimeoutChanged,
})
