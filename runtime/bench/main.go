// Command bench compares the stores of this module with other rate limiters, and with the least that the same writes to a
// database can cost, in one run on one machine.
//
// It prints Markdown tables. README.md describes how it measures, and has those of a run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	only := flag.String("only", "", "measure only what a regular `expression` matches: names in the tables, such as 'Postgres|rueidis'")
	one := flag.String("section", "", "measure only this `section`: "+sectionNames())
	turns := flag.Int("turns", usualTurns, "how many `turns` each figure is the median of")
	update := flag.Bool("update", false,
		"write the tables into README.md of the working directory too, and what follows from them into CAPACITY.md")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends the program at once.
	context.AfterFunc(ctx, stop)
	p, err := planOf(*only, *one, *turns)
	if err == nil && *update && *only != "" {
		err = errors.New("-update needs whole tables: leave out -only")
	}
	if err == nil {
		if *update {
			p.readme = "README.md"
		}
		err = run(ctx, p, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// section is a part of the benchmark that can be measured alone.
type section struct {
	name    string
	measure func(r *report, ctx context.Context, s *site, p plan) error
	// text returns its tables.
	text func(r *report, p plan) string
}

// sections are in the order in which they are measured and printed.
var sections = []section{
	{"contenders", (*report).measureContenders, func(r *report, p plan) string {
		text := r.Machine + "\n" + r.contenderTable(p.loads) + "\n" + r.againstTable(p.loads)
		return text + "\n" + r.spread(func(name string) bool { _, ok := find(name); return ok })
	}},
	{"calls", (*report).measureCalls, func(r *report, _ plan) string { return r.callTable() }},
	{"arrivals", (*report).measureArrivals, func(r *report, _ plan) string { return r.arrivalTable() }},
	{"sweeps", (*report).measureSweeps, func(r *report, _ plan) string { return r.sweepTable() }},
}

func sectionNames() string {
	var names []string
	for _, s := range sections {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

// plan is a list of measurements.
type plan struct {
	sections []section
	// loads are those of the contenders. The names are the contenders to measure.
	loads []heat
	// turns is how many rounds each contender runs in a heat, and pace the length of a round.
	turns int
	pace  pace
	// sweepRows is how many rows a sweep finds.
	sweepRows int
	// only matches the names of what is measured.
	only *regexp.Regexp
	// readme is the file into which the tables are written, or "".
	readme string
}

const usualTurns = 9

// loads are those of the contenders.
func loads() []heat {
	return []heat{{callers: 64, keys: 1000}, {callers: 1, keys: 1000}, {callers: 512, keys: 10_000}, {callers: 512, keys: 1}}
}

// planOf returns the plan for flags. The error is about one that cannot be read.
func planOf(only, one string, turns int) (p plan, err error) {
	p = plan{
		sections: sections, loads: loads(), turns: turns, sweepRows: 200_000,
		pace: pace{leadIn: 30 * time.Millisecond, length: 150 * time.Millisecond},
	}
	if p.only, err = regexp.Compile(only); err != nil {
		return p, fmt.Errorf("-only: %w", err)
	}
	if turns < 1 {
		return p, fmt.Errorf("-turns: %d is less than 1", turns)
	}
	if one != "" {
		i := slices.IndexFunc(sections, func(s section) bool { return s.name == one })
		if i < 0 {
			return p, fmt.Errorf("-section: %q is none of %s", one, sectionNames())
		}
		p.sections = sections[i : i+1]
	}
	for i, h := range p.loads {
		for _, c := range contenders {
			if p.only.MatchString(c.name) && (c.most == 0 || h.callers <= c.most) {
				p.loads[i].names = append(p.loads[i].names, c.name)
			}
		}
	}
	return p, nil
}

// maxKeys returns the largest number of keys of a load.
func (p plan) maxKeys() (most int) {
	for _, h := range p.loads {
		most = max(most, h.keys)
	}
	return most
}

// run measures, and prints the results. When ctx ends it stops after the current round, and drops its tables.
func run(ctx context.Context, p plan, out io.Writer) error {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := &site{servers: serversFromEnv(), dir: dir, rows: p.maxKeys()}
	r := newReport()
	if p.only.MatchString(rueidisSafe) {
		stop, err := s.startRedis()
		if err != nil {
			r.skip(rueidisSafe, err)
		} else {
			defer stop()
		}
	}
	r.Machine = s.describe(ctx)
	if err := r.measure(ctx, s, p); err != nil {
		return err
	}
	return r.print(p, out)
}

// measure measures the sections of the plan.
func (r *report) measure(ctx context.Context, s *site, p plan) error {
	for _, one := range p.sections {
		if err := one.measure(r, ctx, s, p); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// measureContenders measures all contenders under all loads.
func (r *report) measureContenders(ctx context.Context, s *site, p plan) error {
	var names []string
	for _, h := range p.loads {
		names = append(names, h.names...)
	}
	open := r.openAll(ctx, s, names)
	defer open.close()
	for _, h := range p.loads {
		r.race(ctx, h, open, p)
	}
	return ctx.Err()
}

// print writes the tables of the sections to out, and into the readme.
func (r *report) print(p plan, out io.Writer) error {
	var document string
	if p.readme != "" {
		text, err := os.ReadFile(p.readme)
		if err != nil {
			return err
		}
		document = string(text)
	}
	for _, s := range p.sections {
		text := s.text(r, p)
		if _, err := fmt.Fprintf(out, "%s\n", text); err != nil {
			return err
		}
		if p.readme != "" {
			var err error
			if document, err = replaceSection(document, s.name, text); err != nil {
				return fmt.Errorf("%s: %w", p.readme, err)
			}
		}
	}
	if _, err := io.WriteString(out, r.notRun()); err != nil || p.readme == "" {
		return err
	}
	if err := os.WriteFile(p.readme, []byte(document), 0o666); err != nil {
		return err
	}
	return updateCapacity(document)
}

// logf prints a line of progress with the time.
func logf(format string, args ...any) {
	// Standard output has nothing but the tables.
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", slices.Insert(args, 0, any(time.Now().Format(time.TimeOnly)))...)
}
