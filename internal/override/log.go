package override

import (
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// DefaultKeep is how long the log keeps entries that have ended or were replaced, unless the store has an option for
// it: a year.
const DefaultKeep = 365 * 24 * time.Hour

// class is whether an entry is about blocks or about overrides. Of each, the newest entry of a key is in force.
type class struct {
	key   limitKey
	block bool
}

// classesOf returns the classes of an entry.
func classesOf(e *runtime.OverrideEntry) (all []class) {
	key := limitKey{e.Limit, e.Key}
	block, override := e.Replaces()
	if block {
		all = append(all, class{key, true})
	}
	if override {
		all = append(all, class{key, false})
	}
	return all
}

// Obsolete returns the IDs of entries that a store may delete from its log, because they ended, or were replaced,
// before an instant. The log must have all entries in their order, up to the first one that was written since then.
// Nothing that is in force changes, for processes that read the log later, and for those that have read a part of it:
//
//   - The newest entry stays, so that its ID is not used again.
//   - The newest block of a key, and its newest override, stay as long as the log has older ones, which they have ended or
//     replaced. So they are deleted by the sweep after the one that has deleted those.
func Obsolete(log []runtime.OverrideEntry, before time.Time) (ids []int64) {
	type span struct{ first, last int }
	spans := map[class]span{}
	for i := range log {
		if !log[i].At.Before(before) {
			log = log[:i+1]
			break
		}
		for _, class := range classesOf(&log[i]) {
			of, ok := spans[class]
			if !ok {
				of.first = i
			}
			of.last = i
			spans[class] = of
		}
	}
	for i := range log[:max(0, len(log)-1)] {
		obsolete, needed := log[i].Until.Before(before), false
		for _, class := range classesOf(&log[i]) {
			of := spans[class]
			obsolete = obsolete || i < of.last
			needed = needed || i == of.last && of.first < i
		}
		if obsolete && !needed {
			ids = append(ids, log[i].ID)
		}
	}
	return ids
}
