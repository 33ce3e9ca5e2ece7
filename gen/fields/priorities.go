package fields

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var prioritiesField = limitField{
	name: "priorities", synonyms: []string{"priority", "classes", "headroom"},
	about:   "Classes of requests that share one count. A class with 30% cannot take the last 30% of the capacity. The method takes the class as its last parameter.",
	accepts: "a map of names with percentages from `0%` to `99%`, of which one is `0%`; not with a `lease` or a `penalty`, for `in flight` or with `precise`",
	absent:  "all requests are alike",
	example: "{interactive: 0%, batch: 30%}",
	schema: object{
		"type": "object", "minProperties": 1, "maxProperties": maxPriorities, "propertyNames": object{"pattern": priorityForm.String(), "maxLength": longestPlan},
		"additionalProperties": object{"type": "string", "pattern": shareForm.String()},
	},
	read:   (*parser).readPriorities,
	check:  (*parser).checkPriorities,
	change: ids.PrioritiesChanged,
	effective: func(l *spec.Limit) string {
		if len(l.Priorities) == 0 {
			return ""
		}
		return "{" + strings.Join(words.Of(l.Priorities, func(c spec.Priority) string { return fmt.Sprintf("%s: %d%%", c.Name, c.Leaves) }), ", ") + "}"
	},
	sentences: prioritiesSentences,
}

const (
	maxPriorities  = 20
	prioritiesHelp = "write priorities: {interactive: 0%, batch: 30%}"
)

var (
	priorityForm = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)
	shareForm    = regexp.MustCompile(`^([0-9]|[1-9][0-9])%$`)
)

// readPriorities reads the classes. [parser.finishPriorities] completes them when the numbers are known.
func (p *parser) readPriorities(l *draft, e document.Entry) bool {
	entries, ok := p.doc.Entries(e.Value, e.At, e.Name, prioritiesHelp)
	if !ok {
		return false
	}
	before := len(p.doc.Found)
	switch n := len(entries); {
	case n == 0:
		p.doc.Report(e.At, ids.BadPriorities, "leave it out, or "+prioritiesHelp, "priorities must not be empty")
	case n > maxPriorities:
		p.doc.Report(e.At, ids.BadPriorities, "", "a limit has at most %d priorities, not %d", maxPriorities, n)
	}
	for _, class := range entries {
		if leaves, ok := p.readPriority(class); ok && !class.Again {
			l.limit.Priorities = append(l.limit.Priorities,
				spec.Priority{Priority: runtime.Priority{Name: class.Name, Leaves: leaves}, Pos: class.Named.Pos})
		}
	}
	all := func(c spec.Priority) bool { return c.Leaves == 0 }
	if len(p.doc.Found) == before && !slices.ContainsFunc(l.limit.Priorities, all) {
		p.doc.Report(e.At, ids.BadPriorities, "give one of them 0%, or the limit a smaller capacity",
			"no class may take all tokens, so some of the capacity is never used")
	}
	return len(p.doc.Found) == before
}

// readPriority returns what a class leaves.
func (p *parser) readPriority(class document.Entry) (leaves int, ok bool) {
	text := class.Value.Value
	switch {
	case !priorityForm.MatchString(class.Name), len(class.Name) > longestPlan:
		p.doc.Report(class.Named, ids.BadPriorities, "begin with a small letter, and use letters and digits, at most "+
			strconv.Itoa(longestPlan),
			"the name of a class must be like that of a limit, not %s", diag.Quote(class.Name))
		return 0, false
	case class.Value.Kind == yaml.ScalarNode && shareForm.MatchString(text):
		leaves, _ = strconv.Atoi(strings.TrimSuffix(text, "%"))
		return leaves, true
	}
	p.doc.Report(class.At, ids.BadPriorities, "", "%s must be a percentage from 0%% to 99%%, not %s", class.Name,
		document.Describe(class.Value))
	p.doc.Offer(meantPercent(class.Value, shareForm))
	return 0, false
}

// checkPriorities reports classes of a limit that cannot have any.
func (p *parser) checkPriorities(l *draft) {
	classes, ok := l.given["priorities"]
	if !ok {
		return
	}
	refuse := func(field, why string) {
		p.doc.Report(classes.At, ids.BadPriorities, "leave priorities out", "%s", why)
		if because, ok := l.given[field]; ok {
			p.doc.Note(because.At, field+" is given here")
		}
	}
	switch policy := &l.policy; {
	case policy.Kind == runtime.InFlight:
		refuse("kind", "a limit in flight has no priorities: slots that one class leaves are not free for another before they are released")
	case policy.Precise:
		refuse("precise", "a precise sliding window has no priorities")
	case l.gives("lease"):
		refuse("lease", "a limit with a lease has no priorities: a block that one class takes would be spent by another")
	case l.gives("penalty"):
		refuse("penalty", "a limit with a penalty has no priorities: a class that must leave tokens to others has done nothing wrong")
	case l.gives("capacity") && policy.Capacity == 0 && policy.AtMost.Capacity == 0 && l.byPlan["capacity"].values == nil:
		refuse("capacity", "a limit with capacity 0 has no priorities: there is nothing to leave")
	}
}

// finishPriorities names the classes of a limit that is complete otherwise, and reports one that would have no tokens.
func (p *parser) finishPriorities(l *draft, limit *spec.Limit) {
	e := l.given["priorities"]
	for i := range limit.Priorities {
		class := &limit.Priorities[i]
		class.GoName = limit.GoName + spec.GoName(class.Name)
		for _, of := range limit.Each() {
			if of.Numberless() || of.CountsOnly() {
				continue
			}
			if alone, shards := of.Alone(*class), int64(max(1, of.Policy.Shards)); alone.Capacity < shards {
				p.doc.Report(p.doc.Part(e, class.Name).At, ids.BadPriorities, "use a smaller percentage",
					"%s leaves %d%% of the capacity %s, and has %s itself, which is less than %s", class.Name, class.Leaves, words.Number(of.Policy.Capacity),
					words.Number(alone.Capacity), words.Number(shards))
				break
			}
		}
	}
	for _, plan := range limit.Plans {
		plan.Priorities = limit.Priorities
	}
}

// claimPriorities claims the Go names of the classes of a limit and of their type.
func (p *parser) claimPriorities(e document.Entry, l *spec.Limit) {
	name := diag.Quote(e.Name)
	switch own := "ErrInvalidPriority"; {
	case len(l.Priorities) == 0:
		return
	case l.PriorityType() == own:
		p.doc.Report(e.Named, ids.SameGoName, "choose another name with goName:",
			"an error of the generated code and the priorities of %s both have the Go name %s", name, own)
	default:
		p.claim(owner{what: "the priorities of " + name, at: e.Named}, "name "+l.PriorityType())
	}
	for _, class := range l.Priorities {
		p.claim(owner{what: "the priority " + diag.Quote(class.Name) + " of " + name, at: e.Named}, "name "+class.GoName)
	}
}

func prioritiesSentences(l *spec.Limit) (sentences []string) {
	for _, class := range l.Priorities {
		if left := l.LeftBy(class); class.Leaves > 0 && !l.CountsOnly() {
			sentences = append(sentences, fmt.Sprintf("Requests of the priority %s leave %s (%d%%) of the capacity to the others: they take at most %s at once.",
				class.Name, words.Count(left, "token"), class.Leaves, words.Number(l.Policy.Capacity-left)))
		}
	}
	return sentences
}
