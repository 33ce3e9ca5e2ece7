// Command bench compares the stores of this module with other rate limiters, and with the least that their
// databases can do, in one run on one machine.
//
// It prints Markdown tables: the ratios that matter with the aim of each, what each contender did, and what a
// statement costs.
// README.md says how it measures and what each column means.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
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
