// Command bench compares the stores of this module with other rate limiters, and with a bare write to the same database, in
// one run on one machine.
//
// It prints Markdown tables: the ratios that have an aim, the figures of each contender, and the costs of a statement.
// README.md describes how it measures, and the columns.
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
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	// A second Ctrl-C ends the program at once.
	context.AfterFunc(ctx, stop)
	var err error
	if os.Getenv(asMember) != "" {
		err = runMember(os.Stdin, os.Stdout)
	} else {
		err = run(ctx, parseFlags(), os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the flags of the program.
type options struct {
	quick, all, costs         bool
	only, loads, json, readme string
	rows                      int
}

func parseFlags() (o options) {
	flag.BoolVar(&o.quick, "quick", false, "measure only the ratios, in some five minutes")
	flag.BoolVar(&o.all, "all", false, "measure every number of callers with every number of keys")
	flag.BoolVar(&o.costs, "costs", false, "measure only the fixed costs of a statement, and those of each row")
	flag.StringVar(&o.only, "only", "", "measure only what a regular `expression` matches: names in the table of contenders, such as 'Postgres|redis'")
	flag.StringVar(&o.loads, "loads", "", "measure only these `loads`, as callers x keys: 4x1000,64x1")
	flag.StringVar(&o.json, "json", "", "also write the results to this `file`, as JSON")
	flag.StringVar(&o.readme, "readme", "", "also write the tables to this `file`, between its lines <!-- tables --> and <!-- /tables -->")
	flag.IntVar(&o.rows, "rows", 0, "also compare a table of this many rows, such as 10000000, with one of 1,000")
	flag.Parse()
	return o
}

// plan is a list of measurements.
type plan struct {
	heats []heat
	// turns is how many rounds each contender runs in a heat, and pace the length of a round.
	turns int
	pace  pace
	// idleKeys is how many keys are used once to measure the memory that they leave.
	idleKeys int
	// sweepRows is how many rows a sweep finds.
	sweepRows int
	// only matches the names of what is measured. It may be nil.
	only *regexp.Regexp
	// onlyRaces leaves out all but the heats, and isPart means that some aims are left out.
	onlyRaces, isPart bool
	// bigTable is how many rows the table has that is compared with one of 1,000. 0 leaves the comparison out.
	bigTable int
}

// planOf returns the plan for flags. The error is that of an expression or a load that cannot be read.
func planOf(o options) (plan, error) {
	p := plan{
		heats: usual(), turns: 15, idleKeys: 100_000, sweepRows: 1_000_000, bigTable: o.rows,
		pace: pace{leadIn: 50 * time.Millisecond, length: 200 * time.Millisecond, stride: 1},
	}
	switch {
	case o.quick:
		p.heats, p.idleKeys, p.sweepRows = []heat{{64, 1000, nearNames()}}, 20_000, 200_000
		p.turns, p.pace.leadIn, p.pace.length = 9, 30*time.Millisecond, 120*time.Millisecond
	case o.all:
		p.heats = everything()
	}
	// With -quick too: every aim needs a figure.
	for _, r := range ratios {
		p.heats = with(p.heats, r)
	}
	return p.narrowed(o)
}

// narrowed applies -only and -loads.
func (p plan) narrowed(o options) (plan, error) {
	var err error
	if p.only, err = regexp.Compile(o.only); err != nil {
		return plan{}, fmt.Errorf("-only: %w", err)
	}
	if o.loads != "" {
		if p.heats, err = parseLoads(o.loads); err != nil {
			return plan{}, err
		}
	}
	p.onlyRaces, p.isPart = o.loads != "", o.loads != "" || o.only != ""
	for i, h := range p.heats {
		p.heats[i].names = slices.DeleteFunc(slices.Clone(h.names), func(name string) bool { return !p.runs(name) })
	}
	p.heats = slices.DeleteFunc(p.heats, func(h heat) bool { return len(h.names) == 0 })
	return p, nil
}

// parseLoads returns a heat of all contenders for each load of a list, such as "4x1000,64x1".
func parseLoads(list string) (heats []heat, err error) {
	for text := range strings.SplitSeq(list, ",") {
		callers, keys, ok := strings.Cut(text, "x")
		h := heat{names: allNames()}
		if h.callers, err = strconv.Atoi(callers); err == nil {
			h.keys, err = strconv.Atoi(keys)
		}
		if !ok || err != nil || h.callers < 1 || h.keys < 1 {
			return nil, fmt.Errorf("-loads: %q is not a load, such as 4x1000 for 4 callers and 1,000 keys", text)
		}
		heats = append(heats, h)
	}
	return heats, nil
}

// runs reports whether -only matches a name.
func (p plan) runs(name string) bool { return p.only == nil || p.only.MatchString(name) }

// usual returns the heats of a run without flags.
func usual() []heat {
	all := nearNames()
	return []heat{
		{1, 1000, all}, {4, 1000, allNames()}, {16, 1000, allNames()}, {64, 1, all}, {64, 1000, all}, {512, 1, all}, {512, 10_000, all},
		{512, 100_000, all},
	}
}

// everything returns a heat of all contenders for every number of callers and keys.
func everything() (heats []heat) {
	all := allNames()
	for _, callers := range []int{1, 4, 16, 64, 512} {
		for _, keys := range []int{1, 1000, 10_000, 100_000} {
			heats = append(heats, heat{callers, keys, all})
		}
	}
	return heats
}

// with adds to heats so that both sides of a ratio run in one of them.
func with(heats []heat, r ratio) []heat {
	i := slices.IndexFunc(heats, func(h heat) bool { return h.callers == r.callers && h.keys == r.keys })
	if i < 0 {
		i, heats = len(heats), append(heats, heat{callers: r.callers, keys: r.keys})
	}
	for _, name := range []string{r.ours, r.theirs} {
		if !slices.Contains(heats[i].names, name) {
			heats[i].names = append(heats[i].names, name)
		}
	}
	return heats
}

// maxKeys returns the largest number of keys of a heat.
func (p plan) maxKeys() (most int) {
	for _, h := range p.heats {
		most = max(most, h.keys)
	}
	return most
}

// paceOf returns the pace for a contender.
func (p plan) paceOf(name string) pace {
	// In memory, reading the clock costs as much as a decision.
	if c, _ := find(name); c.kind == memory || c.kind == mostlyMemory {
		p.pace.stride = 64
	}
	return p.pace
}

// run measures, and prints the results. When ctx ends it stops after the current round, and drops its tables.
func run(ctx context.Context, o options, out io.Writer) error {
	// Before the run, which takes long.
	if err := o.check(); err != nil {
		return err
	}
	p, err := planOf(o)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := &site{servers: serversFromEnv(), dir: dir, rows: p.maxKeys()}
	r := report{Machine: describeMachine(), NotRun: map[string]string{}}
	if p.runs(redisRateSafe) && !o.costs {
		stop, err := s.startRedis()
		if err != nil {
			r.skip(redisRateSafe, err)
		} else {
			defer stop()
		}
	}
	r.Machine.Servers = settingsOf(ctx, s)
	if o.costs {
		err = r.measureCosts(ctx, s, p)
	} else {
		err = r.measure(ctx, s, p)
	}
	if err != nil {
		return err
	}
	return r.publish(o, out)
}

// publish prints the tables, and writes the files named by flags.
func (r *report) publish(o options, out io.Writer) error {
	var results any = r
	if o.costs {
		results = r.Costs
	}
	if o.json != "" {
		if err := writeJSON(o.json, results); err != nil {
			return err
		}
	}
	if o.readme != "" {
		if err := writeTables(o.readme, r.markdown()); err != nil {
			return err
		}
	}
	_, err := io.WriteString(out, r.markdown())
	return err
}

// check returns the errors that would otherwise come only after a long run.
func (o options) check() error {
	if o.readme == "" {
		return nil
	}
	if o.costs || o.only != "" || o.loads != "" {
		return errors.New("-readme needs the tables of a whole run: leave out -costs, -only and -loads")
	}
	text, err := os.ReadFile(o.readme)
	if err != nil {
		return err
	}
	_, err = withTables(string(text), "")
	return err
}

// measure runs the plan, and compares the results with the aims.
func (r *report) measure(ctx context.Context, s *site, p plan) error {
	steps := []func(context.Context, *site, plan) error{
		// The counts come first: they open every contender by itself, so those that cannot run are known at once.
		r.measureCounts, r.race, r.raceDenied, r.measureMemory, r.measureCosts, r.measureSweeps, r.measureProcesses,
		r.measureGrowth,
	}
	if p.onlyRaces {
		steps = []func(context.Context, *site, plan) error{r.race}
	}
	for _, step := range steps {
		if err := step(ctx, s, p); err != nil {
			return err
		}
	}
	r.judge()
	if p.isPart {
		r.keepMeasured()
	}
	return ctx.Err()
}

// skip records why a contender has not run. Later reasons are dropped, because they follow from the first.
func (r *report) skip(name string, err error) {
	if _, ok := r.NotRun[name]; !ok {
		r.NotRun[name] = err.Error()
		logf("%s: not run: %v", name, err)
	}
}

// logf prints a line of progress with the time.
func logf(format string, args ...any) {
	// Standard output has nothing but the tables.
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", slices.Insert(args, 0, any(time.Now().Format(time.TimeOnly)))...)
}
