package faults

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// The load of TestFaults: processes that take tokens while servers fail, and record each call that has ended in a file
// of their own. A call is recorded by one write to the file after it was answered, so that a process killed with
// SIGKILL loses the record of a call at most, never a part of one: a token recorded as taken was acknowledged, and must
// be stored; one that was acknowledged to a process killed at that moment may be missing from the records.

const (
	// outageTimeout is the timeout of calls, and outageSlack how much later they may return.
	outageTimeout = time.Second
	outageSlack   = 100 * time.Millisecond
	// closeTimeout is how long Close may take.
	closeTimeout = 10 * time.Second
	// outageResumes is after how long service counts as lost after a fault. On an idle machine it resumes within 10 s. Behind a
	// pooler, a busy one takes longer: PgBouncer opens its connections to a restarted server one after the other, and gives
	// the first ones to clients that are gone, which pgx takes up to 15 s to close.
	outageResumes = time.Minute
	// generation is how long the load uses a set of keys. One of them is hot: its tokens run out.
	generation     = time.Second
	outageKeys     = 9
	outageCapacity = 60
	outageReserved = 30
	// perLimit is how many goroutines of a process take from each limit.
	perLimit = 2
	// connections is half of how many connections a process has to each node. After a failover, all processes open theirs at
	// once, each within a second or in vain: a machine of two cores starts 24 sessions in that time, but not 48.
	connections = 4
)

// outageLimit is a limit and the method by which the load takes from it.
type outageLimit struct {
	policy *runtime.Policy
	method method
	// with is a limit that is taken in the same call.
	with *outageLimit
}

type method string

const (
	byAllow   method = "allow"
	byAll     method = "all"
	byReserve method = "reserve"
	byTx      method = "tx"
)

// outageLimits returns the limits of the load: every kind, with and without shards and leases, by every method. A
// method has limits of its own, so that the rows written in transactions can be compared with what those took.
func outageLimits() (all []*outageLimit) {
	add := func(p *runtime.Policy, by method) *outageLimit {
		own := *p
		own.Name, own.Timeout = fmt.Sprintf("%s: %s", by, p.Name), outageTimeout
		l := &outageLimit{policy: &own, method: by}
		all = append(all, l)
		return l
	}
	kinds := live.Granting(outageCapacity)
	for _, p := range kinds {
		add(p, byAllow)
	}
	for _, p := range kinds[:3] {
		leased := *p
		leased.Name, leased.Lease = "leased "+p.Name, runtime.Lease{Tokens: 20, For: time.Second}
		add(&leased, byAllow)
	}
	add(kinds[2], byAll).with = add(kinds[0], byAll)
	for _, p := range kinds[:2] {
		add(p, byReserve).policy.MaxReserved = outageReserved
	}
	for _, p := range kinds[:5] {
		add(p, byTx)
	}
	return all
}

// most is the largest number of tokens of a key that can be taken.
func (l *outageLimit) most() int64 { return l.policy.Capacity + l.policy.MaxReserved }

// outageCourse is the table of a process and the file for its records.
type outageCourse struct {
	Nodes []live.Server
	Table string
	Log   string
	// Start is when the first generation of keys begins, in all processes.
	Start time.Time
}

// ownRows is the name of the table into which transactions write a row for each token they take.
func (c outageCourse) ownRows() string { return c.Table + "_own" }

// outageEnv is the environment variable that makes this program a process of the load. Its value is the course.
const outageEnv = "RATELIMITGEN_TEST_OUTAGE"

// takeInOutage is the main function of a process of the load. It takes tokens until the standard input ends, and then
// closes the stores while calls are in flight.
func takeInOutage(text string) error {
	var c outageCourse
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	r, err := newRecorder(c)
	if err != nil {
		return err
	}
	clients, err := c.clients(r)
	if err != nil {
		return err
	}
	go r.watchTimers()
	var stop atomic.Bool
	for i := range perLimit * len(r.limits) {
		l := i % len(r.limits)
		go clients[i%len(clients)].takeUntil(&stop, l)
	}
	io.Copy(io.Discard, os.Stdin)
	stop.Store(true)
	for _, client := range clients {
		client.close()
	}
	r.stuck()
	return nil
}

// outageClient is a store on a node.
type outageClient struct {
	*recorder
	db      *sql.DB
	store   *sqlstore.Store
	limiter *limiter.Limiter
	ownRows string
	insert  string
}

func (c outageCourse) clients(r *recorder) (all []*outageClient, err error) {
	for _, s := range c.Nodes {
		db, err := sql.Open(s.Driver, s.DSN)
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(2 * connections)
		db.SetMaxIdleConns(2 * connections)
		store, err := agree.NewStore(db, s.Dialect, sqlstore.Options{Table: c.Table})
		if err != nil {
			return nil, err
		}
		insert := "INSERT INTO " + c.ownRows() + " (place, k, n) VALUES (?, ?, ?)"
		if s.Driver != "mysql" {
			insert = strings.NewReplacer("?, ?, ?", "$1, $2, $3").Replace(insert)
		}
		all = append(all, &outageClient{r, db, store, limiter.New(store), c.ownRows(), insert})
	}
	return all, nil
}

// takeUntil takes from a limit, one call after the other, mostly from the hot key.
func (c *outageClient) takeUntil(stop *atomic.Bool, place int) {
	for !stop.Load() {
		key, n := int(time.Since(c.start)/generation)*outageKeys, int64(1)
		if rand.N(4) == 0 {
			key += 1 + rand.N(outageKeys-1)
		}
		if rand.N(8) == 0 {
			n = 3
		}
		pause := 20 * time.Millisecond // the machine is shared with the server
		if !c.record(place, key, n, func() (bool, error) { return c.take(place, key, n) }).answered() {
			pause = 200 * time.Millisecond
		}
		time.Sleep(rand.N(pause))
	}
}

// take takes n tokens. Its only timeout is that of the limit, or of the transaction.
func (c *outageClient) take(place, key int, n int64) (taken bool, err error) {
	ctx, l, k := context.Background(), c.limits[place], live.KeyOf(key)
	switch l.method {
	case byAll:
		items := []limiter.Item{c.limiter.Limit(l.policy, k).N(n)}
		if l.with != nil {
			items = append(items, c.limiter.Limit(l.with.policy, k).N(n))
		}
		ds, err := c.limiter.All(ctx, items...)
		return ds.Allowed, err
	case byReserve:
		r, err := c.limiter.Reservable(l.policy, k).ReserveN(ctx, n)
		return err == nil && r.Allowed, err
	case byTx:
		ctx, cancel := context.WithTimeout(ctx, outageTimeout)
		defer cancel()
		err := sqlstore.RunInTx(ctx, c.db, func(tx *sql.Tx) error {
			d, err := c.limiter.WithTx(tx).Limit(l.policy, k).AllowN(ctx, n)
			if taken = d.Allowed; !taken || err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, c.insert, place, key, n)
			return err
		})
		return taken, err
	}
	d, err := c.limiter.Limit(l.policy, k).AllowN(ctx, n)
	return d.Allowed, err
}

// close closes the store, and records the duration.
func (c *outageClient) close() {
	closed, begin := make(chan error, 1), time.Now()
	go func() { closed <- c.store.Close() }()
	select {
	case err := <-closed:
		c.write(entry{outcome: closing, took: time.Since(begin), err: err})
	case <-time.After(2 * closeTimeout):
		c.write(entry{outcome: closing, took: time.Since(begin), err: fmt.Errorf("Close has not returned")})
	}
}

// recorder records the calls of a process.
type recorder struct {
	limits []*outageLimit
	start  time.Time

	mu   sync.Mutex
	file *os.File
	// running has the calls that have not ended.
	running map[*entry]bool
	// lags are the timers that fired late, because the machine was busy. ticked is when the last one fired.
	lags   []lag
	ticked time.Time
}

// lag is by how much a timer fired late, and when.
type lag struct{ at, by time.Duration }

// tick is how often a timer fires that shows by how much timers are late.
const tick = 5 * time.Millisecond

// watchTimers records how late timers fire: the timeout of a call may fire as late.
func (r *recorder) watchTimers() {
	for {
		r.mu.Lock()
		r.ticked = time.Now()
		r.mu.Unlock()
		time.Sleep(tick)
		r.mu.Lock()
		if by := time.Since(r.ticked) - tick; by > tick {
			r.lags = append(r.lags, lag{time.Since(r.start), by})
		}
		r.mu.Unlock()
	}
}

// lagSinceLocked returns the sum of the lags since a time: each step of a call may have waited for the processor.
func (r *recorder) lagSinceLocked(since time.Duration) (sum time.Duration) {
	// The timer that is due may not have fired yet.
	sum = max(0, time.Since(r.ticked)-tick)
	for i := len(r.lags) - 1; i >= 0 && r.lags[i].at >= since; i-- {
		sum += r.lags[i].by
	}
	return sum
}

func newRecorder(c outageCourse) (*recorder, error) {
	file, err := os.OpenFile(c.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	return &recorder{limits: outageLimits(), start: c.Start, file: file, running: map[*entry]bool{}, ticked: time.Now()}, err
}

// outcome is the result of a call.
type outcome string

const (
	allowed outcome = "+"
	denied  outcome = "-"
	failed  outcome = "!"
	// unended: the call did not return before the process ended.
	unended outcome = "?"
	// closing is a call of Close.
	closing outcome = "."
)

// entry is the record of a call.
type entry struct {
	outcome outcome
	// at is when the call ended, since the start.
	at, took time.Duration
	// lag is by how much timers of the process fired late during the call, together, and by how much the call's yardstick
	// exceeded its timeout.
	lag   time.Duration
	place int
	key   int
	n     int64
	err   error
}

// answered reports whether the call returned a decision.
func (e entry) answered() bool { return e.outcome == allowed || e.outcome == denied }

// record runs a call and records it.
func (r *recorder) record(place, key int, n int64, call func() (bool, error)) entry {
	e := &entry{at: time.Since(r.start), place: place, key: key, n: n}
	r.mu.Lock()
	r.running[e] = true
	r.mu.Unlock()
	begin, late := time.Now(), yardstick()
	taken, err := call()
	took := time.Since(begin)
	r.mu.Lock()
	delete(r.running, e)
	r.mu.Unlock()
	e.took, e.err, e.lag = took, err, late(took)
	switch {
	case err != nil:
		e.outcome = failed
	case taken:
		e.outcome = allowed
	default:
		e.outcome = denied
	}
	r.write(*e)
	return *e
}

// yardstick starts a call that only waits for its timeout, which is as long as that of the load's calls. On a busy machine
// its goroutine waits for a processor too, even while timers fire in time on another one. late returns by how much it
// exceeded its timeout, or zero beside a call that took less.
func yardstick() (late func(took time.Duration) time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), outageTimeout)
	begin, waited := time.Now(), make(chan time.Duration, 1)
	go func() {
		<-ctx.Done()
		waited <- time.Since(begin)
	}()
	return func(took time.Duration) time.Duration {
		defer cancel()
		if took < outageTimeout {
			return 0
		}
		return <-waited - outageTimeout
	}
}

// write appends an entry to the file, by one write.
func (r *recorder) write(e entry) {
	text := ""
	if e.err != nil {
		text = strings.Join(strings.Fields(e.err.Error()), " ")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := time.Since(r.start)
	line := fmt.Sprintf("%s %d %d %d %d %d %d %s\n", e.outcome, at, e.took, e.lag+r.lagSinceLocked(at-e.took), e.place, e.key, e.n, text)
	if _, err := r.file.WriteString(line); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// stuck waits for the calls in flight, and records those that do not return.
func (r *recorder) stuck() {
	deadline := time.Now().Add(closeTimeout)
	for {
		r.mu.Lock()
		rest := make([]entry, 0, len(r.running))
		for e := range r.running {
			rest = append(rest, *e)
		}
		r.mu.Unlock()
		if len(rest) == 0 {
			return
		}
		if time.Now().After(deadline) {
			for _, e := range rest {
				e.outcome, e.took = unended, time.Since(r.start)-e.at
				r.write(e)
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// parseEntry parses a line. It returns false for a line that was not written completely because the process was killed.
func parseEntry(line string) (e entry, ok bool) {
	fields := strings.SplitN(line, " ", 8)
	if len(fields) < 8 {
		return e, false
	}
	text := fields[7]
	n, err := fmt.Sscan(strings.Join(fields[:7], " "), &e.outcome, &e.at, &e.took, &e.lag, &e.place, &e.key, &e.n)
	if text != "" {
		e.err = fmt.Errorf("%s", text)
	}
	return e, n == 7 && err == nil
}
