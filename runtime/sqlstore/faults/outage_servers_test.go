package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// site is the servers of one part of TestFaults.
type site struct {
	own *own
	// pooler is nil if clients connect to the servers directly.
	pooler  *own
	driver  string
	dialect string
	// dsns has the data source name of each node, and direct is that of the server behind a pooler, or of the standby, which
	// the promoted one is in the end.
	dsns   []string
	direct string
	// endpoints are the addresses of the nodes for clients, and pids the files with the process ids of their servers.
	endpoints []endpoint
	pids      []string
}

// endpoint is the address and port of a server.
type endpoint struct {
	host string
	port int
}

// fault is a failure of a server, the network or a client.
type fault struct {
	name string
	// lasts is the time from strike to repair.
	lasts time.Duration
	// strike begins the fault, and repair ends it. repair is nil if the fault ends by itself, or never.
	strike, repair func() error
	// permanent: the server does not come back, and clients must use another.
	permanent bool
	// silences is the endpoint that does not respond for so long that, in the end, processes connect to it for probes only.
	silences *endpoint
	// client is the fate of one of the processes of the load.
	client clientFault
}

// clientFault is the fate of a process of the load during a fault.
type clientFault int

const (
	goesOn clientFault = iota
	isKilled
	isClosed
)

// outages is how long faults last. A long of 0 leaves the long ones out.
type outages struct{ short, long time.Duration }

// newPostgres starts a Postgres, with or without a standby.
func newPostgres(t *testing.T, driver string, standby bool) *site {
	s := startSite(t, "postgres")
	s.driver, s.dialect = driver, "postgres"
	dsn := fmt.Sprintf("host=127.0.0.2 port=%d user=postgres dbname=postgres sslmode=disable", s.own.port(0))
	s.endpoints = []endpoint{{"127.0.0.2", s.own.port(0)}}
	s.pids = []string{filepath.Join(s.own.dir, "pid")}
	if standby {
		require.NoError(t, s.own.run("standby", strconv.Itoa(s.own.port(0))))
		// Without connect_timeout, drivers wait for a host that drops packets for as long as they may connect at all.
		dsn = fmt.Sprintf("host=127.0.0.2,127.0.0.2 port=%d,%d user=postgres dbname=postgres sslmode=disable "+
			"target_session_attrs=read-write connect_timeout=1", s.own.port(0), s.own.port(1))
		s.direct = fmt.Sprintf("host=127.0.0.2 port=%d user=postgres dbname=postgres sslmode=disable", s.own.port(1))
	}
	s.dsns = []string{dsn}
	return s
}

// newPooled starts a Postgres behind a PgBouncer of a kind, in a pool mode. Clients connect to the pooler, which is
// node 0; node 1 is the server.
func newPooled(t *testing.T, driver, kind, mode string) *site {
	s := newPostgres(t, driver, false)
	s.pooler = &own{script: "./server.sh", args: []string{kind, strconv.Itoa(s.own.port(0)), mode}}
	t.Cleanup(s.pooler.remove)
	needOwn(t, s.pooler.start())
	at := endpoint{"127.0.0.1", s.pooler.port(0)}
	s.direct = s.dsns[0]
	s.dsns = []string{fmt.Sprintf("postgres://postgres@%s:%d/postgres?sslmode=disable", at.host, at.port)}
	if driver == "pgx" && mode == "transaction" && kind == "pgbouncer" {
		s.dsns[0] += "&default_query_exec_mode=exec" // the installed one does not track prepared statements
	}
	s.endpoints = []endpoint{at}
	s.pids = append([]string{filepath.Join(s.pooler.dir, "pid")}, s.pids...)
	return s
}

// newMySQL starts a server of a kind: "mariadb" or "mysql".
func newMySQL(t *testing.T, kind string) *site {
	s := startSite(t, kind)
	s.driver, s.dialect = "mysql", kind
	s.addMySQLNode(s.own.port(0), "pid")
	return s
}

// newGalera starts a cluster of three nodes.
func newGalera(t *testing.T) *site {
	s := &site{own: &own{script: "./galera.sh"}, driver: "mysql", dialect: "mariadb"}
	t.Cleanup(s.own.remove)
	needOwn(t, s.own.start())
	for n := 1; n <= galeraNodes; n++ {
		s.addMySQLNode(s.own.port(n), fmt.Sprintf("%d/pid", n))
	}
	return s
}

func (s *site) addMySQLNode(port int, pid string) {
	s.dsns = append(s.dsns, fmt.Sprintf("root@tcp(127.0.0.1:%d)/test", port))
	s.endpoints = append(s.endpoints, endpoint{"127.0.0.1", port})
	s.pids = append(s.pids, filepath.Join(s.own.dir, pid))
}

func startSite(t *testing.T, kind string) *site {
	s := &site{own: &own{script: "./server.sh", args: []string{kind}}}
	t.Cleanup(s.own.remove)
	needOwn(t, s.own.start())
	return s
}

// usual returns the faults of all databases, for a client or node i.
func (s *site) usual(i int, o outages) []fault {
	e := s.endpoints[i]
	requests, answers := "-d %s --dport %d", "-s %s --sport %d"
	all := []fault{
		{name: "client killed", client: isKilled},
		e.firewall("connections reset", o.short/10, goesOn, "REJECT --reject-with tcp-reset", requests),
		e.firewall("answers dropped", o.short, isKilled, "DROP", answers),
		e.firewall("packets dropped", o.short, isClosed, "DROP", requests, answers),
		{name: "server frozen", lasts: o.short, client: isClosed,
			strike: func() error { return s.signal(i, "STOP") }, repair: func() error { return s.signal(i, "CONT") }},
	}
	if o.long > 0 {
		long := e.firewall("packets dropped for long", o.long, isClosed, "DROP", requests, answers)
		long.silences = &e
		all = append(all, long)
	}
	return all
}

// crashes kills the server, and the pooler if there is one, and restarts them.
func (s *site) crashes(o outages) (all []fault) {
	crash := func(name string, of *own, i int) {
		all = append(all, fault{name: name + " killed", lasts: o.short / 4, client: isKilled,
			strike: func() error { return s.signal(i, "KILL") }, repair: func() error { return of.run("again") }})
	}
	crash("server", s.own, len(s.pids)-1)
	if s.pooler != nil {
		crash("pooler", s.pooler, 0)
	}
	return all
}

// isolate disconnects the standby from its primary, so that commits wait.
func (s *site) isolate(o outages) fault {
	e := endpoint{"127.0.0.1", s.own.port(0)}
	return e.firewall("standby cut off", o.short, goesOn, "DROP", "-d %s --dport %d", "-s %s --sport %d")
}

// failOver promotes the standby after the primary was killed, or has fallen silent.
func (s *site) failOver(o outages, silently bool) []fault {
	cutOff := s.isolate(o)
	repair := cutOff.repair
	cutOff.repair = nil // not before the primary is killed: until then, commits must not reach the standby
	e := s.endpoints[0]
	silence := e.firewall("", 0, goesOn, "DROP", "-d %s --dport %d", "-s %s --sport %d")
	return []fault{cutOff, {name: "failover", permanent: true, strike: func() error {
		if silently {
			if err := silence.strike(); err != nil {
				return err
			}
		}
		if err := s.signal(0, "KILL"); err != nil {
			return err
		}
		if err := repair(); err != nil {
			return err
		}
		return s.own.run("promote")
	}}}
}

// rejoin kills a node of the cluster, which then joins again.
func (s *site) rejoin(node int) fault {
	n := strconv.Itoa(node)
	return fault{name: "node killed", strike: func() error { return s.own.run("kill", n) },
		repair: func() error { return s.own.run("rejoin", n) }}
}

// firewall returns a fault that applies a target of iptables to packets that match.
func (e endpoint) firewall(name string, lasts time.Duration, client clientFault, target string, matches ...string) fault {
	change := func(command string) func() error {
		return func() error {
			for _, match := range matches {
				rule := fmt.Sprintf("-w %s INPUT -p tcp "+match+" -j %s", command, e.host, e.port, target)
				if out, err := exec.Command("iptables", strings.Fields(rule)...).CombinedOutput(); err != nil {
					return fmt.Errorf("iptables %s: %w\n%s", rule, err, out)
				}
			}
			return nil
		}
	}
	return fault{name: name, lasts: lasts, client: client, strike: change("-I"), repair: change("-D")}
}

// countOpened counts the connections that clients try to open to the endpoint from now on. opened returns the count.
func (e endpoint) countOpened() (opened func() (int, error), err error) {
	run := func(command string) (string, error) {
		out, err := exec.Command("iptables", strings.Fields("-w "+command)...).CombinedOutput()
		return string(out), err
	}
	// TCP repeats the packet that opens a connection: only the first one from a port counts.
	_, err = run(fmt.Sprintf("-I INPUT -p tcp -d %s --dport %d --syn -m hashlimit --hashlimit-name opened --hashlimit-mode srcport "+
		"--hashlimit-upto 1/hour --hashlimit-burst 1 --hashlimit-htable-expire 3600000", e.host, e.port))
	return func() (n int, err error) {
		text, err := run("-n -v -x -L INPUT 1")
		if err == nil {
			_, err = fmt.Sscan(text, &n)
		}
		return n, err
	}, err
}

// signal sends a signal to all processes of a server.
func (s *site) signal(i int, name string) error {
	leader, err := processIn(s.pids[i])
	if err != nil {
		return err
	}
	if name != "CONT" {
		// Stopped first, so that it does not start processes meanwhile.
		if err := exec.Command("kill", "-s", "STOP", leader).Run(); err != nil {
			return err
		}
	}
	files, err := filepath.Glob("/proc/" + leader + "/task/*/children")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, child := range strings.Fields(string(text)) {
			_ = exec.Command("kill", "-s", name, child).Run() // it may have ended
		}
	}
	return exec.Command("kill", "-s", name, leader).Run()
}

// logs returns the ends of the servers' logs.
func (s *site) logs() string {
	var all strings.Builder
	for _, pid := range s.pids {
		for _, name := range []string{"log", "primary/log", "primary/standby/log"} {
			name = filepath.Join(filepath.Dir(pid), name)
			text, err := os.ReadFile(name)
			if err != nil {
				continue // another kind of server, or one without a standby
			}
			fmt.Fprintf(&all, "%s:\n%s\n", name, text[max(0, len(text)-2000):])
		}
	}
	return all.String()
}

// processIn reads a file with a process id.
func processIn(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(text))
	if len(fields) == 0 {
		return "", fmt.Errorf("%s is empty", file)
	}
	return fields[0], nil
}
