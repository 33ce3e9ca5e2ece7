package conformance

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// Several processes take tokens of one key and of many. No error is returned, and exactly the capacity is granted.
func TestProcessesGetExactlyTheCapacity(t *testing.T) {
	onAll(t, func(t *testing.T, nodes []live.Server) {
		table, stores := live.Shared(t, upToDate(nodes), nil)
		course := course{Driver: nodes[0].Driver, Dialect: nodes[0].Dialect, Table: table}
		for _, s := range nodes {
			course.DSNs = append(course.DSNs, s.DSN)
		}
		processes := startRacers(t, course)
		for i, h := range heats() {
			if h.long && !*long {
				continue
			}
			start := time.Now()
			total := raceAll(t, processes, i, h.keys)
			elapsed := time.Since(start)
			h.check(t, total, limiter.New(stores[0]))
			calls := h.calls * racers * goroutinesEach
			t.Logf("%-27s %4d keys: %4d calls, %d admitted of %d that fit, %d errors, %.0f calls/s", h.policy.Name+",", h.keys,
				calls, total.sum(), h.policy.Capacity*int64(h.keys), len(total.Errors), float64(calls)/elapsed.Seconds())
		}
	})
}

// check requires that all tokens of each key were taken, and not one more.
func (h heat) check(t *testing.T, total result, limits *limiter.Limiter) {
	t.Helper()
	assert.Empty(t, total.Errors, h.policy.Name)
	for key, admitted := range total.Admitted {
		assert.Equal(t, h.policy.Capacity, admitted, "%s, key %d: admitted", h.policy.Name, key)
		b := live.Must(limits.Limit(h.policy, live.KeyOf(key)).Peek(t.Context()))(t)
		assert.Zero(t, b.Remaining, "%s, key %d: left", h.policy.Name, key)
		if h.policy.Shards < 2 { // otherwise an estimate
			assert.EqualValues(t, 1, total.Half[key], "%s, key %d: requests that crossed half of the capacity", h.policy.Name, key)
			assert.EqualValues(t, 1, total.Full[key], "%s, key %d: requests that crossed all of it", h.policy.Name, key)
		}
	}
}

// The number of processes, of goroutines in each, and of connections from each to each node. The connections are few
// enough for a server that allows 100 and has other clients.
const (
	racers         = 4
	goroutinesEach = 16
	connections    = 8
)

// heat is a limit and its load: every goroutine makes a number of calls, spread over the keys.
type heat struct {
	policy      *runtime.Policy
	keys, calls int
	// long: it runs only with -long.
	long bool
}

// heats are those of TestProcessesGetExactlyTheCapacity. Each has more calls than tokens.
func heats() []heat {
	var all []heat
	for _, p := range live.Granting(200) {
		all = append(all, heat{policy: p, keys: 1, calls: 6})
	}
	for _, p := range live.Granting(20) {
		all = append(all, heat{policy: p, keys: 16, calls: 16})
	}
	for i, p := range live.Granting(5) {
		all = append(all, heat{policy: p, keys: 1000, calls: 125, long: i > 0})
	}
	for _, h := range all {
		h.policy.Warn = runtime.Thresholds{50, 100}
	}
	return all
}

// course is a table that a process reaches through several nodes.
type course struct {
	Driver  string
	DSNs    []string
	Dialect dialect.Dialect
	Table   string
	// Pool is how many connections each process has to each node, 0 for the usual number.
	Pool int
	// clock is that of the stores, nil for the one of the database.
	clock func() time.Time
}

// courseEnv is the environment variable that makes this program a racer.
const courseEnv = "RATELIMITGEN_TEST_COURSE"

// result is the outcome of a heat: how many tokens of each key were taken, how many requests crossed half of its capacity or
// all of it, and the errors.
type result struct {
	Admitted, Half, Full []int64
	Errors               []string
}

func newResult(keys int) result {
	return result{Admitted: make([]int64, keys), Half: make([]int64, keys), Full: make([]int64, keys)}
}

func (r result) sum() (sum int64) {
	for _, n := range r.Admitted {
		sum += n
	}
	return sum
}

// raceOn is the main function of a racer on a course in JSON. It prints an empty result when it is ready, and then runs
// each heat whose number it reads.
func raceOn(text string) error {
	var c course
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	limiters, err := c.limiters()
	if err != nil {
		return err
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	all, next := heats(), result{}
	for {
		if err := out.Encode(next); err != nil {
			return err
		}
		var number int
		if err := in.Decode(&number); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		next = all[number].run(limiters)
	}
}

// limiters returns a limiter for each node.
func (c course) limiters() (limiters []*limiter.Limiter, err error) {
	for _, dsn := range c.DSNs {
		db, err := sql.Open(c.Driver, dsn)
		if err != nil {
			return nil, err
		}
		pool := cmp.Or(c.Pool, connections)
		db.SetMaxOpenConns(pool)
		db.SetMaxIdleConns(pool)
		store, err := agree.NewStore(db, c.Dialect, sqlstore.Options{Table: c.Table, Clock: c.clock})
		if err == nil {
			err = store.Ready(context.Background())
		}
		if err != nil {
			return nil, err
		}
		limiters = append(limiters, limiter.New(store))
	}
	return limiters, nil
}

// run runs goroutines that are spread over the limiters and over the keys.
func (h heat) run(limiters []*limiter.Limiter) result {
	total := newResult(h.keys)
	var mu sync.Mutex
	var all sync.WaitGroup
	for g := range goroutinesEach {
		all.Go(func() {
			for i := range h.calls {
				key := (g*h.calls + i) % h.keys
				d, err := limiters[g%len(limiters)].Limit(h.policy, live.KeyOf(key)).Allow(context.Background())
				mu.Lock()
				if err != nil {
					total.Errors = append(total.Errors, err.Error())
				} else if d.Allowed {
					total.Admitted[key]++
				}
				switch d.Crossed {
				case 50:
					total.Half[key]++
				case 100:
					total.Full[key]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return total
}

// racer is a process that takes tokens.
type racer struct {
	in  *json.Encoder
	out *json.Decoder
}

// startRacers starts processes on a course, and waits until they are ready. They end with the test.
func startRacers(t *testing.T, c course) []racer {
	t.Helper()
	text := live.Must(json.Marshal(c))(t)
	all := make([]racer, racers)
	for i := range all {
		all[i] = startRacer(t, courseEnv, string(text))
	}
	for _, r := range all {
		require.Zero(t, r.result(t))
	}
	return all
}

func startRacer(t *testing.T, env, course string) racer {
	t.Helper()
	in, out := startProcess(t, env, course)
	return racer{json.NewEncoder(in), json.NewDecoder(out)}
}

// startProcess runs this program with an environment variable. It ends with the test.
func startProcess(t *testing.T, env, value string) (io.Writer, io.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env+"="+value)
	cmd.Stderr = os.Stderr
	in := live.Must(cmd.StdinPipe())(t)
	out := live.Must(cmd.StdoutPipe())(t)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		require.NoError(t, cmd.Wait())
	})
	return in, out
}

// result returns the next result that the racer prints.
func (r racer) result(t *testing.T) (said result) {
	t.Helper()
	require.NoError(t, r.out.Decode(&said))
	return said
}

// raceAll runs a heat in all racers at once, and adds up the results.
func raceAll(t *testing.T, all []racer, number, keys int) result {
	t.Helper()
	for _, r := range all {
		require.NoError(t, r.in.Encode(number))
	}
	total := newResult(keys)
	for _, r := range all {
		each := r.result(t)
		for key, n := range each.Admitted {
			total.Admitted[key] += n
			total.Half[key] += each.Half[key]
			total.Full[key] += each.Full[key]
		}
		total.Errors = append(total.Errors, each.Errors...)
	}
	return total
}
