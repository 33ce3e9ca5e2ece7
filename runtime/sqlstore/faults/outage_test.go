package faults

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// TestFaults takes tokens from several processes while servers, connections and processes fail. For each database it
// requires that
//
//   - no key grants more tokens than it has: stored <= capacity, and acknowledged <= capacity;
//   - no token is lost: acknowledged <= stored, and the rows of the callers' transactions == stored;
//   - no call takes longer than its timeout and 100 ms, and Close no longer than 10 s. On a busy machine, the lag of
//     timers of the same process is deducted, and printed, and so is the lateness of a call that only waits;
//   - calls are answered again soon after each fault.
//
// It prints a table of the figures. The servers and the load run in a network namespace of their own, in which packets
// can be dropped. That requires root.
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

// outagePart is a database and its faults.
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

// namespaceEnv is set in the process that runs in the network namespace.
const namespaceEnv = "RATELIMITGEN_TEST_NAMESPACE"

// inNamespace runs the test again in a network namespace.
func inNamespace(t *testing.T) {
	const script = `ip link set lo up && iptables -L >/dev/null && exec "$@"`
	if *long {
		// In the namespace there is no way to get it.
		if out, err := exec.Command("./server.sh", "get", "pgbouncer-1.26").CombinedOutput(); err != nil {
			needOwn(t, fmt.Errorf("get pgbouncer-1.26: %w\n%s", err, out))
		}
	}
	if err := exec.Command("unshare", "--net", "sh", "-c", script, "sh", "true").Run(); err != nil {
		needOwn(t, fmt.Errorf("%w: a network namespace with iptables: %w", errNotInstalled, err))
	}
	parts := ""
	if _, after, ok := strings.Cut(flag.Lookup("test.run").Value.String(), "TestFaults/"); ok {
		parts = "/" + after
	}
	var out bytes.Buffer
	cmd := exec.Command("unshare", "--net", "sh", "-c", script, "sh", os.Args[0], "-test.v", fmt.Sprintf("-long=%v", *long),
		"-test.run=^TestFaults$"+parts, "-test.timeout=40m")
	cmd.Env = append(os.Environ(), namespaceEnv+"=1")
	cmd.Stdout, cmd.Stderr = &out, &out
	if testing.Verbose() {
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	}
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// outageRun is the state of a part.
type outageRun struct {
	*site
	t      *testing.T
	course outageCourse
	// started is how many processes of the load were started.
	started   int
	processes []*outageProcess
	// struck counts the faults. repaired is when faults were repaired, and names are the names of these.
	struck int
	// opened is how many connections clients tried to open per second at the end of a long silence.
	opened   float64
	repaired []time.Duration
	names    []string
}

// outageProcess is a process of the load.
type outageProcess struct {
	cmd   *exec.Cmd
	alive io.Closer
}

const outageProcesses = 3

// runOutages runs the load on a site through its faults, and compares the records with the rows.
func runOutages(t *testing.T, p outagePart) *figures {
	o := outages{short: 1300 * time.Millisecond}
	if *long {
		o = outages{short: 3 * time.Second, long: 15 * time.Second}
	}
	// The rules for a silent host remain until the end of its part.
	t.Cleanup(func() { assert.NoError(t, exec.Command("iptables", "-w", "-F", "INPUT").Run()) })
	r := &outageRun{site: p.start(t), t: t}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(r.logs())
		}
	})
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
	table := live.NewTable()
	all := dialect.All()
	is := slices.IndexFunc(all, func(d dialect.Dialect) bool { return d.Name == r.dialect })
	for _, dsn := range r.dsns {
		r.course.Nodes = append(r.course.Nodes, live.Server{Name: r.dialect, Driver: r.driver, DSN: dsn, Dialect: all[is]})
	}
	r.course.Table = table
	r.course.Log, r.course.Start = r.t.TempDir(), time.Now()
	first := r.course.Nodes[0]
	db := first.Open(r.t)
	store, err := agree.NewStore(db, first.Dialect, sqlstore.Options{Table: table})
	require.NoError(r.t, err)
	require.NoError(r.t, store.Migrate(r.t.Context()))
	number := map[string]string{"mysql": "BIGINT AUTO_INCREMENT"}[r.driver]
	_, err = db.Exec(fmt.Sprintf("CREATE TABLE %s (id %s PRIMARY KEY, place INT NOT NULL, k INT NOT NULL, n INT NOT NULL)",
		r.course.ownRows(), cmp.Or(number, "BIGSERIAL")))
	require.NoError(r.t, err)
	require.NoError(r.t, store.Close())
	for _, s := range r.course.Nodes[1:] {
		s.Join(r.t, s.Open(r.t), table, nil)
	}
}

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

// wait waits for a process whose standard input was closed.
func (p *outageProcess) wait(t *testing.T) {
	timer := time.AfterFunc(5*closeTimeout, func() { p.cmd.Process.Kill() })
	defer timer.Stop()
	assert.NoError(t, p.cmd.Wait(), "a process of the load")
}

// run runs a fault. Meanwhile, one of the processes may be killed or closed, and replaced.
func (r *outageRun) run(f fault) {
	r.t.Logf("%v: %s", time.Since(r.course.Start).Round(time.Millisecond), f.name)
	r.struck++
	if f.strike != nil {
		require.NoError(r.t, f.strike(), f.name)
	}
	begin, opened := time.Now(), func() (int, error) { return 0, nil }
	if f.silences != nil {
		var err error
		opened, err = f.silences.countOpened()
		require.NoError(r.t, err)
	}
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
	time.Sleep(2*f.lasts/3 - time.Since(begin))
	before, err := opened()
	require.NoError(r.t, err)
	since := time.Now()
	time.Sleep(f.lasts - time.Since(begin))
	after, err := opened()
	require.NoError(r.t, err)
	if f.silences != nil {
		r.opened = float64(after-before) / time.Since(since).Seconds()
	}
	if f.repair != nil {
		require.NoError(r.t, f.repair(), f.name)
	}
	if f.repair != nil || f.permanent {
		r.names, r.repaired = append(r.names, f.name), append(r.repaired, time.Since(r.course.Start))
	}
}

// awaitAnswers waits until calls are answered again, or the time for that is over.
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

// lastEntry returns the last complete entry of a file.
func lastEntry(t *testing.T, name string) (entry, bool) {
	file := live.Must(os.Open(name))(t)
	defer file.Close()
	const tail = 4096 // longer than any line
	if end, err := file.Seek(0, io.SeekEnd); err == nil {
		live.Must(file.Seek(max(0, end-tail), io.SeekStart))(t)
	}
	text := live.Must(io.ReadAll(file))(t)
	lines := strings.Split(string(text), "\n")
	return parseEntry(lines[max(0, len(lines)-2)]) // the text after the last newline is incomplete
}
