package faults

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// figures are the results of a part.
type figures struct {
	name                            string
	calls, admitted, denied, errors int64
	// tokens counts the acknowledged tokens, and stored those taken according to the rows.
	tokens, stored int64
	over, lost     int64
	// rows is the difference between the tokens in the callers' rows and those stored as taken.
	rows int64
	// longest is the longest duration of a call by each method. lag is the largest one of a call. late counts the calls
	// that exceeded their timeout by more than the lag and the slack.
	longest                   map[method]time.Duration
	lag                       time.Duration
	late                      map[method]int64
	closing, back             time.Duration
	messages                  map[string]int
	acknowledged, transacted  map[spot]int64
	firstAnswers, outageNames []string
	struck                    int
	opened                    float64
	// keys were taken from in the end until they were denied, and exhausted are those that then had nothing left.
	keys, exhausted int
}

// spot is a key of a limit.
type spot struct{ place, key int }

// audit compares the records with the stored rows.
func (r *outageRun) audit(name string) *figures {
	f := &figures{name: name, longest: map[method]time.Duration{}, late: map[method]int64{}, messages: map[string]int{},
		acknowledged: map[spot]int64{}, transacted: map[spot]int64{}, outageNames: r.names, struck: r.struck, opened: r.opened}
	limits := outageLimits()
	f.read(r.t, r.course.Log, limits, r.repaired)
	balances := r.balances(f, limits)
	assert.Equal(r.t, f.keys, f.exhausted, "keys that grant exactly their capacity")
	for s, acknowledged := range f.acknowledged {
		l, stored := limits[s.place], balances[s]
		f.tokens, f.stored = f.tokens+acknowledged, f.stored+stored
		f.over += max(0, stored-l.most(), acknowledged-l.most())
		if acknowledged > stored {
			f.lost += acknowledged - stored
			f.messages[fmt.Sprintf("a key lost tokens by %s", l.method)]++
		}
		if l.method == byTx {
			f.rows += max(stored-f.transacted[s], f.transacted[s]-stored)
		}
	}
	assert.Zero(r.t, f.over, "tokens beyond the capacity")
	assert.Zero(r.t, f.lost, "tokens acknowledged but not stored")
	assert.Zero(r.t, f.rows, "difference between the caller's rows and the tokens taken with them")
	if r.driver == "postgres" {
		// The statements of the caller's own in RunInTx: while the server is silent, lib/pq does not return from one when
		// its context ends, and nothing outside of the driver can make it.
		delete(f.late, byTx)
	}
	assert.Empty(r.t, f.late, "calls that took longer than %v and %v; the longest: %v", outageTimeout, outageSlack, f.longest)
	assert.LessOrEqual(r.t, f.closing, closeTimeout, "longest Close")
	assert.LessOrEqual(r.t, f.back, outageResumes, "time without an answer after a fault was repaired")
	assert.LessOrEqual(r.t, f.opened, 2.0*outageProcesses, "connections opened a second at the end of a long silence")
	assert.NotZero(r.t, f.errors, "there were no faults")
	r.t.Log("\n" + tableOf(f))
	for _, text := range slices.Sorted(maps.Keys(f.messages)) {
		r.t.Logf("%6d times: %s", f.messages[text], text)
	}
	return f
}

// read adds up the records of all processes.
func (f *figures) read(t *testing.T, dir string, limits []*outageLimit, repaired []time.Duration) {
	places := map[*outageLimit]int{}
	for i, l := range limits {
		places[l] = i
	}
	files := live.Must(filepath.Glob(filepath.Join(dir, "*")))(t)
	var answers []time.Duration
	for _, file := range files {
		text := live.Must(os.ReadFile(file))(t)
		for line := range strings.Lines(string(text)) {
			e, ok := parseEntry(strings.TrimSuffix(line, "\n"))
			if !ok || !strings.HasSuffix(line, "\n") {
				continue // the process was killed while it wrote
			}
			if e.outcome == closing {
				f.closing = max(f.closing, e.took)
				if e.err != nil {
					f.messages["Close: "+e.err.Error()]++
				}
				continue
			}
			f.add(e, limits, places)
			if e.answered() {
				answers = append(answers, e.at)
			}
		}
	}
	slices.Sort(answers)
	for i, at := range repaired {
		next, _ := slices.BinarySearch(answers, at)
		after := time.Hour
		if next < len(answers) {
			after = answers[next] - at
		}
		f.back = max(f.back, after)
		f.firstAnswers = append(f.firstAnswers, fmt.Sprintf("%s %v", f.outageNames[i], after.Round(time.Millisecond)))
	}
	t.Log("first answers after: ", strings.Join(f.firstAnswers, ", "))
}

// particulars are the parts in which errors of the same cause differ.
var particulars = regexp.MustCompile(`limit "[^"]*"|[0-9.]+:[0-9]+|\([0-9]+ms\)`)

func (f *figures) add(e entry, limits []*outageLimit, places map[*outageLimit]int) {
	f.calls++
	l := limits[e.place]
	f.longest[l.method] = max(f.longest[l.method], e.took)
	f.lag = max(f.lag, e.lag)
	if e.took-e.lag > outageTimeout+outageSlack {
		f.late[l.method]++
		f.messages[fmt.Sprintf("%s took %v, lag %v", l.method, rounded(e.took), rounded(e.lag))]++
	}
	taken := int64(0)
	switch e.outcome {
	case allowed:
		f.admitted++
		taken = e.n
	case denied:
		f.denied++
	case failed, unended:
		f.errors++
		f.messages[fmt.Sprintf("%s %s %.200s", e.outcome, l.method, particulars.ReplaceAllString(fmt.Sprint(e.err), "..."))]++
	}
	f.acknowledged[spot{e.place, e.key}] += taken
	if l.with != nil {
		f.acknowledged[spot{places[l.with], e.key}] += taken
	}
}

// balances reads how many tokens of each key are stored as taken, and the rows of the transactions.
func (r *outageRun) balances(f *figures, limits []*outageLimit) map[spot]int64 {
	s := r.course.Nodes[0]
	switch {
	case len(r.dsns) > 1:
		s.DSN += "?wsrep_sync_wait=1"
	case r.direct != "":
		s.DSN = r.direct
	}
	db := s.Open(r.t)
	db.SetMaxOpenConns(connections)
	store, err := agree.NewStore(db, s.Dialect, sqlstore.Options{Table: r.course.Table})
	require.NoError(r.t, err)
	rows, err := db.Query("SELECT place, k, SUM(n) FROM " + r.course.ownRows() + " GROUP BY place, k")
	require.NoError(r.t, err)
	for rows.Next() {
		var s spot
		var n int64
		require.NoError(r.t, rows.Scan(&s.place, &s.key, &n))
		f.transacted[s] = n
	}
	require.NoError(r.t, rows.Err())
	all := limiter.New(store)
	f.exhaust(r.t, all, limits)
	return peekAll(r.t, all, limits, slices.Collect(maps.Keys(f.acknowledged)))
}

// exhaust takes from the last key of each limit until it is denied, because a slow machine may have exhausted none.
func (f *figures) exhaust(t *testing.T, all *limiter.Limiter, limits []*outageLimit) {
	for place, l := range limits {
		if l.method != byAllow {
			continue
		}
		last := spot{place: place}
		for s := range f.acknowledged {
			if s.place == place {
				last.key = max(last.key, s.key)
			}
		}
		p := *l.policy
		p.Timeout, p.Lease = 0, runtime.Lease{}
		f.keys++
		for range l.most() + 1 {
			d := live.Must(all.Limit(&p, live.KeyOf(last.key)).Allow(context.Background()))(t)
			if !d.Allowed {
				f.exhausted++
				break
			}
			f.acknowledged[last]++
		}
	}
}

// peekAll returns how many tokens are taken from each key.
func peekAll(t *testing.T, l *limiter.Limiter, limits []*outageLimit, spots []spot) map[spot]int64 {
	taken, queue := map[spot]int64{}, make(chan spot)
	var failed error
	var mu sync.Mutex
	var all sync.WaitGroup
	for range live.Callers {
		all.Go(func() {
			for s := range queue {
				p := *limits[s.place].policy
				p.Timeout = 0
				b, err := l.Limit(&p, live.KeyOf(s.key)).Peek(context.Background())
				mu.Lock()
				failed = cmp.Or(failed, err)
				// Since the beginning, far less than half a token has accrued.
				taken[s] = int64(float64(p.Capacity) - b.Value + 0.5)
				mu.Unlock()
			}
		})
	}
	for _, s := range spots {
		queue <- s
	}
	close(queue)
	all.Wait()
	require.NoError(t, failed)
	return taken
}

// tableOf formats the figures of all parts as a table.
func tableOf(rows ...*figures) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "database\tfaults\tcalls\tadmitted\tdenied\terrors\ttokens\tstored\tover\tlost\trows off\tlongest call\tlongest tx\tlag\tlate\tClose\tback\topened/s\t")
	for _, f := range rows {
		if f == nil {
			continue
		}
		late := int64(0)
		for _, n := range f.late {
			late += n
		}
		call := max(f.longest[byAllow], f.longest[byAll], f.longest[byReserve])
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t%v\t%v\t%d\t%v\t%v\t%.1f\t\n", f.name, f.struck, f.calls, f.admitted,
			f.denied, f.errors, f.tokens, f.stored, f.over, f.lost, f.rows, rounded(call), rounded(f.longest[byTx]), rounded(f.lag), late,
			rounded(f.closing), rounded(f.back), f.opened)
	}
	w.Flush()
	return text.String()
}

func rounded(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
