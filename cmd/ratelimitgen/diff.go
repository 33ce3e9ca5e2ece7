package main

import (
	"errors"
	"flag"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/render"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
)

func diffCommand() command {
	return command{
		name:    "diff",
		args:    "OLD [NEW]",
		summary: "explain the effects of an edit of limits.yaml",
		help: `OLD and NEW are files, or REF:PATH for a file in git, such as main:limits.yaml. PATH is relative to
the root of the repository, or to the current directory if it begins with ./; nothing is fetched.
NEW defaults to the same path in the working tree. main:./... is every limits.yaml of the module in
and below the current directory, and those that code was generated from: each that has changed is
explained, and with -format json each is a document.

If OLD does not exist, NEW is compared with the file it was moved from: the deleted file that has
most of its limits. Without such a file, all limits are new. If NEW does not exist, OLD is likewise
compared with the file it was moved to, and without one all limits are removed. The output says so.
This requires that OLD and NEW are the same path.

The comparison is between effective values, including defaults. Each change is explained in words,
in numbers for one key, and by its effect on the stored rows. It is in one or more classes:

  loosened       allows more tokens in some interval
  tightened      allows fewer tokens in some interval
  stored-state   changes the meaning of stored rows, or abandons them
  breaking       callers no longer compile, or compile with another meaning
  added, removed, renamed (detected by similarity)
  cosmetic       none of these

With -format markdown, -link-base makes each name a link to its line. In a workflow on GitHub:

  ratelimitgen diff -format markdown -link-base "$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/blob/$GITHUB_SHA" ...

-fail-on takes classes and ids of changes, separated by commas: loosened,breaking,shards-changed.
The exit code is 1 if there is such a change without an approval. An approval is a comment in NEW,
beside the edit, with the values before and after. -fail-on prints it:

  # ratelimitgen:allow capacity-changed:sendMessage=20->40

It does not approve any later edit, so it may stay. -allow is an approval as a flag, for a deleted
file; it can be repeated, and it is an error (exit code 1) if it matches no change. The exit code is
3 if OLD or NEW cannot be read or is not valid.
`,
		prepare: prepareDiff,
	}
}

// diffArgs are the flags of diff.
type diffArgs struct {
	linkBase, against string
	format            formatChoice[*review.Review]
	color             choice
	gate              gate
}

func prepareDiff(flags *flag.FlagSet) action {
	var a diffArgs
	a.format.declare(flags, reviewFormats)
	declareAgainst(flags, &a.against)
	flags.StringVar(&a.linkBase, "link-base", "", "in markdown, link limits to their lines in the files below this `URL`")
	a.color.declareColor(flags)
	a.gate.declare(flags)
	return a.run
}

func (a *diffArgs) run(s streams, args []string) error {
	if err := a.gate.validate(); err != nil {
		return err
	}
	if base, err := url.Parse(a.linkBase); a.linkBase != "" && (err != nil || base.Scheme != "https" && base.Scheme != "http" || strings.ContainsAny(a.linkBase, " ()<>")) {
		return usagef("-link-base must be a URL such as https://github.com/OWNER/REPO/blob/COMMIT")
	}
	if a.against != "" {
		args = append([]string{a.against}, args...)
	}
	if err := standardInputOnce(args...); err != nil {
		return err
	}
	old, new, below, err := treesOf(args)
	if err != nil {
		return err
	}
	if below {
		return a.runBelow(s, args, old, new)
	}
	of, err := a.review(s, args)
	if err != nil {
		return err
	}
	// The review is printed whether or not the gate lets it pass.
	if err := a.write(s, []reviewed{of}); err != nil {
		return err
	}
	return a.gate.result()
}

// reviewed is a review of two files.
type reviewed struct {
	*review.Review
	old, new side
	// approvals are those in the comments of the new file.
	approvals approvals
}

// review compares the files for the arguments of diff, and has the gate judge the review.
func (a *diffArgs) review(s streams, args []string) (of reviewed, err error) {
	if of.old, of.new, err = sides(args); err != nil {
		return of, err
	}
	var text []byte
	if of.Review, text, err = reviewSides(s, a.color.color(s.err), of.old, of.new); err != nil {
		return of, err
	}
	of.approvals = slices.Concat(a.gate.allow, approvalsIn(text))
	a.gate.judge(of.Review, of.approvals)
	return of, nil
}

// write prints reviews, with the names of the files as their reader has them. As Markdown, they share the room of one
// comment.
func (a *diffArgs) write(s streams, all []reviewed) error {
	forPeople := a.format.chosen.name == "text" || a.format.chosen.name == "markdown"
	for i, of := range all {
		if i > 0 && forPeople {
			fmt.Fprintln(s.out)
		}
		named, o := *of.Review, render.Options{Color: a.color.color(s.out), Sharing: len(all)}
		o.Level = func(s *review.Subject) string { return a.gate.level(s, of.approvals) }
		switch a.format.chosen.name {
		case "markdown": // a comment is read far from the current directory
			named.Old, named.New = of.old.inRepository(of.Old), of.new.inRepository(of.New)
			if a.linkBase != "" {
				o.LinkBase = linkTo(a.linkBase, named.New)
			}
		case "github": // annotations are shown on files of the working tree only
			if then, inGit := parseRevision(of.New); inGit {
				path, err := then.inWorkingTree()
				if err != nil {
					return err
				}
				named.New = path
			}
		}
		if err := a.format.write(s, &named, o); err != nil {
			return err
		}
	}
	if len(all) == 0 && forPeople {
		fmt.Fprintln(s.out, "No limit has changed.")
	}
	return nil
}

// linkTo returns the address of a file below a base such as https://github.com/OWNER/REPO/blob/COMMIT.
func linkTo(base, file string) string {
	if then, inGit := parseRevision(file); inGit {
		file = then.path
	}
	file = path.Clean(file)
	parts := strings.Split(file, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return strings.TrimSuffix(base, "/") + "/" + strings.Join(parts, "/")
}

// runBelow compares all files of two trees, in the order of their paths, and prints the reviews of those that have changed.
// With one argument, the new tree is the same directory of the working tree.
func (a *diffArgs) runBelow(s streams, args []string, old, new tree) error {
	if len(args) == 1 {
		dir, err := revision{old.in.ref, old.path + "."}.inWorkingTree()
		if err != nil {
			return err
		}
		new = tree{}
		if dir != "." {
			new.path = slash(dir) + "/"
		}
	}
	before, _, err := old.files()
	after, modules, failed := new.files()
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	// The modules are those of the new tree, so that the files of one that was deleted are found from the directory above it.
	isModule := func(dir string) bool { return modules[dir] }
	if new.in == nil {
		isModule = func(dir string) bool { return isRegular(filepath.FromSlash(new.path + dir + "/go.mod")) }
	}
	before, after = ofModule(before, isModule), ofModule(after, isModule)
	slices.Sort(after)
	slices.Sort(before)
	// Those that no longer exist come last, because a new one may be one of them that was moved.
	files := slices.Compact(after)
	for _, file := range before {
		if !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		return fmt.Errorf("%s has no file named %s", shown(args[0]), defaultFile)
	}
	var reviews []reviewed
	var errs []error
	moved := map[string]bool{}
	for _, file := range files {
		if moved[inCommit(old.argument(file))] {
			continue
		}
		sides := []string{old.argument(file), new.argument(file)}
		of, err := a.review(s, sides[:len(args)])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		moved[inCommit(of.Old)] = true
		if len(of.Subjects) > 0 {
			reviews = append(reviews, of)
		}
	}
	if len(reviews) > 0 || len(errs) == 0 {
		errs = append(errs, a.write(s, reviews))
	}
	return errors.Join(append(errs, a.gate.result())...)
}
