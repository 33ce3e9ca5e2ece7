package faults

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	sqlfault "github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// vitessLoadEnv makes the test binary a process of the load: its value is a vitessLoad.
const vitessLoadEnv = "RATELIMITGEN_VITESS_LOAD"

// vitessLoad is where a process takes tokens.
type vitessLoad struct{ DSN, Table string }

// vitessTaken has, for each key, the calls that were admitted and those with an error, which may have taken. The hot key is
// the last.
type vitessTaken struct {
	Admitted, Unknown []int64
	Denied            int64
	Slowest           time.Duration
	// Errors are how many there were of each class.
	Errors map[string]int64
}

// tooLate is the class of calls without an answer in time.
const tooLate = "too late"

// classOf returns the class of an error of a call.
func classOf(err error) string {
	dialed := new(net.OpError)
	switch {
	case errors.As(err, &dialed) && dialed.Op == "dial":
		return "no connection"
	case errors.Is(err, sqlfault.ErrOutcomeUnknown), sqlfault.Lost(err):
		return "may have taken"
	case errors.Is(err, context.DeadlineExceeded):
		return tooLate
	case sqlfault.Retryable(err):
		return "not executed"
	}
	return err.Error()
}

const (
	vitessKeys     = 10_000
	vitessCallers  = 64
	vitessCapacity = 5
	vitessHot      = 1_000_000
)

func vitessLimits() (many, hot *runtime.Policy) {
	return live.Once("many", vitessCapacity), live.Once("hot", vitessHot)
}

// takeOnVitess takes from a hot key by 64 callers, and from 10,000 keys by as many, until its standard input ends.
func takeOnVitess(course string) error {
	var l vitessLoad
	if err := json.Unmarshal([]byte(course), &l); err != nil {
		return err
	}
	s := live.Server{Driver: "mysql", DSN: l.DSN, Dialect: dialect.Vitess}
	db, err := sql.Open(s.Driver, s.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	store, err := agree.NewStore(db, s.Dialect, sqlstore.Options{Table: l.Table})
	if err != nil {
		return err
	}
	defer store.Close()
	limits := limiter.New(store)
	many, hot := vitessLimits()
	taken := newVitessTaken()
	var stop atomic.Bool
	var failing sync.Mutex
	var all sync.WaitGroup
	var slowest atomic.Int64
	for i := range 2 * vitessCallers {
		all.Go(func() {
			for !stop.Load() {
				key, limit := vitessKeys, limits.Limit(hot, runtime.Key{})
				if i%2 == 0 {
					key = rand.N(vitessKeys)
					limit = limits.Limit(many, live.KeyOf(key))
				}
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				began := time.Now()
				d, err := limit.Allow(ctx)
				cancel()
				for took := int64(time.Since(began)); took > slowest.Load(); {
					slowest.Store(took)
				}
				switch {
				case err != nil:
					atomic.AddInt64(&taken.Unknown[key], 1)
					failing.Lock()
					taken.Errors[classOf(err)]++
					failing.Unlock()
					time.Sleep(10 * time.Millisecond)
				case d.Allowed:
					atomic.AddInt64(&taken.Admitted[key], 1)
				default:
					atomic.AddInt64(&taken.Denied, 1)
				}
			}
		})
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	stop.Store(true)
	all.Wait()
	taken.Slowest = time.Duration(slowest.Load())
	return json.NewEncoder(os.Stdout).Encode(taken)
}

func newVitessTaken() vitessTaken {
	return vitessTaken{Admitted: make([]int64, vitessKeys+1), Unknown: make([]int64, vitessKeys+1), Errors: map[string]int64{}}
}

// A tablet of a shard is killed, its primary moves, and a vtgate restarts.
func TestVitessShardsUnderLoad(t *testing.T) {
	underVitessLoad(t, vitessShards(t), func() {
		for _, fault := range [][2]string{
			{"kill", "tablet3"}, {"rejoin", "tablet3"}, {"primary", "6"}, {"kill", "gate2"}, {"rejoin", "gate2"}, {"primary", "5"},
		} {
			<-time.After(3 * time.Second)
			require.NoError(t, vitess.run(fault[0], fault[1]))
		}
	})
}

// While vtgates wait for a primary that moves, calls fail only if the wait is longer than their own.
func TestVitessPrimaryMovesUnderLoad(t *testing.T) {
	taken := underVitessLoad(t, vitessShards(t), func() {
		for _, to := range []string{"4", "6", "3", "5"} {
			<-time.After(5 * time.Second)
			require.NoError(t, vitess.run("primary", to))
		}
	})
	delete(taken.Errors, tooLate)
	assert.Empty(t, taken.Errors)
}

// underVitessLoad has four processes take through both vtgates while a function runs, and for a minute at least.
func underVitessLoad(t *testing.T, gates []live.Server, during func()) vitessTaken {
	t.Helper()
	table := live.NewTable()
	store := gates[0].StoreIn(t, gates[0].Open(t), table, nil)
	gates[1].Join(t, gates[1].Open(t), table, nil)
	var processes []*exec.Cmd
	var inputs []io.Closer
	results := make(chan vitessTaken)
	for i := range 4 {
		cmd := exec.Command(live.Must(os.Executable())(t))
		course := live.Must(json.Marshal(vitessLoad{gates[i%2].DSN, table}))(t)
		cmd.Env = append(os.Environ(), vitessLoadEnv+"="+string(course))
		cmd.Stderr = os.Stderr
		inputs = append(inputs, live.Must(cmd.StdinPipe())(t))
		out := live.Must(cmd.StdoutPipe())(t)
		require.NoError(t, cmd.Start())
		processes = append(processes, cmd)
		go func() {
			var taken vitessTaken
			if err := json.NewDecoder(out).Decode(&taken); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			results <- taken
		}()
	}
	end := time.After(time.Minute)
	during()
	<-end
	for _, in := range inputs {
		in.Close()
	}
	sum := newVitessTaken()
	for range processes {
		taken := <-results
		require.Len(t, taken.Admitted, vitessKeys+1)
		for i := range sum.Admitted {
			sum.Admitted[i] += taken.Admitted[i]
			sum.Unknown[i] += taken.Unknown[i]
		}
		for class, n := range taken.Errors {
			sum.Errors[class] += n
		}
		sum.Denied += taken.Denied
		sum.Slowest = max(sum.Slowest, taken.Slowest)
	}
	for _, p := range processes {
		assert.NoError(t, p.Wait())
	}
	sum.compare(t, store)
	return sum
}

// compare compares the admitted calls of each key with its row.
func (s vitessTaken) compare(t *testing.T, store runtime.Store) {
	t.Helper()
	many, hot := vitessLimits()
	calls := make([]runtime.Call, vitessKeys+1)
	for i := range calls {
		p, key := many, live.KeyOf(i)
		if i == vitessKeys {
			p, key = hot, runtime.Key{}
		}
		calls[i] = runtime.Call{Requests: []runtime.Request{{Op: runtime.Peek, Policy: p, Key: key.String()}}}
	}
	var admitted, unknown, stored, over, lost int64
	i := 0
	for some := range slices.Chunk(calls, 500) {
		answers, err := store.Do(t.Context(), some)
		require.NoError(t, err)
		for j, a := range answers {
			require.NoError(t, a.Err)
			capacity := some[j].Requests[0].Policy.Capacity
			taken := capacity - a.Decisions[0].Remaining
			admitted, unknown, stored = admitted+s.Admitted[i], unknown+s.Unknown[i], stored+taken
			over += max(0, s.Admitted[i]-capacity) + max(0, taken-s.Admitted[i]-s.Unknown[i])
			lost += max(0, s.Admitted[i]-taken)
			i++
		}
	}
	assert.Zero(t, over, "over-admitted, or taken without a call")
	assert.Zero(t, lost, "admitted and not stored")
	assert.NotZero(t, admitted)
	t.Logf("%d admitted, %d of them of the hot key, %d denied, %d errors %v, %d stored, %d over, %d lost, longest call %v",
		admitted, s.Admitted[vitessKeys], s.Denied, unknown, s.Errors, stored, over, lost, s.Slowest.Round(time.Millisecond))
}
