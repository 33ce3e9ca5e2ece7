package explain

import (
	"bytes"
	"io"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// IDs returns all words that can be explained beside fields: the ids of the rules that a file keeps to and of changes,
// the classes of changes, what notes of a review are about, and the levels of annotations.
func IDs() (ids []string) {
	for _, r := range spec.Rules() {
		ids = append(ids, r.ID)
	}
	for _, k := range spec.ChangeKinds() {
		ids = append(ids, k.ID)
	}
	for _, e := range effects {
		ids = append(ids, e.word)
	}
	return ids
}

// WriteID prints what one of the words of [IDs] means, with an example. It returns the error of w.
func WriteID(w io.Writer, id string, color bool) error {
	p := newPage(color)
	for _, r := range spec.Rules() {
		if r.ID == id {
			p.rule(r)
		}
	}
	for _, k := range spec.ChangeKinds() {
		if k.ID == id {
			p.change(k)
		}
	}
	for _, e := range effects {
		if e.word == id {
			p.effect(e)
		}
	}
	return p.writeTo(w)
}

// rule explains a rule by a file that breaks it and one that does not.
func (p *page) rule(r spec.Rule) {
	p.title("%s: an error that check finds", r.ID)
	p.say("rule", r.Summary)
	if r.Wrong == "" {
		p.say("example", "none, since such a file is too long to show.")
		return
	}
	p.show("wrong", r.Wrong)
	var said bytes.Buffer
	_, diagnostics := spec.Parse("limits.yaml", []byte(r.Wrong))
	diagnostics.WriteText(&said, false) // a buffer has no error
	p.show("check says", narrow(said.String()))
	p.show("right", r.Right)
}

// change explains a change by two files between which it is, and what it is if they change places.
func (p *page) change(k spec.ChangeKind) {
	p.title("%s: a change that diff finds", k.ID)
	p.say("change", k.Summary)
	old, new := example("main:limits.yaml", k.Old), example("limits.yaml", k.New)
	r := review.Of(old, new)
	is, back := classesOf(r, k.ID), classesOf(review.Of(new, old), k.ID)
	classes := "The one below is " + is
	if back != "" && back != is {
		classes += "; the other way round, it would be " + back
	}
	p.say("classes", classes+".")
	p.show("old", k.Old)
	p.show("new", k.New)
	for _, s := range r.Subjects {
		p.show("diff says", narrow(strings.Join(s.Lines(), "\n")))
	}
}

// example reads a file of [spec.ChangeKinds], all of which are valid.
func example(name, text string) *spec.File {
	file, diagnostics := spec.Parse(name, []byte(text))
	if len(diagnostics) > 0 {
		panic("explain: an example is not valid: " + diagnostics[0].Message)
	}
	return file
}

// classesOf lists the classes of the changes of an id; "" if there are none.
func classesOf(r *review.Review, id string) string {
	var words []string
	for _, s := range r.Subjects {
		for _, f := range s.Findings {
			for _, class := range f.Classes {
				if f.ID == id {
					words = append(words, string(class))
				}
			}
		}
	}
	return spec.List(words, "and")
}
