package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

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
