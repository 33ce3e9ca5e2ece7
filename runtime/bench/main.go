// Command bench compares the stores of this module with other rate limiters, and with a bare write to the same database, in
// one run on one machine.
//
// It prints Markdown tables: ratios, the figures of each contender, and the round trips and allocations of a decision.
// README.md describes how it measures, and the columns.
package main

import (
	"context"
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
	if err := run(ctx, parseFlags(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the flags of the program.
type options struct {
	quick       bool
	only, loads string
}

func parseFlags() (o options) {
	flag.BoolVar(&o.quick, "quick", false, "measure only the ratios, and one load with all contenders, in some minutes")
	flag.StringVar(&o.only, "only", "", "measure only what a regular `expression` matches: names in the table of contenders, such as 'Postgres|redis'")
	flag.StringVar(&o.loads, "loads", "", "measure only these `loads`, as callers x keys: 4x1000,64x1")
	flag.Parse()
	return o
}

// plan is a list of measurements.
type plan struct {
	heats []heat
	// turns is how many rounds each contender runs in a heat, and pace the length of a round.
	turns int
	pace  pace
	// sweepRows is how many rows a sweep finds.
	sweepRows int
	// only matches the names of what is measured. It may be nil.
	only *regexp.Regexp
	// onlyRaces leaves out all but the heats.
	onlyRaces bool
}

// planOf returns the plan for flags. The error is that of an expression or a load that cannot be read.
func planOf(o options) (plan, error) {
	p := plan{
		heats: usual(), turns: 15, sweepRows: 1_000_000,
		pace: pace{leadIn: 50 * time.Millisecond, length: 200 * time.Millisecond, stride: 1},
	}
	if o.quick {
		p.heats, p.sweepRows = []heat{{64, 1000, nearNames()}}, 200_000
		p.turns, p.pace.leadIn, p.pace.length = 9, 30*time.Millisecond, 120*time.Millisecond
	}
	// With -quick too: every ratio needs a figure.
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
	p.onlyRaces = o.loads != ""
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
	if c, _ := find(name); c.kind != stored {
		p.pace.stride = 64
	}
	return p.pace
}

// run measures, and prints the results. When ctx ends it stops after the current round, and drops its tables.
func run(ctx context.Context, o options, out io.Writer) error {
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
	if p.runs(redisRateSafe) {
		stop, err := s.startRedis()
		if err != nil {
			r.skip(redisRateSafe, err)
		} else {
			defer stop()
		}
	}
	r.Machine.Servers = settingsOf(ctx, s)
	if err := r.measure(ctx, s, p); err != nil {
		return err
	}
	_, err = io.WriteString(out, r.markdown())
	return err
}

// measure runs the plan.
func (r *report) measure(ctx context.Context, s *site, p plan) error {
	// The counts come first: they open every contender by itself, so those that cannot run are known at once.
	steps := []func(context.Context, *site, plan) error{r.measureCounts, r.race, r.measureSweeps}
	if p.onlyRaces {
		steps = steps[1:2]
	}
	for _, step := range steps {
		if err := step(ctx, s, p); err != nil {
			return err
		}
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
