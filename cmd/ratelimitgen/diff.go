package main

import (
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/review"
)

func diffVerb() verb {
	return verb{
		name:  "diff",
		args:  "OLD [NEW]",
		about: "say what an edit of limits.yaml means",
		help: `OLD and NEW are files, or REF:PATH for a file in git, such as main:limits.yaml. PATH is relative to the
root of the repository, or to this directory if it begins with ./; nothing is fetched. NEW is the same path in
the working tree if it is left out.

A file that is not in OLD is compared with the one that it was moved from: among those that are gone, the one
with most of the same limits. Without one, all limits are new. So it is with a file that is not in NEW, and then
all limits are removed. A sentence says so; it takes that OLD and NEW have the same path.

It compares the values that hold, whether they are written or not, and says what each change means: in
words, in numbers for one key, and for the rows that are stored. A change is in one or more classes:

  loosened       lets more tokens through in some interval
  tightened      lets fewer tokens through in some interval
  stored-state   gives stored rows another meaning, or leaves them behind
  breaking       keeps callers from compiling, or from meaning what they meant
  added, removed, renamed (a guess)
  cosmetic       none of these

-fail-on takes classes and ids of changes, with commas between: loosened,breaking,shards-changed. The exit
code is then 1 if there is such a change that nobody has approved. An approval is a comment in NEW, beside the
edit, with the values before and after, as -fail-on prints it:

  # ratelimitgen:allow capacity-changed:sendMessage=20->40

It lets nothing else pass, so it may stay. -allow gives an approval by a flag, for a file that is gone; it can
be given again, and one that matches no change is an error: exit code 1. The exit code is 3 if OLD or NEW cannot
be read, or is not valid.
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
	r, text, err := c.review(s, old, new)
	if err != nil {
		return err
	}
	c.gate.read(text)
	if err := c.write(s, r); err != nil {
		return err
	}
	return c.gate.decide(r)
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
	if r.Remark != "" {
		fmt.Fprintf(w, "::notice title=ratelimitgen diff,file=%s,line=1,col=1::%s\n", escapedProperty(inWorkspace(file)), escaped(r.Remark))
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
