package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/printable"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// gate decides whether an edit may pass.
type gate struct {
	// failOn are classes and ids of changes.
	failOn []string
	allow  []allowance
}

// allowance lets the changes of one id pass for one limit.
type allowance struct{ id, limit string }

func (a allowance) String() string { return a.id + ":" + a.limit }

func (g *gate) declare(flags *flag.FlagSet) {
	flags.Func("fail-on", "exit with 1 if there is a change in this `LIST` of classes and ids", func(list string) error {
		return g.failOnAll(strings.Split(list, ","))
	})
	flags.Func("allow", "let the change `ID:LIMIT` pass, such as capacity-changed:sendMessage", func(text string) error {
		id, limit, ok := strings.Cut(text, ":")
		switch {
		case !ok:
			return fmt.Errorf("must be ID:LIMIT")
		case !slices.Contains(changeIDs(), id):
			return fmt.Errorf("there is no change %q%s", id, suggestion("", id, changeIDs()))
		}
		g.allow = append(g.allow, allowance{id, limit})
		return nil
	})
}

func (g *gate) failOnAll(words []string) error {
	known := changeIDs()
	for _, class := range review.Classes() {
		known = append(known, string(class))
	}
	for _, word := range words {
		word = strings.TrimSpace(word)
		if !slices.Contains(known, word) {
			return fmt.Errorf("there is no class or change %q%s", word, suggestion("", word, known))
		}
		g.failOn = append(g.failOn, word)
	}
	return nil
}

func changeIDs() (ids []string) {
	for _, kind := range spec.ChangeKinds() {
		ids = append(ids, kind.ID)
	}
	return ids
}

// accept says what does not go together.
func (g *gate) accept() error {
	if len(g.allow) > 0 && len(g.failOn) == 0 {
		return misusef("-allow lets nothing pass without -fail-on")
	}
	return nil
}

// failing returns the changes of a limit that may not pass.
func (g *gate) failing(s *review.Subject) (list []allowance) {
	for _, f := range s.Findings {
		this := allowance{f.ID, s.Limit}
		if g.meant(f) && !slices.Contains(g.allow, this) {
			list = append(list, this)
		}
	}
	return list
}

// meant reports whether a finding is one to fail on.
func (g *gate) meant(f review.Finding) bool {
	return slices.ContainsFunc(g.failOn, func(word string) bool {
		return word == f.ID || slices.Contains(f.Classes, review.Class(word))
	})
}

// decide returns the answer no with all that may not pass. It tells which allowances are of no use.
func (g *gate) decide(w io.Writer, r *review.Review) error {
	var failing, found []allowance
	for i := range r.Subjects {
		failing = append(failing, g.failing(&r.Subjects[i])...)
		for _, f := range r.Subjects[i].Findings {
			found = append(found, allowance{f.ID, r.Subjects[i].Limit})
		}
	}
	for _, a := range g.allow {
		if !slices.Contains(found, a) {
			fmt.Fprintf(w, "ratelimitgen diff: -allow %s matches no change\n", printable.Line(a.String()))
		}
	}
	if len(failing) == 0 {
		return nil
	}
	var lines strings.Builder
	fmt.Fprintf(&lines, "-fail-on %s finds what is not allowed; to let it pass:", strings.Join(g.failOn, ","))
	for _, a := range failing {
		fmt.Fprintf(&lines, "\n  -allow %s", a)
	}
	return no{lines.String()}
}
