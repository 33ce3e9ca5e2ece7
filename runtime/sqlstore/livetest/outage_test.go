package livetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
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
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// TestFaults takes tokens from several processes while servers, connections and processes fail. Of each database it
// requires that
//
//   - no key gives more tokens than it has: stored <= capacity, and so is what was acknowledged;
//   - no token is lost: acknowledged <= stored, and of transactions also the rows of the caller's == stored;
//   - no call takes longer than its timeout and 100 ms, and Close no longer than 10 s. On a busy machine, what timers of
//     the same process fired late meanwhile is deducted, and printed as the lag;
//   - calls are answered again soon after each fault.
//
// It prints a table of the figures. The servers and the load run in a network namespace of their own, where packets can
// be dropped, which takes root.
func TestFaults(t *testing.T) {
	if os.Getenv(namespaceEnv) == "" {
		inNamespace(t)
		return
	}
	var rows []*figures
	defer func() { t.Log("all figures:\n" + tableOf(rows...)) }()
	for _, p := range outageParts() {
		t.Run(p.name, func(t *testing.T) {
			if p.long && !*long {
				t.Skip("run it with -long")
			}
			rows = append(rows, runOutages(t, p))
		})
	}
}

// outagePart is a database, and what fails there.
type outagePart struct {
	name   string
	start  func(t *testing.T) *site
	faults func(s *site, o outages) []fault
	long   bool
}

func outageParts() (all []outagePart) {
	crashing := func(s *site, o outages) []fault { return append(s.usual(0, o), s.crashes(o)...) }
	for _, driver := range []string{"pgx", "postgres"} {
		name := map[string]string{"pgx": "postgres-pgx", "postgres": "postgres-pq"}[driver]
		all = append(all,
			outagePart{name, func(t *testing.T) *site { return newPostgres(t, driver, false) }, crashing, true})
		for _, pooler := range []struct{ kind, mode string }{
			{"pgbouncer", "session"}, {"pgbouncer", "transaction"}, {"pgbouncer-1.26", "transaction"},
		} {
			all = append(all, outagePart{strings.Join([]string{name, pooler.kind, pooler.mode}, "-"),
				func(t *testing.T) *site { return newPooled(t, driver, pooler.kind, pooler.mode) }, crashing, true})
		}
		for how, silently := range map[string]bool{"killed": false, "silent": true} {
			all = append(all, outagePart{name + "-primary-" + how,
				func(t *testing.T) *site { return newPostgres(t, driver, true) },
				func(s *site, o outages) []fault { return s.failOver(o, silently) }, driver == "postgres" || silently})
		}
	}
	for _, kind := range []string{"mariadb", "mysql"} {
		all = append(all, outagePart{kind, func(t *testing.T) *site { return newMySQL(t, kind) }, crashing, kind == "mysql"})
	}
	onCluster := func(s *site, o outages) []fault { return append(s.usual(1, o), s.rejoin(3)) }
	all = append(all, outagePart{"galera", newGalera, onCluster, true})
	slices.SortStableFunc(all, func(a, b outagePart) int { return strings.Compare(a.name, b.name) })
	return all
}

// namespaceEnv is set in a process that has a network of its own.
const namespaceEnv = "RATELIMITGEN_TEST_NAMESPACE"

// inNamespace runs the test again in a network namespace.
func inNamespace(t *testing.T) {
	const script = `ip link set lo up && iptables -L >/dev/null && exec "$@"`
	if err := exec.Command("unshare", "--net", "sh", "-c", script, "sh", "true").Run(); err != nil {
		needOwn(t, fmt.Errorf("%w: a network namespace with iptables: %w", errNotInstalled, err))
	}
	args := []string{"--net", "sh", "-c", script, "sh", os.Args[0], "-test.v", fmt.Sprintf("-long=%v", *long),
		"-test.run=" + cmp.Or(flag.Lookup("test.run").Value.String(), "^TestFaults$"), "-test.timeout=30m"}
	if !strings.HasPrefix(strings.TrimPrefix(args[8], "-test.run="), "TestFaults") {
		args[8] = "-test.run=^TestFaults$"
	}
	var out bytes.Buffer
	cmd := exec.Command("unshare", args...)
	cmd.Env = append(os.Environ(), namespaceEnv+"=1")
	cmd.Stdout, cmd.Stderr = &out, &out
	if testing.Verbose() {
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	}
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// outageRun is a part that is running.
type outageRun struct {
	*site
	t      *testing.T
	course outageCourse
	// started is how many processes of the load were started.
	started   int
	processes []*outageProcess
	// struck is how many faults there were, and repaired when those were over that have an end, by their names.
	struck   int
	repaired []time.Duration
	names    []string
}

// outageProcess is a process of the load.
type outageProcess struct {
	cmd   *exec.Cmd
	alive io.Closer
}

const outageProcesses = 3

// runOutages runs the load on a site through its faults, and compares what it recorded with what is stored.
func runOutages(t *testing.T, p outagePart) *figures {
	o := outages{short: 1300 * time.Millisecond}
	if *long {
		o = outages{short: 3 * time.Second, long: 15 * time.Second}
	}
	r := &outageRun{site: p.start(t), t: t}
	r.prepare()
	for range outageProcesses {
		r.startProcess()
	}
	time.Sleep(o.short)
	for _, f := range p.faults(r.site, o) {
		r.run(f)
		if f.repair != nil || f.permanent {
			r.awaitAnswers()
		}
		time.Sleep(o.short / 2)
	}
	for _, process := range r.processes {
		process.alive.Close()
	}
	for _, process := range r.processes {
		process.wait(t)
	}
	return r.audit(p.name)
}

// prepare creates the tables.
func (r *outageRun) prepare() {
	table := newTable()
	for _, dsn := range r.dsns {
		r.course.Nodes = append(r.course.Nodes, address{r.driver, dsn, r.dialect, table})
	}
	r.course.Log, r.course.Start = r.t.TempDir(), time.Now()
	first := r.server(0)
	db := first.open(r.t)
	store, err := sqlstore.New(db, first.dialect, sqlstore.Options{Table: table})
	require.NoError(r.t, err)
	require.NoError(r.t, store.Migrate(r.t.Context()))
	number := map[string]string{"mysql": "BIGINT AUTO_INCREMENT"}[r.driver]
	_, err = db.Exec(fmt.Sprintf("CREATE TABLE %s (id %s PRIMARY KEY, place INT NOT NULL, k INT NOT NULL, n INT NOT NULL)",
		r.course.ownRows(), cmp.Or(number, "BIGSERIAL")))
	require.NoError(r.t, err)
	require.NoError(r.t, store.Close())
	for i := range r.dsns[1:] {
		r.server(i+1).join(r.t, r.server(i+1).open(r.t), table, nil)
	}
}

// server returns node i.
func (r *outageRun) server(i int) server {
	a := r.course.Nodes[i]
	return server{r.dialect, a.Driver, a.DSN, a.dialect()}
}

// startProcess starts a process of the load.
func (r *outageRun) startProcess() {
	c := r.course
	c.Log = filepath.Join(c.Log, fmt.Sprint(r.started))
	r.started++
	text, err := json.Marshal(c)
	require.NoError(r.t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), outageEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	alive, err := cmd.StdinPipe()
	require.NoError(r.t, err)
	require.NoError(r.t, cmd.Start())
	r.processes = append(r.processes, &outageProcess{cmd, alive})
}

// wait waits for a process that was told to stop.
func (p *outageProcess) wait(t *testing.T) {
	timer := time.AfterFunc(5*closeTimeout, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	assert.NoError(t, p.cmd.Wait(), "a process of the load")
}

// run has a fault strike, and one of the processes be killed or closed meanwhile and replaced by another.
func (r *outageRun) run(f fault) {
	r.t.Logf("%v: %s", time.Since(r.course.Start).Round(time.Millisecond), f.name)
	r.struck++
	if f.strike != nil {
		require.NoError(r.t, f.strike(), "%s\n%s", f.name, r.logs())
	}
	begin := time.Now()
	time.Sleep(f.lasts / 3)
	if f.client != goesOn {
		oldest := r.processes[0]
		r.processes = r.processes[1:]
		if f.client == isKilled {
			require.NoError(r.t, oldest.cmd.Process.Kill())
			require.Error(r.t, oldest.cmd.Wait())
		} else {
			oldest.alive.Close()
			defer oldest.wait(r.t)
		}
		r.startProcess()
	}
	time.Sleep(f.lasts - time.Since(begin))
	if f.repair != nil {
		require.NoError(r.t, f.repair(), "%s\n%s", f.name, r.logs())
	}
	if f.repair != nil || f.permanent {
		r.names, r.repaired = append(r.names, f.name), append(r.repaired, time.Since(r.course.Start))
	}
}

// awaitAnswers waits until calls are answered again, or for as long as that may take.
func (r *outageRun) awaitAnswers() {
	since := time.Since(r.course.Start)
	for time.Since(r.course.Start) < since+outageResumes+time.Second {
		files, err := filepath.Glob(filepath.Join(r.course.Log, "*"))
		require.NoError(r.t, err)
		for _, file := range files {
			if e, ok := lastEntry(r.t, file); ok && e.answered() && e.at > since {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// lastEntry returns the last whole entry of a file.
func lastEntry(t *testing.T, name string) (entry, bool) {
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	text = bytes.TrimSuffix(text, []byte("\n"))
	return parseEntry(string(text[bytes.LastIndexByte(text, '\n')+1:]))
}

// figures are what came of a part.
type figures struct {
	name                            string
	calls, admitted, denied, errors int64
	// tokens are those acknowledged, and stored those that are taken in the database.
	tokens, stored int64
	over, lost     int64
	// rows is by how many tokens the rows of transactions differ from what is stored.
	rows int64
	// longest are the calls that took longest, by method, lag is how late timers fired, and late how many calls took
	// longer than they may without it.
	longest                   map[method]time.Duration
	lag                       time.Duration
	late                      map[method]int64
	closing, back             time.Duration
	messages                  map[string]int
	acknowledged, transacted  map[spot]int64
	firstAnswers, outageNames []string
	struck                    int
}

// spot is a key of a limit.
type spot struct{ place, key int }

// audit compares the records with what is stored.
func (r *outageRun) audit(name string) *figures {
	f := &figures{name: name, longest: map[method]time.Duration{}, late: map[method]int64{}, messages: map[string]int{},
		acknowledged: map[spot]int64{}, transacted: map[spot]int64{}, outageNames: r.names, struck: r.struck}
	limits := outageLimits()
	f.read(r.t, r.course.Log, limits, r.repaired)
	balances := r.balances(f, limits)
	for s, acknowledged := range f.acknowledged {
		l, stored := limits[s.place], balances[s]
		f.tokens, f.stored = f.tokens+acknowledged, f.stored+stored
		f.over += max(0, stored-l.most(), acknowledged-l.most())
		f.lost += max(0, acknowledged-stored)
		if l.method == byTx {
			f.rows += max(stored-f.transacted[s], f.transacted[s]-stored)
		}
	}
	assert.Zero(r.t, f.over, "tokens beyond the capacity")
	assert.Zero(r.t, f.lost, "tokens acknowledged but not stored")
	assert.Zero(r.t, f.rows, "difference between the caller's rows and the tokens taken with them")
	assert.Empty(r.t, f.late, "calls that took longer than %v and %v; the longest: %v", outageTimeout, outageSlack, f.longest)
	assert.LessOrEqual(r.t, f.closing, closeTimeout, "longest Close")
	assert.LessOrEqual(r.t, f.back, outageResumes, "time without an answer after a fault was repaired")
	assert.NotZero(r.t, f.denied, "no key was exhausted")
	assert.NotZero(r.t, f.errors, "there were no faults")
	r.t.Log("\n" + tableOf(f))
	for _, text := range slices.Sorted(maps.Keys(f.messages)) {
		r.t.Logf("%6d times: %s", f.messages[text], text)
	}
	return f
}

// read adds up what the processes recorded.
func (f *figures) read(t *testing.T, dir string, limits []*outageLimit, repaired []time.Duration) {
	places := map[*outageLimit]int{}
	for i, l := range limits {
		places[l] = i
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	var answers []time.Duration
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
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

// particulars are what differs between errors of one cause.
var particulars = regexp.MustCompile(`limit "[^"]*"|[0-9.]+:[0-9]+|\([0-9]+ms\)`)

// add adds a call.
func (f *figures) add(e entry, limits []*outageLimit, places map[*outageLimit]int) {
	f.calls++
	l := limits[e.place]
	f.longest[l.method] = max(f.longest[l.method], e.took)
	f.lag = max(f.lag, e.lag)
	if e.took-e.lag > outageTimeout+outageSlack {
		f.late[l.method]++
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
	s := upToDate([]server{r.server(0), r.server(0)})[0]
	if len(r.dsns) == 1 {
		s = r.server(0)
	}
	db := s.open(r.t)
	db.SetMaxOpenConns(connections)
	store, err := sqlstore.New(db, s.dialect, sqlstore.Options{Table: r.course.Nodes[0].Table})
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
	return peekAll(r.t, runtime.NewLimiter(store), limits, slices.Collect(maps.Keys(f.acknowledged)))
}

// peekAll returns how many tokens are taken from each of many keys.
func peekAll(t *testing.T, limiter *runtime.Limiter, limits []*outageLimit, spots []spot) map[spot]int64 {
	taken, queue := map[spot]int64{}, make(chan spot)
	var mu sync.Mutex
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for s := range queue {
				p := *limits[s.place].policy
				p.Timeout = 0
				b, err := limiter.Limit(&p, keyOf(s.key)).Peek(context.Background())
				assert.NoError(t, err)
				mu.Lock()
				// What has accrued since the beginning is far less than half a token.
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
	return taken
}

// tableOf returns the figures of all parts as a table.
func tableOf(rows ...*figures) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "database\tfaults\tcalls\tadmitted\tdenied\terrors\ttokens\tstored\tover\tlost\trows off\tlongest call\tlongest tx\tlag\tlate\tClose\tback\t")
	for _, f := range rows {
		if f == nil {
			continue
		}
		late := int64(0)
		for _, n := range f.late {
			late += n
		}
		call := max(f.longest[byAllow], f.longest[byAll], f.longest[byReserve])
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t%v\t%v\t%d\t%v\t%v\t\n", f.name, f.struck, f.calls, f.admitted,
			f.denied, f.errors, f.tokens, f.stored, f.over, f.lost, f.rows, rounded(call), rounded(f.longest[byTx]), rounded(f.lag), late,
			rounded(f.closing), rounded(f.back))
	}
	w.Flush()
	return text.String()
}

func rounded(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
