package main

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/diff"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// gate decides whether diff exits with 1. A change that -fail-on matches needs an approval, by the flag -allow or by a
// comment in the new file.
type gate struct {
	// failOn are classes and ids of changes.
	failOn []string
	// allow are the approvals in flags.
	allow approvals
	// needed are those that the reviewed changes need, and lines the problems that were found.
	needed approvals
	lines  []string
}

// approvals are texts that approve changes.
type approvals []string

func (g *gate) declare(flags *flag.FlagSet) {
	flags.Func("fail-on", "exit with 1 if a change matches this `LIST` of classes and ids", func(list string) error {
		return g.addFailOn(strings.Split(list, ","))
	})
	flags.Func("allow", "approve a `CHANGE`: ID:LIMIT=OLD->NEW, such as capacity-changed:sendMessage=20->40", func(text string) error {
		id, _, ok := strings.Cut(text, ":")
		switch {
		case !ok:
			return errors.New("must be ID:LIMIT=OLD->NEW, as -fail-on prints it")
		case !slices.Contains(ids.OfChanges(), id):
			return fmt.Errorf("unknown id of a change %q%s", id, suggestion("", id, ids.OfChanges()))
		}
		g.allow = append(g.allow, text)
		return nil
	})
}

func (g *gate) addFailOn(words []string) error {
	classes := review.ClassNames(review.Classes())
	known := append(ids.OfChanges(), classes...)
	for _, word := range words {
		word = strings.TrimSpace(word)
		if !slices.Contains(known, word) {
			meant := cmp.Or(suggestion("", word, known), "; the classes are "+strings.Join(classes, ", "))
			return fmt.Errorf("unknown class or id of a change %q%s", word, meant)
		}
		g.failOn = append(g.failOn, word)
	}
	return nil
}

func (g *gate) validate() error {
	if len(g.allow) > 0 && len(g.failOn) == 0 {
		return usagef("-allow has no effect without -fail-on")
	}
	return nil
}

// directiveForm matches the text of a comment in a limits.yaml that approves a change, or that has an approval after another
// comment.
var directiveForm = regexp.MustCompile(`(?:^|[ \t]#)[ \t]*ratelimitgen:allow[ \t]+(.*?)[ \t]*$`)

const directive = "# ratelimitgen:allow "

// approvalsIn returns the approvals in the comments of a file.
func approvalsIn(text []byte) (written approvals) {
	for _, comment := range document.Comments(text) {
		if match := directiveForm.FindStringSubmatch(comment); match != nil {
			written = append(written, match[1])
		}
	}
	return written
}

// approval is the text that approves the changes of one id to one limit. It contains their values on both sides, so that
// it approves no later edit except the same one.
func approval(s *review.Subject, f review.Finding) string {
	var values []string
	for _, c := range f.Changes {
		plan := ""
		if c.Plan != "" {
			plan = c.Plan + " "
		}
		values = append(values, plan+approvedValue(c.Change, c.Old)+"->"+approvedValue(c.Change, c.New))
	}
	return f.Kind.ID + ":" + s.Limit + s.Group + "=" + strings.Join(values, ",")
}

// approvedValue is one side of a change in an approval.
func approvedValue(c diff.Change, side diff.Side) string {
	whole := c.Field == "" && side.Pos != (diag.Pos{})
	switch {
	case c.Field == "" && side.Group != nil:
		// Another group with the name has another approval.
		return abbreviated(strings.Join(side.Group.Words(), " "))
	case whole && c.New.Pos == (diag.Pos{}):
		return rates(side.Limit, c.Plan)
	case whole && c.Old.Pos == (diag.Pos{}):
		// All that an added limit or plan decides by, so that the approval is for this one only.
		return rates(side.Limit, c.Plan) + " " + hash(strings.Join(diff.InForce(side.Limit, c.Plan), "\n"))
	}
	return abbreviated(side.Value)
}

// rates returns the rates of a limit that was added or removed, or of one of its plans.
func rates(l *spec.Limit, plan string) string {
	var rates []string
	for _, of := range l.Each() {
		switch {
		case plan != "" && of.Plan != plan:
		case of.UnlimitedRate:
			rates = append(rates, "unlimited")
		case of.CountsOnly():
			rates = append(rates, "unlimited and counted")
		case of.Zero():
			rates = append(rates, "0")
		default:
			rates = append(rates, fmt.Sprintf("%d/%v", max(of.Policy.Rate, of.Policy.Slots), max(of.Policy.Period, of.Policy.Hold)))
		}
	}
	return abbreviated(strings.Join(rates, " "))
}

func hash(text string) string { return fmt.Sprintf("sha256:%.8x", sha256.Sum256([]byte(text))) }

// maxApprovedRunes is the length of the longest value that an approval repeats.
const maxApprovedRunes = 60

// abbreviated returns a value for an approval: "none" for an empty one, and a hash instead of a long one.
func abbreviated(value string) string {
	switch {
	case value == "":
		return "none"
	case utf8.RuneCountInString(value) > maxApprovedRunes:
		return hash(value)
	}
	// A doc has several lines, and an approval is a comment on one.
	return printable.Line(strings.Join(strings.Fields(value), " "))
}

// neededBy returns the approvals that the changes of a limit need.
func (g *gate) neededBy(s *review.Subject) (list approvals) {
	for _, f := range s.Findings {
		if g.matches(f) {
			list = append(list, approval(s, f))
		}
	}
	return list
}

// failing returns the needed approvals that are missing.
func (g *gate) failing(s *review.Subject, given approvals) approvals {
	return slices.DeleteFunc(g.neededBy(s), func(a string) bool { return slices.Contains(given, a) })
}

// level returns how prominently the changes of a limit are shown.
func (g *gate) level(s *review.Subject, given approvals) string {
	risky := []review.Class{review.Loosened, review.StoredState, review.Breaking, review.Removed}
	switch {
	case len(g.failing(s, given)) > 0:
		return "error"
	case slices.ContainsFunc(s.Classes(), func(c review.Class) bool { return slices.Contains(risky, c) }):
		return "warning"
	}
	return "notice"
}

// matches reports whether -fail-on matches a finding.
func (g *gate) matches(f review.Finding) bool {
	return slices.ContainsFunc(g.failOn, func(word string) bool {
		return word == f.Kind.ID || slices.Contains(f.Classes(), review.Class(word))
	})
}

// judge notes the approvals that a review lacks.
func (g *gate) judge(r *review.Review, given approvals) {
	var failing approvals
	for i := range r.Subjects {
		failing = append(failing, g.failing(&r.Subjects[i], given)...)
		g.needed = append(g.needed, g.neededBy(&r.Subjects[i])...)
	}
	if len(failing) > 0 {
		g.lines = append(g.lines, g.remedy(failing, shown(r.New))...)
	}
}

// result returns a [checkFailed] error if an approval is missing, or if a flag approves nothing.
func (g *gate) result() error {
	var lines []string
	for _, a := range g.allow {
		// Approvals in comments may stay after the edit is merged; a flag in a CI script would stay unnoticed.
		if !slices.Contains(g.needed, a) {
			lines = append(lines, "-allow "+quoted(a)+" matches no change that -fail-on matches; remove it")
		}
	}
	if lines = append(lines, g.lines...); len(lines) == 0 {
		return nil
	}
	return checkFailed{strings.Join(lines, "\n")}
}

// remedy returns the lines that explain how to approve changes.
func (g *gate) remedy(failing approvals, file string) []string {
	lines := []string{fmt.Sprintf("-fail-on %s matches changes that are not approved. To approve them, add to %s, beside the edit:", strings.Join(g.failOn, ","), file)}
	var flags []string
	for _, a := range failing {
		lines = append(lines, "  "+directive+a)
		flags = append(flags, "-allow "+quoted(a))
	}
	return append(lines, "or, if the file was deleted or must not be edited, pass:", "  "+strings.Join(flags, " "))
}
