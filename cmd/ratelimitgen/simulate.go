package main

import (
	"errors"
	"flag"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/sim"
)

func simulateVerb() verb {
	return verb{
		name:  "simulate",
		args:  "[LIMITS]",
		about: "replay requests, and say what the limits answer",
		help: `LIMITS is limits.yaml if it is left out. The answers are those of the limiter itself, at the times of the
trace; there is no database, and nothing waits. A trace is JSON Lines, a request a line, in order of time:

  {"at": "2030-01-02T15:04:05Z", "limit": "sendMessage", "key": "42", "count": 1, "reserve": false}

at is an RFC 3339 time, or a Unix time: milliseconds, or with a fraction and below 10^10 seconds. key is a
string, a number (for int, int64 and uint64) or true or false (for bool), or a list of them if the key has
several parts; it, count and reserve can be left out. So can limit, if there is only one, or -limit says. Other
fields are passed over, unless one is spelled like a field that is missing.

-format jsonl prints each line with its answer: allowed, retryAfterMs (of a denial, or the delay of a
reservation; left out if 0), remaining and value (the tokens left, whole and to the fraction). csv has the same
columns. What is printed as jsonl can be read as a trace again. Markdown shows no keys, which may be personal.
What depends on processes, lease and denyCache, is not replayed; the answer says so for limits that have them.

-against says for each limit how many requests, and of which keys, would be answered otherwise than by OLD:

  ratelimitgen simulate -trace yesterday.jsonl -against origin/main:limits.yaml

With -format jsonl or csv, each line has the answer of OLD too, as oldAllowed and so on; nothing is there if OLD
has no such limit, and only oldAllowed, false, if the count can never pass. This prints the lines that change:

  ratelimitgen simulate ... -format jsonl | jq -c 'select(.allowed != .oldAllowed)'

-traffic makes a trace up. TEXT is one or more of these, with ";" between them; they go on at the same time:

  steady 5/s      requests at even distances; a rate is also written 100/m or 3/10s
  poisson 20/s    requests at random, so many on average
  burst 100       so many at one instant

Each can have: for 10m (how long; without it until the last of the others ends, or a minute), at 2m (from
when), over 50 keys (in turn, or at random for poisson; without it 1) and taking 800 (tokens each):

  ratelimitgen simulate -limit sendMessage -traffic "steady 5/s for 10m; burst 100 at 2m; poisson 20/s"

The exit code is 1 if a line cannot be asked: it is not JSON as above, its time is before that of the line
above it, there is no such limit, or its count can never pass. With -keep-going such lines are left out, and
the first of them are listed. This sorts a trace whose times are all written alike:

  jq -sc 'sort_by(.at)[]' trace.jsonl
`,
		prepare: prepareSimulate,
	}
}

// simulation is one call of simulate.
type simulation struct {
	// limits and against are files of limits; against is "" if there is nothing to compare with.
	limits, against string
	// trace is a file of requests, and traffic a description of them; one of the two is "".
	trace, traffic string
	seed           uint64
	limit          string
	format, color  choice
	keepGoing      bool
}

func prepareSimulate(flags *flag.FlagSet) action {
	var m simulation
	flags.StringVar(&m.trace, "trace", "", "replay the requests in `FILE`, - for standard input")
	flags.StringVar(&m.traffic, "traffic", "", "replay requests that are made up as `TEXT` says; see below")
	flags.Uint64Var(&m.seed, "seed", 1, "make other requests up for every `N`; if left out, 1")
	flags.StringVar(&m.limit, "limit", "", "leave out all limits but `NAME`, which is also that of lines without one")
	flags.StringVar(&m.against, "against", "", "say what would change; `OLD` is the limits.yaml of before, or REF:PATH in git")
	m.format.declare(flags, "format", "answer in this `FORM`: text, markdown (for a comment), jsonl or csv", "text", "markdown", "jsonl", "csv")
	flags.BoolVar(&m.keepGoing, "keep-going", false, "leave out the lines that cannot be asked, and list the first of them")
	m.color.declareColor(flags)
	return m.run
}

func (m *simulation) run(s streams, args []string) error {
	if err := m.accept(args); err != nil {
		return err
	}
	limits, old, err := m.read(s)
	if err != nil {
		return err
	}
	text, err := m.open(s, limits)
	if err != nil {
		return err
	}
	defer text.Close()
	trace := sim.NewTrace(text)
	trace.Default, trace.Only = m.limit, m.limit
	if m.limit == "" && len(limits) == 1 {
		trace.Default = limits[0].Policy.Name
	}
	faults := &faults{trace: m.traceName(), limits: limitNames(slices.Concat(limits, old)), keepGoing: m.keepGoing}
	return errors.Join(m.replay(s, trace, limits, old, faults), faults.list(s.err))
}

// accept takes the arguments, and says what does not go together.
func (m *simulation) accept(args []string) error {
	m.limits = defaultFile
	switch {
	case len(args) > 1:
		return misusef("takes one file of limits, not %d", len(args))
	case len(args) == 1:
		m.limits = args[0]
	}
	switch {
	case m.trace == "" && m.traffic == "":
		return misusef("say what to replay: -trace FILE or -traffic TEXT")
	case m.trace != "" && m.traffic != "":
		return misusef("-trace and -traffic do not go together")
	}
	return nil
}
