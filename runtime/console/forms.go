package console

import (
	"fmt"
	"net/http"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/operate"
)

// subject is what can be changed: a key, or a whole limit.
type subject struct {
	Limit runtime.CatalogLimit
	// ID is the encrypted key, and empty for the whole limit.
	ID      string
	InForce []entryInForce
	Log     []logged
	// Own means that something is in force for this subject, and not only for the whole limit of the key.
	Own, MayChange, Overrides, Calendar bool
	Plans                               []string
	Problem                             string
}

// subject is a limit, or with the encrypted key one of its keys.
func (c *console) subject(r *http.Request, l runtime.CatalogLimit, id string) subject {
	s := subject{Limit: l, ID: id, Overrides: l.Policies[0].Overridable()}
	_, s.MayChange = c.author(r)
	if len(l.Policies) > 1 {
		s.Plans = c.Catalog.Plans
	}
	return s
}

// form is one change of a subject.
type form struct {
	subject
	Verb   operate.Verb
	Legend string
}

// input is a field of a form. With Choices, one of them must be chosen.
type input struct {
	Name, Label, Example string
	Required             bool
	Choices              []choice
	// Time means that it is a time of day and a date.
	Time bool
}

type choice struct{ Value, Label string }

// The choices of an end that are no durations.
const (
	forGood   = "for-good"
	untilTime = "until"
)

// ends are the choices of when a block or an override ends. None of them is chosen for the operator.
var ends = []choice{{"", "choose"}, {"1h", "in an hour"}, {"24h", "in a day"}, {"168h", "in 7 days"}, {"720h", "in 30 days"},
	{untilTime, "at this time:"}, {forGood, "never, for good"}}

// end returns the end of a form: in how long, or when.
func end(of, until string) (time.Duration, time.Time, error) {
	switch of {
	case "":
		return 0, time.Time{}, nil
	case forGood:
		return 0, runtime.ForGood, nil
	case untilTime:
		// The field of a browser has no zone, and seconds only if they are not 0.
		t, err := time.Parse("2006-01-02T15:04", until)
		if err != nil {
			t, err = time.Parse("2006-01-02T15:04:05", until)
		}
		if err != nil {
			err = fmt.Errorf("the time must be as in 2027-01-31T06:30, not %q", until)
		}
		return 0, t, err
	}
	span, err := time.ParseDuration(of)
	if err != nil || span <= 0 {
		err = fmt.Errorf("choose when it ends: not %q", of)
	}
	return span, time.Time{}, err
}

// Forms are the changes that the subject allows.
func (s subject) Forms() (all []form) {
	if s.ID != "" {
		all = []form{{s, operate.Take, "Take tokens, available or not"}, {s, operate.Grant, "Give tokens back"}, {s, operate.Reset, "Make the key full"}}
	}
	if !s.Overrides {
		return all
	}
	legend := "Give other numbers"
	if len(s.Plans) > 0 {
		legend += " or another plan"
	}
	if s.Limit.Policies[0].Overrides.Unlimited {
		legend += ", or lift the limit"
	}
	all = append(all, form{s, operate.Block, "Deny all requests"}, form{s, operate.Override, legend})
	if s.Own {
		all = append(all, form{s, operate.Unblock, "End the block"}, form{s, operate.End, "End the override and the block"})
	}
	return all
}

// Inputs are the fields besides the reason.
func (f form) Inputs() (all []input) {
	bounds := f.Limit.Policies[0].Overrides
	most := map[string]int64{"rate": bounds.Rate, "capacity": bounds.Capacity, "max-reserved": bounds.MaxReserved}
	for _, name := range changes[f.Verb] {
		switch name {
		case "n":
			all = append(all, input{Name: name, Label: "tokens", Required: true})
		case "for":
			all = append(all, input{Name: name, Label: "ends", Choices: ends})
		case "until":
			all = append(all, input{Name: name, Label: "time (UTC)", Time: true})
		case "rate", "capacity", "max-reserved":
			switch n := most[name]; {
			case n >= runtime.Unbounded:
				all = append(all, input{Name: name, Label: name})
			case n > 0:
				all = append(all, input{Name: name, Label: fmt.Sprintf("%s, at most %d", name, n)})
			}
		case "zone":
			if f.Calendar {
				all = append(all, input{Name: name, Label: "time zone", Example: "Europe/Berlin"})
			}
		case "since":
			if f.Calendar {
				all = append(all, input{Name: name, Label: "anniversary", Example: "2024-05-31"})
			}
		}
	}
	return all
}

// PlanField is the field for the plan, or "" without plans.
func (f form) PlanField() string {
	switch {
	case len(f.Plans) == 0:
		return ""
	case f.Verb == operate.Take || f.Verb == operate.Grant:
		return "plan"
	case f.Verb == operate.Override:
		return "to-plan"
	}
	return ""
}

// MayLift reports whether an override can have a mode.
func (f form) MayLift() bool {
	return f.Verb == operate.Override && f.Limit.Policies[0].Overrides.Unlimited
}

// entryInForce is a block or an override in force, for thisKey or allKeys.
type entryInForce struct{ Limit, For, What string }

// logged is an entry of the log, for thisKey or allKeys.
type logged struct{ At, For, What, Author, Reason string }

// changes has the fields of the form of each change.
var changes = map[operate.Verb][]string{
	operate.Grant:    {"n", "plan", "zone", "since"},
	operate.Take:     {"n", "plan", "zone", "since"},
	operate.Reset:    {"zone", "since"},
	operate.Block:    {"for", "until"},
	operate.Unblock:  {},
	operate.Override: {"rate", "capacity", "max-reserved", "to-plan", "mode", "for", "until"},
	operate.End:      {},
}
