package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/render"
	"github.com/ratelimitgen/ratelimitgen/gen/sim"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

func simulateCommand() command {
	return command{
		name:    "simulate",
		args:    "[LIMITS]",
		summary: "replay requests and print the decisions of the limits",
		help: `LIMITS defaults to limits.yaml. The decisions are those of the limiter itself at the times in the
trace, without a database and without waiting. A trace is a log, as described below, or JSON Lines,
one request a line, in order of time:

  {"at": "2030-01-02T15:04:05Z", "limit": "sendMessage", "key": "42", "count": 1, "reserve": false}

A limit that depends on the plan also needs its name, as "plan": "pro".

at is an RFC 3339 time, or a Unix time: in seconds if it has a fraction and is below 10^10,
otherwise in milliseconds. key is a string, a number (for int, int64 and uint64), true or false (for
bool), or a list of these if the key has several parts. key, count and reserve are optional. limit
is optional if LIMITS has only one, or with -limit, and plan with -plan. Other fields are ignored,
unless one is nearly spelled like a field that is missing. If the calendar of a limit has a time zone
or an anniversary per key, its lines need them: "zone": "Europe/Berlin", "anniversary": "2024-01-31".

verb is what the request does: "allow", which is the default, "allowUpTo", which takes as many tokens
as there are, or "charge", which takes them whether they are there or not. running is for limits in
flight: how long the request runs and holds its slot, as "1.5s" or in seconds; without it, the slot is
held for the hold of the limit, as after a crash. For a limit with prices, such as {input: 3, output: 15},
a line has what the request uses in place of count: "input": 1200, "output": 300.

Logs are read too, and may be compressed with gzip. They are recognized by the first line: JSON (an
object per line), access logs (the common and combined formats of nginx and Apache, the default formats
of Envoy and Istio) and CSV (with a header). -map has the names that the fields above have in the log:

  ratelimitgen simulate -trace app.log.gz -limit sendMessage -map at=ts,key=org.id,key=user.id
  ratelimitgen simulate -trace access.log -limit perAddress
  grep '"POST /v1/messages' access.log | ratelimitgen simulate -trace - -limit sendMessage -map key=remote_user

A name with dots may be that of a field in an object. Several keys are the parts of the key. Fields
without a name in -map are not read, except the time if it has a usual name, and remote_addr or
downstream_remote_address if the key of the limit is an address. The fields of access logs have the
names of the variables of nginx (remote_addr, remote_user, time_local), or of Envoy (start_time,
x_forwarded_for); method, path and protocol; and numbers from 1. Times are RFC 3339 and similar forms,
in UTC if they have no zone, or Unix times: their size says whether they count seconds, milliseconds,
microseconds or nanoseconds. Servers write a line when the request ends, so that the times in logs
are a little out of order: lines up to a minute late, or -late, are put in order, for which the lines
of that time are held in memory. If a log has only whole seconds, the requests of a second come at
once, and more of them may be denied.

limit may name a group: the line takes from all of its limits, or from none. Then key has the
parameters of the group in their order, and count is the argument for the number of tokens. If a
limit of it depends on the plan, the line needs the plan, which is that of all its limits.

-format jsonl prints each line with its decision: allowed, retryAfterMs (of a denial, or the delay
of a reservation; omitted if 0), remaining and value (the tokens left, rounded down and exact), and
shadowed (omitted unless only shadow mode has allowed it at once), and taken (of allowUpTo). The output
can be replayed as a trace. The simulation does not include lease and denyCache, which depend on the
processes; the output says so for limits that have them.

-against prints for each limit how many requests, and which keys, would get another decision than
with OLD:

  ratelimitgen simulate -trace yesterday.jsonl -against origin/main:limits.yaml

If a limit or a plan was renamed, lines may use its old name or its new one.

With -format jsonl, each line also has the decision with OLD, as oldAllowed and so on. These
fields are missing if OLD does not have the limit. If the count exceeds the capacity in OLD, there is
only oldAllowed, which is false. This prints the lines that change:

  ratelimitgen simulate ... -format jsonl | jq -c 'select(.allowed != .oldAllowed)'

-traffic generates a trace. TEXT is one or more of these, separated by ";", all at the same time:

  steady 5/s      requests at equal intervals; a rate can also be 100/m or 3/10s
  poisson 20/s    requests at random times, at this average rate
  burst 100       this many requests at one instant

Each can have: for 10m (duration; by default until the last of the others ends, or a minute), at 2m
(start), over 50 keys (in turn, or at random for poisson; by default 1), taking 800 (tokens each), or
for a limit with prices using input=800,output=200 (units each), running 2s and plan pro. Keys with a
time zone or an anniversary of their own have UTC, and the day of the first request:

  ratelimitgen simulate -limit sendMessage -traffic "steady 5/s for 10m; burst 100 at 2m; poisson 20/s"

At an interrupt (Ctrl-C), the output has the requests so far, and the exit code is 3.

The exit code is 1 if a line cannot be replayed: it cannot be read as above, its time is too far
before that of another line, its limit does not exist, or its count exceeds the capacity. -keep-going skips
such lines, and lists the first of them. This sorts a trace whose times all have one format:

  jq -sc 'sort_by(.at)[]' trace.jsonl
`,
		prepare: prepareSimulate,
	}
}

// simulateArgs are the flags and arguments of simulate.
type simulateArgs struct {
	// limits and against are files of limits; against is "" without a comparison.
	limits, against string
	// trace is a file of requests, and traffic a description of them; one of the two is "".
	trace, traffic string
	seed           uint64
	limit, plan    string
	// mapping and late say how to read the trace.
	mapping   trace.Mapping
	late      time.Duration
	format    formatChoice[simulation]
	color     choice
	keepGoing bool
}

func prepareSimulate(flags *flag.FlagSet) action {
	var a simulateArgs
	flags.StringVar(&a.trace, "trace", "", "replay the requests in `FILE`, - for standard input")
	flags.Func("map", "read fields of a log: `FIELD=NAME,...`, such as at=ts,key=user.id; see below", a.mapping.Add)
	a.late = -1
	flags.Func("late", "put lines in order that are up to `DURATION` late (default 0s for jsonl, 1m0s for logs)", func(value string) (err error) {
		if a.late, err = time.ParseDuration(value); err != nil || a.late < 0 {
			return errors.New("must be a duration such as 90s")
		}
		return nil
	})
	flags.StringVar(&a.traffic, "traffic", "", "replay generated requests, described by `TEXT`; see below")
	a.seed = 1
	flags.Func("seed", "use `N` as the seed of the random requests (default 1)", func(value string) (err error) {
		a.seed, err = strconv.ParseUint(value, 10, 64)
		if err != nil {
			return fmt.Errorf("must be a whole number, at most %d", uint64(math.MaxUint64))
		}
		return nil
	})
	flags.StringVar(&a.limit, "limit", "", "ignore all limits but `NAME`, and use it for lines without a limit")
	flags.StringVar(&a.plan, "plan", "", "use the plan `NAME` for lines without a plan")
	declareAgainst(flags, &a.against)
	a.format.declare(flags, simulateFormats)
	flags.BoolVar(&a.keepGoing, "keep-going", false, "skip lines that cannot be replayed, and list the first of them")
	a.color.declareColor(flags)
	return a.run
}

func (a *simulateArgs) run(s streams, args []string) error {
	if err := a.set(args); err != nil {
		return err
	}
	c, err := a.read(s)
	if err != nil {
		return err
	}
	if a.format.chosen.name == "jsonl" {
		s.progress = nil // the lines show it, and may be on the same terminal
	}
	from, err := a.requests(s, c)
	if err != nil {
		return err
	}
	// A second interrupt ends the program, such as one that waits for the next line of a trace.
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt)
	defer restore()
	context.AfterFunc(ctx, restore)
	faults := &faults{trace: traceName(a.trace), limits: c.Names(), keepGoing: a.keepGoing}
	// Skipped lines are listed even if the replay fails later.
	err = a.format.write(s, simulation{ctx, from, c, a.against != "", faults.add, s.progress.end}, render.Options{Color: a.color.color(s.out)})
	if unreadable := new(trace.MappingError); errors.As(err, &unreadable) {
		err = checkFailed{traceName(a.trace) + ": " + printable.Line(unreadable.Reason)}
	}
	return errors.Join(err, faults.list(s.err))
}

// set sets the file of limits, and validates the flags.
func (a *simulateArgs) set(args []string) (err error) {
	if a.limits, err = oneFile(args, "requests name the limits of one package"); err != nil {
		return err
	}
	switch {
	case a.trace == "" && a.traffic == "":
		return usagef("needs requests: pass -trace FILE or -traffic TEXT")
	case a.trace != "" && a.traffic != "":
		return usagef("-trace and -traffic cannot be combined")
	case a.traffic != "" && (!a.mapping.Empty() || a.late >= 0):
		return usagef("-map and -late read a -trace; -traffic needs neither")
	}
	return standardInputOnce(a.limits, a.against, a.trace)
}

// read reads the limits, and with -against the old ones.
func (a *simulateArgs) read(s streams) (*sim.Comparison, error) {
	file, err := readValid(s, a.limits, &a.color)
	if err != nil {
		return nil, err
	}
	var before *spec.File
	if a.against != "" {
		remark := ""
		if before, remark, err = readOld(s, a.against, a.limits, file.File, &a.color); err != nil {
			return nil, err
		}
		if remark != "" {
			fmt.Fprintln(s.err, remark)
		}
	}
	c := sim.NewComparison(before, file.File)
	for _, names := range []map[string]string{c.Renamed, c.RenamedPlans} {
		for _, was := range slices.Sorted(maps.Keys(names)) {
			fmt.Fprintf(s.err, "%s is compared with %s of OLD, as renamed\n", names[was], was)
		}
	}
	a.limit, a.plan = cmp.Or(c.Renamed[a.limit], a.limit), cmp.Or(c.RenamedPlans[a.plan], a.plan)
	// A limit that the edit removes can be replayed too.
	if names := c.Names(); a.limit != "" && !slices.Contains(names, a.limit) {
		return nil, usagef("%s has no limit %q%s", shown(a.limits), a.limit, suggestion("", a.limit, names))
	}
	if plans := c.PlanNames(); a.plan != "" && !slices.Contains(plans, a.plan) {
		return nil, usagef("%s has no plan %q%s", shown(a.limits), a.plan, suggestion("", a.plan, plans))
	}
	return c, nil
}

func (a *simulateArgs) requests(s streams, c *sim.Comparison) (requests, error) {
	if a.traffic != "" {
		return a.newTraffic(c)
	}
	text := os.Stdin
	if a.trace != standardInput {
		var err error
		if text, err = openTrace(a.trace); err != nil {
			return nil, err
		}
	}
	if err := a.mapping.Check(c.Units()); err != nil {
		return nil, usagef("-map: %v", err)
	}
	in := trace.NewReader(s.progress.watch(text))
	in.Default, in.DefaultPlan, in.Only = a.limit, a.plan, a.limit
	in.Map, in.Late = a.mapping, a.late
	c.Prepare(in)
	return in, nil
}

func (a *simulateArgs) newTraffic(c *sim.Comparison) (*sim.Traffic, error) {
	_, new := c.Sides()
	names := new.Names()
	limit := cmp.Or(a.limit, names[0])
	switch {
	case a.limit == "" && len(names) > 1:
		return nil, usagef("-traffic needs -limit, because %s has several limits or groups", shown(a.limits))
	case !slices.Contains(names, limit): // -against may have it, but the requests are generated for the new file
		return nil, usagef("%s has no limit %q%s", shown(a.limits), limit, suggestion("", limit, names))
	}
	traffic, err := sim.NewTraffic(a.traffic, new, limit, a.plan, a.seed)
	if err != nil {
		return nil, usagef("-traffic: %v", err)
	}
	return traffic, nil
}
