package fields

import (
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var denyCacheField = lengthOf(func(p *runtime.Policy) *time.Duration { return &p.DenyCache }, limitField{
	name: "denyCache", synonyms: []string{"cache", "ephemeralcache", "denylist", "inmemoryblockduration"},
	about:     "The longest time that a process repeats a denial from its memory. It may overlook for as long that another process gave tokens back.",
	absent:    "that of `defaults`, or denials are not cached",
	example:   "1s",
	suits:     func(l *draft) bool { return l.hasCapacity() && l.limits() },
	check:     (*parser).checkDenyCache,
	change:    ids.DenyCacheChanged,
	sentences: denyCacheSentences,
})

// checkDenyCache reports a cache of a limit without requests whose denials are cached.
func (p *parser) checkDenyCache(l *draft) {
	capacity, ok := l.given["capacity"]
	if cache, given := l.given["denyCache"]; ok && given && l.policy.Kind != runtime.InFlight && l.policy.Capacity == 0 {
		p.doc.Report(cache.At, ids.NothingCached, "leave denyCache out",
			"denyCache has no effect with capacity 0: every request reserves, and denied reservations are not cached")
		p.doc.Note(capacity.At, "capacity is given here")
	}
}

func denyCacheSentences(l *spec.Limit) []string {
	// The cache has no effect in shadow mode, which denies nothing.
	if l.Policy.DenyCache == 0 || l.Policy.Mode == runtime.ModeShadow {
		return nil
	}
	return []string{fmt.Sprintf("A process repeats a denial from its memory for at most %s.",
		words.Duration(l.Policy.DenyCache))}
}
