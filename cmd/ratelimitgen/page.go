package main

import (
	"bytes"
	"flag"
	"fmt"
	"path/filepath"

	"github.com/ratelimitgen/ratelimitgen/gen/page"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

func pageCommand() command {
	return command{
		name:    "page",
		args:    "[LIMITS]",
		summary: "write an HTML page with drawings and a playground of every limit",
		help: `LIMITS defaults to limits.yaml. The page is one file that loads nothing and works without a server.
It shows for each limit the rule in words and numbers, the tokens of a key over time with the
requests that are allowed, denied or delayed, the most in any interval, and a playground. Every
drawing has its data in a table.

-against compares with an earlier version, and draws the old version against the new one:

  ratelimitgen page -against origin/main:limits.yaml -o limits.html

-svg also writes the drawings of each limit into a directory, as files for a README: NAME-tokens.svg
and NAME-envelope.svg, with the name of the plan before the last part if there are plans.

The exit code is 1 if LIMITS is not valid, and 3 if OLD cannot be read or is not valid.
`,
		prepare: preparePage,
	}
}

// pageArgs are the flags and arguments of page.
type pageArgs struct {
	limits, against, output, svg string
	color                        choice
}

func preparePage(flags *flag.FlagSet) action {
	var a pageArgs
	flags.StringVar(&a.output, "o", "limits.html", "write the page to `FILE`, - for standard output")
	flags.StringVar(&a.against, "against", "", "compare with `OLD`, the earlier limits.yaml, or REF:PATH in git")
	flags.StringVar(&a.svg, "svg", "", "also write the drawings as SVG files into the directory `DIR`")
	a.color.declareColor(flags)
	return a.run
}

func (a *pageArgs) run(s streams, args []string) error {
	a.limits = defaultFile
	switch {
	case len(args) > 1:
		return usagef("takes one file of limits, not %d", len(args))
	case len(args) == 1:
		a.limits = args[0]
	}
	if a.output == "" {
		return usagef("-o needs a file name, or - for standard output")
	}
	p, err := a.page(s)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := p.Write(&text); err != nil {
		return err
	}
	if err := a.writeSVG(p); err != nil {
		return err
	}
	if a.output == standardInput {
		_, err := s.data.Write(text.Bytes())
		return err
	}
	return replaceFile(a.output, text.Bytes())
}

// page reads what the page is about.
func (a *pageArgs) page(s streams) (*page.Page, error) {
	file, diagnostics, err := readLimits(a.limits)
	switch {
	case err != nil:
		return nil, err
	case len(diagnostics) > 0:
		if err := diagnostics.WriteText(s.err, a.color.color(s.err)); err != nil {
			return nil, err
		}
		return nil, checkFailed{}
	}
	p := &page.Page{File: file}
	if a.against != "" {
		if p.Old, err = a.readOld(s); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// readOld reads the file of -against, which may be in git.
func (a *pageArgs) readOld(s streams) (*spec.File, error) {
	old, err := newSide("OLD", a.against)
	if err != nil {
		return nil, err
	}
	file, err := old.limits(s.err, a.color.color(s.err))
	if err != nil {
		return nil, err
	}
	return file.File, nil
}

func (a *pageArgs) writeSVG(p *page.Page) error {
	if a.svg == "" {
		return nil
	}
	for _, picture := range p.Pictures() {
		if err := replaceFile(filepath.Join(a.svg, picture.Name+".svg"), picture.SVG); err != nil {
			return fmt.Errorf("cannot write a drawing: %w", err)
		}
	}
	return nil
}
