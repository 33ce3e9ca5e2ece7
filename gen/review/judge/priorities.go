package judge

import (
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// judgePriorities judges what each class of requests leaves: a class that leaves less takes more itself, at the expense of
// the others.
func judgePriorities(j *judgement) {
	for _, was := range j.Old.Priorities {
		if _, ok := priorityOf(j.New, was.Name); !ok && len(j.New.Priorities) > 0 {
			j.class(review.Breaking)
			j.note(review.Calls, "The priority %s is gone: calls of %s pass another one.", was.Name, j.New.GoName)
		}
	}
	switch before, now := len(j.Old.Priorities) > 0, len(j.New.Priorities) > 0; {
	case !now:
		j.class(review.Breaking)
		j.note(review.Calls, "Calls of %s no longer pass a priority.", j.New.GoName)
	case !before:
		j.class(review.Breaking)
		j.note(review.Calls, "Calls of %s must pass a %s.", j.New.GoName, j.New.PriorityType())
	}
	for _, is := range j.New.Priorities {
		was, ok := priorityOf(j.Old, is.Name)
		if !ok && is.Leaves == 0 || was.Leaves == is.Leaves && ok {
			continue
		}
		before, now := j.Old.Policy.Capacity, j.New.Alone(is).Capacity
		if ok {
			before = j.Old.Alone(was).Capacity
		}
		j.loosens(is.Leaves < was.Leaves)
		j.note(review.Rule, "Requests of the priority %s take at most %s at once, and leave %s to the others; before, they took at most %s.",
			is.Name, words.Number(now), words.Count(j.New.LeftBy(is), "token"), words.Number(before))
	}
}

func priorityOf(l *spec.Limit, name string) (spec.Priority, bool) {
	if i := slices.IndexFunc(l.Priorities, func(c spec.Priority) bool { return c.Name == name }); i >= 0 {
		return l.Priorities[i], true
	}
	return spec.Priority{}, false
}
