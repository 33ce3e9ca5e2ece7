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
	only := flag.String("only", "", "measure only what a regular `expression` matches: names in the table of contenders, such as 'Postgres|redis'")
	loads := flag.String("loads", "", "measure only these `loads`, with all contenders, as callers x keys: 4x1000,64x1")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	// A second Ctrl-C ends the program at once.
	context.AfterFunc(ctx, stop)
	p, err := planOf(*only, *loads)
	if err == nil {
		err = run(ctx, p, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// plan is a list of measurements.
type plan struct {
	heats []heat
	// turns is how many rounds each contender runs in a heat, and pace the length of a round.
	turns int
	pace  pace
	// sweepRows is how many rows a sweep finds.
	sweepRows int
	// only matches the names of what is measured.
	only *regexp.Regexp
	// onlyRaces leaves out all but the heats.
	onlyRaces bool
}

// planOf returns the plan for flags. The error is that of an expression or a load that cannot be read.
func planOf(only, loads string) (p plan, err error) {
	p = plan{
		turns: 9, sweepRows: 200_000, pace: pace{leadIn: 30 * time.Millisecond, length: 120 * time.Millisecond, stride: 1},
		onlyRaces: loads != "",
	}
	if p.only, err = regexp.Compile(only); err != nil {
		return p, fmt.Errorf("-only: %w", err)
	}
	if p.heats = usual(); loads != "" {
		if p.heats, err = parseLoads(loads); err != nil {
			return p, err
		}
	}
	for i, h := range p.heats {
		p.heats[i].names = slices.DeleteFunc(h.names, func(name string) bool { return !p.only.MatchString(name) })
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

// usual returns one heat of all contenders without a proxy, and heats with both sides of each ratio.
func usual() []heat {
	near := slices.DeleteFunc(allNames(), func(name string) bool { return strings.HasSuffix(name, farAway) })
	heats := []heat{{64, 1000, near}}
	for _, r := range ratios {
		i := slices.IndexFunc(heats, func(h heat) bool { return h.callers == r.callers && h.keys == r.keys })
		if i < 0 {
			i, heats = len(heats), append(heats, heat{callers: r.callers, keys: r.keys})
		}
		for _, name := range []string{r.ours, r.theirs} {
			if !slices.Contains(heats[i].names, name) {
				heats[i].names = append(heats[i].names, name)
			}
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

// run measures, and prints the results. When ctx ends it stops after the current round, and drops its tables.
func run(ctx context.Context, p plan, out io.Writer) error {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := &site{servers: serversFromEnv(), dir: dir, rows: p.maxKeys()}
	r := report{NotRun: map[string]string{}}
	if p.only.MatchString(redisRateSafe) {
		stop, err := s.startRedis()
		if err != nil {
			r.skip(redisRateSafe, err)
		} else {
			defer stop()
		}
	}
	r.Machine = s.describe(ctx)
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

// logf prints a line of progress with the time.
func logf(format string, args ...any) {
	// Standard output has nothing but the tables.
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", slices.Insert(args, 0, any(time.Now().Format(time.TimeOnly)))...)
}
