package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// manyProcesses is how many processes share the callers.
const manyProcesses = 4

// processCallers is how many callers all processes have together, and processKeys the numbers of keys.
const processCallers = 512

var processKeys = []int{1, 100, 10_000}

// shared are the contenders that are measured in several processes.
var shared = []string{oursPostgres, oursMariaDB}

func inProcesses(contender string) string {
	return fmt.Sprintf("%s, %d processes", contender, manyProcesses)
}
func inOneProcess(contender string) string { return contender + ", 1 process" }

// processRatios compares several processes with one. Only the first has an aim.
func processRatios() (all []ratio) {
	for _, name := range shared {
		for _, keys := range processKeys {
			q := ratio{inProcesses(name), inOneProcess(name), processCallers, keys, 0, serverTimes}
			if name == oursPostgres && keys == 10_000 {
				q.aim = 1.15
			}
			all = append(all, q)
			q.aim, q.by = 0, speed
			all = append(all, q)
		}
	}
	return all
}

// measureProcesses measures the same callers in one process and in several.
func (r *report) measureProcesses(ctx context.Context, s *site, p plan) error {
	for _, name := range shared {
		c, _ := find(name)
		if r.NotRun[name] != "" || ctx.Err() != nil || !p.runs(inProcesses(name)) {
			continue
		}
		logf("%s", inProcesses(name))
		if err := r.measureTeam(ctx, s, p, c); err != nil {
			r.skip(inProcesses(name), err)
		}
	}
	return ctx.Err()
}

// measureTeam measures a contender under each load, in turns of one process and of all.
func (r *report) measureTeam(ctx context.Context, s *site, p plan, c contender) error {
	o, err := c.open(ctx, &site{servers: s.servers, dir: s.dir, rows: processKeys[len(processKeys)-1]}, plenty)
	if err != nil {
		return err
	}
	defer o.close()
	if o.meter, err = s.meterOf(ctx, c.server); err != nil {
		logf("%s: no CPU times: %v", c.name, err)
	}
	t := &team{instance: o}
	defer t.stop()
	for range manyProcesses - 1 {
		if err := t.start(c.server, s.servers); err != nil {
			return err
		}
	}
	for _, keys := range processKeys {
		l := load{callers: processCallers, keys: keysOf(keys, keys), allowed: true}
		// The first round of the other processes opens their connections.
		if _, err := t.measure(l, p.pace); err != nil {
			return err
		}
		var one, many []round
		for turn := range p.turns {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			for i := range 2 {
				if i == turn%2 {
					single, err := measureStalls(o.take, l, p.pace, o.meter)
					if err != nil {
						return err
					}
					one = append(one, single)
					continue
				}
				all, err := t.measure(l, p.pace)
				if err != nil {
					return err
				}
				many = append(many, all)
			}
		}
		r.add(newCell(inOneProcess(c.name), l, one), newCell(inProcesses(c.name), l, many))
	}
	return nil
}

// team is an instance in this process, and members: other processes that use its table.
type team struct {
	*instance
	members []*member
}

// member is another process of the benchmark.
type member struct {
	command *exec.Cmd
	orders  *json.Encoder
	results *json.Decoder
	end     io.Closer
}

// asMember is the variable of the environment that makes this program a member.
const asMember = "RATELIMITGEN_BENCH_MEMBER"

// membership is the first message to a member: the table to use.
type membership struct {
	Server server `json:"server"`
	DSN    string `json:"dsn"`
	Table  string `json:"table"`
}

// order is a message to a member: a round to run.
type order struct {
	Callers int           `json:"callers"`
	First   int           `json:"first"`
	Keys    int           `json:"keys"`
	LeadIn  time.Duration `json:"leadIn"`
	Length  time.Duration `json:"length"`
}

// share is the answer of a member: its part of a round.
type share struct {
	Decisions int           `json:"decisions"`
	PerSecond float64       `json:"perSecond"`
	Failed    float64       `json:"failed"`
	Own       time.Duration `json:"own"`
	Error     string        `json:"error,omitempty"`
}

// start starts a member.
func (t *team) start(of server, servers servers) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	dsn, err := servers.dsn(of)
	if err != nil {
		return err
	}
	command := exec.Command(program)
	command.Env = append(os.Environ(), asMember+"=1")
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	m := &member{command, json.NewEncoder(in), json.NewDecoder(out), in}
	t.members = append(t.members, m)
	return m.orders.Encode(membership{of, dsn, t.table})
}

// stop ends the members, and waits for them.
func (t *team) stop() {
	for _, m := range t.members {
		closeAndLog(m.end)
		if err := m.command.Wait(); err != nil {
			logf("a process of the benchmark: %v", err)
		}
	}
}

// measure runs a round in all processes at once, each with an equal part of the callers. Decisions and processor times are
// added up. Latencies are those of this process, and failed calls those of the process that has most.
func (t *team) measure(l load, p pace) (round, error) {
	l.callers /= len(t.members) + 1
	for i, m := range t.members {
		if err := m.orders.Encode(order{l.callers, (i + 1) * l.callers, len(l.keys), p.leadIn, p.length}); err != nil {
			return round{}, fmt.Errorf("another process of the benchmark: %w", err)
		}
	}
	r, err := measureStalls(t.take, l, p, t.meter)
	for _, m := range t.members {
		var s share
		if failed := m.results.Decode(&s); failed != nil {
			return round{}, fmt.Errorf("another process of the benchmark: %w", errors.Join(failed, err))
		}
		if s.Error != "" {
			err = errors.Join(err, errors.New(s.Error))
		}
		r.add(s)
	}
	return r, err
}

// add adds the part of another process.
func (r *round) add(s share) {
	r.decisions += s.Decisions
	r.perSecond += s.PerSecond
	r.failed = max(r.failed, s.Failed)
	r.used.own += s.Own
}

// runMember runs the rounds that another process orders, until in ends.
func runMember(in io.Reader, out io.Writer) error {
	orders, results := json.NewDecoder(in), json.NewEncoder(out)
	var m membership
	if err := orders.Decode(&m); err != nil {
		return err
	}
	o, err := m.open()
	if err != nil {
		return err
	}
	defer o.close()
	for {
		var next order
		err := orders.Decode(&next)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := results.Encode(next.run(o)); err != nil {
			return err
		}
	}
}

// open opens a store on the table of another process, which drops it.
func (m membership) open() (*instance, error) {
	t := &table{dialect: dialects[m.Server], name: m.Table}
	var err error
	if t.db, err = sql.Open(driverOf(m.Server), m.DSN); err != nil {
		return nil, err
	}
	t.pool(serverConns)
	return t.openOurs(variant{}, plenty, func() { closeAndLog(t.db) })
}

func (next order) run(o *instance) share {
	l := load{callers: next.Callers, keys: keysOf(next.Keys, next.Keys), allowed: true, first: next.First}
	own := func() split { return split{own: ownTime()} }
	r, err := measureStalls(o.take, l, pace{next.LeadIn, next.Length, 1}, own)
	s := share{Decisions: r.decisions, PerSecond: r.perSecond, Failed: r.failed, Own: r.used.own}
	if err != nil {
		s.Error = err.Error()
	}
	return s
}
