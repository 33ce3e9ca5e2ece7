package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"runtime/debug"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

func diffVerb() verb {
	return verb{
		name:  "diff",
		args:  "OLD [NEW]",
		about: "say what an edit of limits.yaml means",
		help: `OLD and NEW are files, or REF:PATH for a file in git, such as main:limits.yaml. PATH is relative to the
root of the repository, or to this directory if it begins with ./; nothing is fetched. NEW is the same path in
the working tree if it is left out.

It compares the values that hold, whether they are written or not, and says what each change means: in
words, in numbers for one key, and for the rows that are stored. A change is in one or more classes:

  loosened       lets more tokens through in some interval
  tightened      lets fewer tokens through in some interval
  stored-state   gives stored rows another meaning, or leaves them behind
  breaking       keeps callers from compiling, or from meaning what they meant
  added, removed, renamed (a guess)
  cosmetic       none of these

-fail-on takes classes and ids of changes, with commas between: loosened,breaking,shards-changed. The exit
code is then 1 if there is such a change. -allow lets one pass that was agreed on, such as
-allow capacity-changed:sendMessage; it can be given again. The exit code is 3 if OLD or NEW cannot be read,
or is not valid.
`,
		prepare: prepareDiff,
	}
}

// comparison is one call of diff.
type comparison struct {
	format, color choice
	gate          gate
}

func prepareDiff(flags *flag.FlagSet) action {
	var c comparison
	c.format.declare(flags, "format", "answer in this `FORM`: text, markdown (for a comment), json, or github (annotations in a workflow)",
		"text", "markdown", "json", "github")
	c.color.declareColor(flags)
	c.gate.declare(flags)
	return c.run
}

func (c *comparison) run(s streams, args []string) error {
	debug.SetGCPercent(400) // the program ends soon, so that most of what it would collect is not worth it
	if err := c.gate.accept(); err != nil {
		return err
	}
	old, new, err := sides(args)
	if err != nil {
		return err
	}
	r, err := c.review(s, old, new)
	if err != nil {
		return err
	}
	if err := c.write(s, r); err != nil {
		return err
	}
	return c.gate.decide(s.err, r)
}

// side is one of the files that are compared.
type side struct {
	// what it is called in messages: the old side.
	what string
	// name is that of the file.
	name string
	read func() ([]byte, error)
}

// sides returns the two files that the arguments name.
func sides(args []string) (old, new side, err error) {
	if len(args) < 1 || len(args) > 2 {
		return old, new, misusef("takes OLD, and NEW if it is not the same path in the working tree; not %d arguments", len(args))
	}
	if old, err = sideOf("the old side", args[0]); err != nil {
		return old, new, err
	}
	if len(args) == 2 {
		new, err = sideOf("the new side", args[1])
		return old, new, err
	}
	then, inGit := asRevision(args[0])
	if !inGit {
		return old, new, misusef("needs NEW too if OLD is a file; for a file in git, write REF:%s", shown(args[0]))
	}
	path, err := then.inWorkingTree()
	return old, fileSide("the new side", path), err
}

// sideOf returns what an argument names: a file, or REF:PATH for one in git.
func sideOf(what, arg string) (side, error) {
	if then, inGit := asRevision(arg); inGit {
		return side{what, then.String(), then.read}, then.accept()
	}
	return fileSide(what, arg), nil
}

func fileSide(what, path string) side {
	return side{what, nameOf(path), func() ([]byte, error) {
		text, err := readSome(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s does not exist", shown(path))
		}
		return text, err
	}}
}

// limits returns what the side says. What is wrong with it is printed.
func (f side) limits(w io.Writer, color bool) (*spec.File, error) {
	text, err := f.read()
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", f.what, err)
	}
	file, diagnostics := spec.Parse(f.name, text)
	if len(diagnostics) == 0 {
		return file, nil
	}
	if err := diagnostics.WriteText(w, color); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%s, %s, is not a valid limits.yaml", f.what, shown(f.name))
}

func (c *comparison) review(s streams, old, new side) (*review.Review, error) {
	color := c.color.color(s.err)
	before, noOld := old.limits(s.err, color)
	after, noNew := new.limits(s.err, color)
	if err := errors.Join(noOld, noNew); err != nil {
		return nil, err
	}
	return review.Of(before, after), nil
}

func (c *comparison) write(s streams, r *review.Review) error {
	switch c.format.value {
	case "markdown":
		return r.WriteMarkdown(s.out)
	case "json":
		return r.WriteJSON(s.json)
	case "github":
		return writeReview(s.data, r, &c.gate)
	}
	return r.WriteText(s.out, c.color.color(s.out))
}

// writeReview prints a review as the commands that GitHub Actions turns into annotations: one for each limit.
func writeReview(w io.Writer, r *review.Review, g *gate) error {
	file := r.New
	if then, inGit := asRevision(file); inGit {
		path, err := then.inWorkingTree()
		if err != nil {
			return err
		}
		file = path
	}
	for i := range r.Subjects {
		if _, err := fmt.Fprintln(w, reviewAnnotation(file, &r.Subjects[i], g)); err != nil {
			return err
		}
	}
	return nil
}

// reviewAnnotation stands at the limit's name in the new file, or at the top if the limit is gone.
func reviewAnnotation(file string, s *review.Subject, g *gate) string {
	level := "notice"
	for _, class := range s.Classes() {
		switch class {
		case review.Loosened, review.StoredState, review.Breaking, review.Removed:
			level = "warning"
		}
	}
	if len(g.failing(s)) > 0 {
		level = "error"
	}
	return fmt.Sprintf("::%s title=%s,file=%s,line=%d,col=%d::%s", level, escapedProperty("ratelimitgen "+s.Title()),
		escapedProperty(inWorkspace(file)), max(1, s.New.Line), max(1, s.New.Column), escaped(strings.Join(s.Lines(), "\n")))
}
