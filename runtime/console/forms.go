package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/operate"
)

// subject is what can be changed: a key, a whole limit, or a key in all limits.
type subject struct {
	Limit runtime.CatalogLimit
	// ID is the encrypted key, and empty for the whole limit.
	ID string
	// Parts, for a key in all limits, are the fields of its parts.
	Parts []input
	// InForce are the blocks and overrides of the subject and of its whole limit, and Log their log.
	InForce, Log []runtime.OverrideEntry
	// Overridden are blocks and overrides of the keys of a whole limit: the blocks first, and of each the newest first. LeftOut
	// counts others.
	Overridden []runtime.OverrideEntry
	LeftOut    int64
	// Own means that something is in force for this subject, and not only for the whole limit of the key.
	Own, MayChange, Calendar bool
	// Penalty says what the penalty of the key does, or is "".
	Penalty string
	Plans   []string
	Problem string
}

// subject is a limit, or with the encrypted key one of its keys.
func (c *console) subject(r *http.Request, l runtime.CatalogLimit, id, key string) (s subject, err error) {
	s = subject{Limit: l, ID: id}
	_, s.MayChange = c.author(r)
	if len(l.Policies) > 1 {
		s.Plans = c.Catalog.Plans
	}
	inForce, err := c.program.InForce(r.Context(), l)
	if id == "" {
		s.Overridden, s.LeftOut = ofKeys(inForce)
	}
	s.InForce = slices.DeleteFunc(inForce, func(e runtime.OverrideEntry) bool { return e.Key != "" && e.Key != key })
	s.Own = slices.ContainsFunc(s.InForce, func(e runtime.OverrideEntry) bool { return e.Key == key })
	history, failed := c.program.History(r.Context(), l.Name, key)
	s.Log = history
	return s, cmp.Or(err, failed)
}

// ofKeys returns the entries of keys, the blocks first and of each the newest first, and how many are left out.
func ofKeys(inForce []runtime.OverrideEntry) (first []runtime.OverrideEntry, others int64) {
	var overrides []runtime.OverrideEntry
	for _, e := range slices.Backward(inForce) {
		switch {
		case e.Key == "":
		case e.What == runtime.OverrideBlock:
			first = append(first, e)
		default:
			overrides = append(overrides, e)
		}
	}
	first = append(first, overrides...)
	others = max(0, int64(len(first)-maxEntries))
	return first[:len(first)-int(others)], others
}

// everywhere is a key in all limits.
func (c *console) everywhere(r *http.Request) (s subject) {
	for _, l := range c.Catalog.Limits {
		for _, k := range l.Key {
			if part := (input{Name: partPrefix + k.Name, Label: k.Name}); !slices.ContainsFunc(s.Parts, func(o input) bool { return o.Name == part.Name }) {
				s.Parts = append(s.Parts, part)
			}
		}
	}
	_, ok := c.author(r)
	s.MayChange = ok && s.Parts != nil
	return s
}

// partPrefix begins the names of the fields of a key's parts.
const partPrefix = "part."

// Whole reports whether the subject is a whole limit.
func (s subject) Whole() bool { return s.ID == "" && s.Parts == nil }

// form is one change of a subject.
type form struct {
	subject
	Verb   operate.Verb
	Legend string
	// Inputs are the fields besides the reason.
	Inputs []input
}

// input is a field of a form: a text, a number, or one of the Choices.
type input struct {
	Name, Label, Example string
	Required             bool
	Choices              []choice
	// Time means that it is a time of day and a date.
	Time bool
}

type choice struct{ Value, Label string }

// asItIs is the choice of no change.
var asItIs = choice{"", "as it is"}

// The choices of an end that are no durations.
const (
	forGood   = "for-good"
	untilTime = "until"
)

// ends are the fields of when a block or an override ends. None of the choices is chosen for the operator.
var ends = []input{
	{Name: "for", Label: "ends", Required: true, Choices: []choice{{"", "choose"}, {"1h", "in an hour"}, {"24h", "in a day"},
		{"168h", "in 7 days"}, {"720h", "in 30 days"}, {untilTime, "at this time:"}, {forGood, "never, for good"}}},
	{Name: "until", Label: "time (UTC)", Time: true},
}

// end returns the end of a form: in how long, or when.
func end(of, until string) (time.Duration, time.Time, error) {
	switch of {
	case "":
		return 0, time.Time{}, nil
	case forGood:
		return 0, runtime.ForGood(), nil
	case untilTime:
		// The field of a browser has no zone, and seconds only if they are not 0.
		for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05"} {
			if t, err := time.Parse(layout, until); err == nil {
				return 0, t, nil
			}
		}
		return 0, time.Time{}, fmt.Errorf("the time must be as in 2027-01-31T06:30, not %q", until)
	}
	span, err := time.ParseDuration(of)
	if err != nil || span <= 0 {
		err = fmt.Errorf("choose when it ends: not %q", of)
	}
	return span, time.Time{}, err
}

// Forms are the changes that the subject allows.
func (s subject) Forms() (all []form) {
	add := func(verb operate.Verb, legend string, inputs ...[]input) {
		all = append(all, form{s, verb, legend, slices.Concat(inputs...)})
	}
	switch {
	case s.Parts != nil:
		add(operate.Block, "Deny all requests of a key in all limits", s.Parts, ends)
		add(operate.Unblock, "End the blocks and penalties of a key in all limits", s.Parts)
		add(operate.Erase, "Delete the counts of a key in all limits, also of keys with further parts, and replace it in the log", s.Parts)
		return all
	case s.ID != "":
		if s.inFlight() {
			add(operate.Reset, "Free all slots: their holders lose them")
		} else {
			tokens := []input{{Name: "n", Label: "tokens", Required: true}}
			add(operate.Take, "Take tokens, available or not", tokens, s.ofCallers(), s.calendar(), s.plan("plan"))
			add(operate.Grant, "Give tokens back", tokens, s.ofCallers(), s.calendar(), s.plan("plan"))
			add(operate.Reset, "Make the key full", s.calendar())
		}
		if len(s.Limit.Key) > 0 {
			add(operate.Erase, "Delete the count, and replace the key in the log")
		}
	}
	if !s.Limit.Policies[0].Overridable() {
		return all
	}
	legend := "Give other numbers"
	if len(s.Plans) > 0 {
		legend += " or another plan"
	}
	var mode []input
	if s.Limit.Policies[0].Overrides.Unlimited {
		legend += ", or lift the limit"
		mode = []input{{Name: "mode", Label: "mode", Choices: []choice{asItIs, {"unlimited", "unlimited"}, {"off", "off"},
			{"shadow", "shadow"}}}}
	}
	add(operate.Block, "Deny all requests", ends)
	add(operate.Override, legend, s.numbers(), ends, s.plan("to-plan", asItIs), mode)
	if s.Own || s.Penalty != "" {
		add(operate.Unblock, "End the block and the penalty")
	}
	if s.Own {
		add(operate.End, "End the override and the block")
	}
	return all
}

// inFlight reports whether the limit counts slots. All plans of a limit are of one kind.
func (s subject) inFlight() bool { return s.Limit.Policies[0].Kind == runtime.InFlight }

// calendar are the fields for what the windows of the key depend on.
func (s subject) calendar() []input {
	if !s.Calendar {
		return nil
	}
	return []input{{Name: "zone", Label: "time zone", Example: "Europe/Berlin"},
		{Name: "since", Label: "anniversary", Example: "2024-05-31"}}
}

// plan is the field for a plan, if the limit depends on it.
func (s subject) plan(name string, choices ...choice) []input {
	if len(s.Plans) == 0 {
		return nil
	}
	for _, plan := range s.Plans {
		choices = append(choices, choice{plan, plan})
	}
	return []input{{Name: name, Label: "plan", Choices: choices}}
}

// numbers are the fields for the numbers that an override can give.
func (s subject) numbers() []input {
	most := s.Limit.Policies[0].Overrides
	return s.atMost("", runtime.Numbers{Rate: most.Rate, Capacity: most.Capacity, MaxReserved: most.MaxReserved,
		Slots: most.Slots})
}

// ofCallers are the fields for the numbers of the key, if callers give some of the limit.
func (s subject) ofCallers() []input { return s.atMost(" of the key", s.Limit.Policies[0].AtMost) }

// atMost are the fields for numbers that are at most those given, with the names of limits.yaml: slots are a capacity.
func (s subject) atMost(of string, most runtime.Numbers) (all []input) {
	for _, n := range []struct {
		name string
		most int64
	}{{"rate", most.Rate}, {"capacity", most.Full()}, {"max-reserved", most.MaxReserved}} {
		switch {
		case n.most >= runtime.Unbounded:
			all = append(all, input{Name: n.name, Label: n.name + of})
		case n.most > 0:
			all = append(all, input{Name: n.name, Label: fmt.Sprintf("%s%s, at most %d", n.name, of, n.most)})
		}
	}
	return all
}
