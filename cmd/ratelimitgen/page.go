package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ratelimitgen/ratelimitgen/gen/draw"
	"github.com/ratelimitgen/ratelimitgen/gen/page"
	"github.com/ratelimitgen/ratelimitgen/gen/sim"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
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

-trace draws requests of a trace in place of a standard story: of each limit, the key that was limited
most often, without its name, in the part of the trace in which it was limited most. A trace is as
for ratelimitgen simulate. The exit code is 1 if a line cannot be replayed; this removes such lines:

  ratelimitgen simulate -trace FILE -keep-going -format jsonl > replayed.jsonl

-svg also writes the drawings of each limit into a directory, as files for a README: NAME-tokens.svg
and NAME-envelope.svg, with the name of the plan before the last part if there are plans.

The exit code is 1 if LIMITS is not valid, and 3 if OLD cannot be read or is not valid.
`,
		prepare: preparePage,
	}
}

// pageArgs are the flags and arguments of page.
type pageArgs struct {
	limits, against, trace, output, svg string
	color                               choice
}

func preparePage(flags *flag.FlagSet) action {
	var a pageArgs
	flags.StringVar(&a.output, "o", "limits.html", "write the page to `FILE`, - for standard output (default limits.html)")
	declareAgainst(flags, &a.against)
	flags.StringVar(&a.trace, "trace", "", "draw the requests in `FILE`, - for standard input")
	flags.StringVar(&a.svg, "svg", "", "also write the drawings as SVG files into the directory `DIR`")
	a.color.declareColor(flags)
	return a.run
}

func (a *pageArgs) run(s streams, args []string) (err error) {
	if a.limits, err = oneFile(args, "a page is of one package"); err != nil {
		return err
	}
	if a.output == "" {
		return usagef("-o needs a file name, or - for standard output")
	}
	if err := standardInputOnce(a.limits, a.against, a.trace); err != nil {
		return err
	}
	p, err := a.page(s)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := p.Write(&text); err != nil {
		return err
	}
	if err := a.write(s, text.Bytes()); err != nil {
		return err
	}
	if err := a.writeSVG(p); err != nil || a.output == standardOutput {
		return err
	}
	_, err = fmt.Fprintf(s.out, "Wrote %s. Open it in a browser.\n", shown(a.output))
	return err
}

// write writes the page. It overwrites only an earlier page.
func (a *pageArgs) write(s streams, text []byte) error {
	if a.output == standardOutput {
		_, err := s.data.Write(text)
		return err
	}
	was, err := readOutput(a.output)
	if err != nil {
		return err
	}
	if was.exists && len(was.text) > 0 && !page.Is(was.text) {
		return fmt.Errorf("%s exists, and is not a page of ratelimitgen: remove it, or name another file with -o", shown(a.output))
	}
	return replaceFile(a.output, text)
}

// page reads the files, and a trace, that the page shows.
func (a *pageArgs) page(s streams) (*page.Page, error) {
	file, err := readValid(s, a.limits, &a.color)
	if err != nil {
		return nil, err
	}
	p := &page.Page{File: file.File}
	if a.against != "" {
		if p.Old, p.Remark, err = readOld(s, a.against, a.limits, file.File, &a.color); err != nil {
			return nil, err
		}
	}
	if a.trace != "" {
		if p.Recording, err = a.record(s, p); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// record replays the trace.
func (a *pageArgs) record(s streams, p *page.Page) (*page.Recording, error) {
	open, err := a.opener()
	if err != nil {
		return nil, err
	}
	faults := &faults{trace: traceName(a.trace), limits: sim.NewComparison(p.Old, p.File).Names()}
	return page.Record(p.File, p.Old, func() (*trace.Reader, func() error, error) {
		text, err := open()
		if err != nil {
			return nil, nil, err
		}
		return trace.NewReader(s.progress.watch(text)), text.Close, nil
	}, faults.add)
}

// opener returns a function that opens the trace. Standard input can be read once only, so it is kept in memory.
func (a *pageArgs) opener() (func() (io.ReadCloser, error), error) {
	if a.trace == standardInput {
		text, err := io.ReadAll(os.Stdin)
		return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }, err
	}
	return func() (io.ReadCloser, error) { return openTrace(a.trace) }, nil
}

// writeSVG writes the drawings. It replaces no files but earlier drawings, and follows no link: a directory can hold the
// files of others. Without an error, it has written all.
func (a *pageArgs) writeSVG(p *page.Page) error {
	if a.svg == "" {
		return nil
	}
	pictures := p.Pictures()
	files := make([]string, len(pictures))
	for i, picture := range pictures {
		files[i] = filepath.Join(a.svg, picture.Name+".svg")
		was, err := readOutput(files[i])
		switch {
		case err != nil:
			return err
		case was.path != files[i]:
			return fmt.Errorf("%s is a link: remove it, or name another directory with -svg", shown(files[i]))
		case was.exists && !draw.IsFile(was.text):
			return fmt.Errorf("%s exists, and is not a drawing of ratelimitgen: remove it, or name another directory with -svg",
				shown(files[i]))
		}
	}
	for i, picture := range pictures {
		if err := replaceFile(files[i], picture.SVG); err != nil {
			return fmt.Errorf("cannot write a drawing: %w", err)
		}
	}
	return nil
}
