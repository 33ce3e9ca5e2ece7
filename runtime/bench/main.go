// Command bench compares the stores of this module with other rate limiters, and with the least that their
// databases can do, in one run on one machine.
//
// It prints Markdown tables: the ratios that matter with the aim of each, what each contender did, and what a
// statement costs.
// README.md says how it measures and what each column means.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	// A second Ctrl-C ends the program at once.
	context.AfterFunc(ctx, stop)
	err := run(ctx, parseFlags(), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are what the program can be told.
type options struct {
	quick, all, costs bool
	json, readme      string
	rows              int
}

func parseFlags() (o options) {
	flag.BoolVar(&o.quick, "quick", false, "measure only what the ratios need, in under two minutes")
	flag.BoolVar(&o.all, "all", false, "measure every number of callers with every number of keys")
	flag.BoolVar(&o.costs, "costs", false, "measure only what a statement costs, fixed and for each row")
	flag.StringVar(&o.json, "json", "", "write the results to this `file` too, as JSON")
	flag.StringVar(&o.readme, "readme", "", "put the tables into this `file` too, between its lines <!-- tables --> and <!-- /tables -->")
	flag.IntVar(&o.rows, "rows", 0, "also compare a table of so many rows with one of 1,000, such as 10000000")
	flag.Parse()
	return o
}

// plan is what a run measures.
type plan struct {
	heats []heat
	// turns is how many rounds each contender runs in a heat, and pace how long they are.
	turns int
	pace  pace
	// idleKeys is how many keys are asked for once to see what they leave in memory.
	idleKeys int
	// bigTable is how many rows the large table has that is compared with one of 1,000, if not 0.
	bigTable int
}

// planOf returns the plan that the options ask for.
func planOf(o options) plan {
	p := plan{
		heats: usual(), turns: 15, idleKeys: 100_000, bigTable: o.rows,
		pace: pace{leadIn: 50 * time.Millisecond, length: 200 * time.Millisecond, stride: 1},
	}
	switch {
	case o.quick:
		p.heats, p.idleKeys = []heat{{64, 1000, namesOf(anyone)}}, 20_000
		p.turns, p.pace.leadIn, p.pace.length = 7, 30*time.Millisecond, 120*time.Millisecond
	case o.all:
		p.heats = everything()
	}
	for _, r := range ratios {
		p.heats = with(p.heats, r)
	}
	return p
}

// usual returns the heats of a run without options.
func usual() []heat {
	all := namesOf(anyone)
	return []heat{
		{1, 1000, all}, {2, 1000, all}, {64, 1, all}, {64, 1000, all}, {512, 1, all}, {512, 1000, all},
		{512, 10_000, all}, {512, 100_000, all},
	}
}

// everything returns a heat of all contenders for every number of callers and keys.
func everything() (heats []heat) {
	all := namesOf(anyone)
	for _, callers := range []int{1, 2, 64, 512} {
		for _, keys := range []int{1, 1000, 10_000, 100_000} {
			heats = append(heats, heat{callers, keys, all})
		}
	}
	return heats
}

// with returns heats in which both sides of a ratio run.
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
	if c, _ := find(name); c.kind == memory || c.kind == mostlyMemory {
		p.pace.stride = 64
	}
	return p.pace
}

// run measures, and prints what it has measured. When ctx ends it stops after the round that it is in, and
// drops its tables.
func run(ctx context.Context, o options, out io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p := planOf(o)
	s := &site{servers: serversFromEnv(), dir: dir, rows: p.maxKeys()}
	r := report{Machine: describeMachine(), NotRun: map[string]string{}}
	r.Machine.Servers = settingsOf(ctx, s)
	if o.costs {
		err = r.price(ctx, s, p)
	} else {
		err = r.measure(ctx, s, p)
	}
	if err != nil {
		return err
	}
	return r.publish(o, out)
}

// publish prints the tables, and writes the files that were asked for.
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

// check returns an error for what would come to light only after a long run.
func (o options) check() error {
	if o.readme == "" {
		return nil
	}
	if o.costs {
		return errors.New("-readme wants the tables of a whole run, not of -costs")
	}
	text, err := os.ReadFile(o.readme)
	if err != nil {
		return err
	}
	_, err = withTables(string(text), "")
	return err
}

// measure measures all that the plan has, and compares it with the aims.
func (r *report) measure(ctx context.Context, s *site, p plan) error {
	for _, step := range []func(context.Context, *site, plan) error{
		r.count, r.race, r.deny, r.weigh, r.price, r.compareRows,
	} {
		if err := step(ctx, s, p); err != nil {
			return err
		}
	}
	r.judge()
	return ctx.Err()
}

// skip notes why a contender has not run. Only the first reason counts.
func (r *report) skip(name string, err error) {
	if _, known := r.NotRun[name]; !known {
		r.NotRun[name] = err.Error()
		say("%s: not run: %v", name, err)
	}
}

// say tells the person who waits what is going on, and when.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", slices.Insert(args, 0, any(time.Now().Format(time.TimeOnly)))...)
}
