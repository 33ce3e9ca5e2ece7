package main

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ratelimitgen/ratelimitgen/gen/printable"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// gate decides whether an edit may pass.
type gate struct {
	// failOn are classes and ids of changes.
	failOn []string
	// allow are the approvals that flags give, and written those that the new file gives in comments.
	allow, written []string
}

func (g *gate) declare(flags *flag.FlagSet) {
	flags.Func("fail-on", "exit with 1 if there is a change in this `LIST` of classes and ids", func(list string) error {
		return g.failOnAll(strings.Split(list, ","))
	})
	flags.Func("allow", "let a `CHANGE` pass: ID:LIMIT=OLD->NEW, such as capacity-changed:sendMessage=20->40", func(text string) error {
		id, _, ok := strings.Cut(text, ":")
		switch {
		case !ok:
			return fmt.Errorf("must be ID:LIMIT=OLD->NEW, as -fail-on prints it")
		case !slices.Contains(changeIDs(), id):
			return fmt.Errorf("there is no change %q%s", id, suggestion("", id, changeIDs()))
		}
		g.allow = append(g.allow, text)
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

// directiveForm is the comment of a limits.yaml that approves a change.
var directiveForm = regexp.MustCompile(`(?m)(?:^|[ \t])#[ \t]*ratelimitgen:allow[ \t]+(.*?)[ \t\r]*$`)

const directive = "# ratelimitgen:allow "

// read takes the approvals that the new file gives.
func (g *gate) read(text []byte) {
	for _, match := range directiveForm.FindAllSubmatch(text, -1) {
		g.written = append(g.written, string(bytes.TrimSpace(match[1])))
	}
}

// approval is the text that lets the changes of one id pass for one limit. It has their values on both sides, so
// that it lets nothing pass later but the same edit.
func approval(s *review.Subject, f review.Finding) string {
	var values []string
	for _, c := range f.Changes {
		values = append(values, approved(c, c.Old)+"->"+approved(c, c.New))
	}
	return f.ID + ":" + s.Limit + "=" + strings.Join(values, ",")
}

// approved is a side of a change in an approval. Of a limit that was added or removed, it is its rate.
func approved(c spec.Change, side spec.Side) string {
	if c.Field == "" && (c.Old.Limit == nil || c.New.Limit == nil) && side.Limit != nil {
		return fmt.Sprintf("%d/%v", side.Limit.Policy.Rate, side.Limit.Policy.Period)
	}
	return short(side.Value)
}

// longestApproved is how many runes of a value an approval repeats.
const longestApproved = 60

// short returns a value for an approval: "none" if there is none, and a hash of one that is too long to repeat.
func short(value string) string {
	switch {
	case value == "":
		return "none"
	case utf8.RuneCountInString(value) > longestApproved:
		return fmt.Sprintf("sha256:%.8x", sha256.Sum256([]byte(value)))
	}
	return printable.Line(strings.Join(strings.Fields(value), " "))
}

// found returns the approvals of the changes of a limit that -fail-on finds.
func (g *gate) found(s *review.Subject) (list []string) {
	for _, f := range s.Findings {
		if g.meant(f) {
			list = append(list, approval(s, f))
		}
	}
	return list
}

// failing returns those of them that are not given.
func (g *gate) failing(s *review.Subject) []string {
	return slices.DeleteFunc(g.found(s), func(a string) bool {
		return slices.Contains(g.allow, a) || slices.Contains(g.written, a)
	})
}

// meant reports whether a finding is one to fail on.
func (g *gate) meant(f review.Finding) bool {
	return slices.ContainsFunc(g.failOn, func(word string) bool {
		return word == f.ID || slices.Contains(f.Classes, review.Class(word))
	})
}

// decide returns the answer no if there is anything that may not pass, or a flag that lets nothing pass, with the
// text that would.
func (g *gate) decide(r *review.Review) error {
	var failing, found []string
	for i := range r.Subjects {
		failing = append(failing, g.failing(&r.Subjects[i])...)
		found = append(found, g.found(&r.Subjects[i])...)
	}
	var lines []string
	for _, a := range g.allow {
		if !slices.Contains(found, a) {
			lines = append(lines, "-allow "+quoted(a)+" matches no change that -fail-on finds; leave it out")
		}
	}
	if len(failing) > 0 {
		lines = append(lines, g.remedy(failing, shown(r.New))...)
	}
	if len(lines) == 0 {
		return nil
	}
	return no{strings.Join(lines, "\n")}
}

// remedy says how to let changes pass.
func (g *gate) remedy(failing []string, file string) []string {
	lines := []string{fmt.Sprintf("-fail-on %s finds what is not approved. If it is meant, write into %s, beside the edit:", strings.Join(g.failOn, ","), file)}
	var flags []string
	for _, a := range failing {
		lines = append(lines, "  "+directive+a)
		flags = append(flags, "-allow "+quoted(a))
	}
	return append(lines, "or, if the file is gone or not to be edited, pass:", "  "+strings.Join(flags, " "))
}
