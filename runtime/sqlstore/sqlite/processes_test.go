package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// The test binary runs itself as another process when these are set: the role of the process, and its file.
const (
	envRole = "RATELIMITGEN_TEST_ROLE"
	envPath = "RATELIMITGEN_TEST_PATH"
)

func TestMain(m *testing.M) {
	roles := map[string]func(*limiter.Limiter) error{
		"race": race, "takeUntilKilled": takeUntilKilled, "takeTogetherUntilKilled": takeTogetherUntilKilled, "drain": drain, "takeAtTimes": takeAtTimes, "takePrecisely": takePrecisely,
		"decideOverridden": decideOverridden, "emptyLog": emptyLog, "warn": warn,
		"open": func(*limiter.Limiter) error { return nil },
	}
	role, ok := roles[os.Getenv(envRole)]
	if !ok {
		os.Exit(m.Run())
	}
	s, err := sqlite.Open(os.Getenv(envPath))
	if err == nil {
		err = role(limiter.New(s))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// process returns a command for another process with a role and a file.
func process(role, path string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envRole+"="+role, envPath+"="+path)
	cmd.Stderr = os.Stderr
	return cmd
}

// once grants its capacity and then nothing for ten years.
func once(name string, kind runtime.Kind, capacity int64, shards int) *runtime.Policy {
	p := &runtime.Policy{Name: name, Kind: kind, Rate: capacity, Period: runtime.MaxPeriod, Capacity: capacity, Shards: shards}
	if kind.Windowed() {
		p.Start = runtime.StartAt(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	}
	return p
}

// raced are the limits that processes race for. A bucket of 1,000 in ten years gains no token during the test.
var raced = []*runtime.Policy{
	once("bucket", runtime.TokenBucket, 1000, 0),
	once("window", runtime.FixedWindow, 1000, 0),
	once("sliding", runtime.SlidingWindow, 1000, 0),
	once("sharded", runtime.TokenBucket, 1000, 4),
}

// race takes from every limit, in 16 goroutines 40 times each, and prints how often it was allowed.
func race(l *limiter.Limiter) error {
	for _, p := range raced {
		var admitted atomic.Int64
		var wg sync.WaitGroup
		errs := make(chan error, 16)
		for range 16 {
			wg.Go(func() {
				for range 40 {
					d, err := l.Limit(p, runtime.Key{}).Allow(context.Background())
					if err != nil {
						errs <- err
						return
					}
					if d.Allowed {
						admitted.Add(1)
					}
				}
			})
		}
		wg.Wait()
		select {
		case err := <-errs:
			return err
		default:
			fmt.Println(admitted.Load())
		}
	}
	return nil
}

// 4 processes of 16 goroutines make 2,560 calls for 1,000 tokens.
func TestProcessesShareALimitExactly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	totals := make([]int, len(raced))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			out, err := process("race", path).Output()
			if !assert.NoError(t, err) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for i, line := range strings.Fields(string(out)) {
				n, err := strconv.Atoi(line)
				assert.NoError(t, err)
				totals[i] += n
			}
		})
	}
	wg.Wait()
	for i, p := range raced {
		assert.Equal(t, 1000, totals[i], "admitted by %s", p.Name)
	}
}

// counted is the limit from which a process takes until it is killed.
var counted = once("counted", runtime.TokenBucket, 100_000, 0)

// takeUntilKilled takes tokens one by one, and prints a line for each that was reported as taken.
func takeUntilKilled(l *limiter.Limiter) error {
	for {
		d, err := l.Limit(counted, runtime.Key{}).Allow(context.Background())
		if err != nil || !d.Allowed {
			return fmt.Errorf("%v, %w", d, err)
		}
		if _, err := os.Stdout.WriteString("taken\n"); err != nil {
			return err
		}
	}
}

func TestKilledProcessLosesNoReportedToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	printed := 0
	for round := range 12 {
		cmd := process("takeUntilKilled", path)
		out := must(cmd.StdoutPipe())(t)
		require.NoError(t, cmd.Start())
		lines := bufio.NewReader(out)
		for range 1 + 37*round {
			must(lines.ReadString('\n'))(t)
			printed++
		}
		require.NoError(t, cmd.Process.Kill())
		rest := must(io.ReadAll(lines))(t)
		printed += strings.Count(string(rest), "\n")
		require.Error(t, cmd.Wait())

		s := must(sqlite.Open(path))(t)
		b := must(limiter.New(s).Limit(counted, runtime.Key{}).Peek(t.Context()))(t)
		require.NoError(t, s.Close())
		taken := int(counted.Capacity - b.Remaining)
		// A process may be killed between taking a token and printing it.
		assert.GreaterOrEqual(t, taken, printed, "tokens taken after %d kills", round+1)
		assert.LessOrEqual(t, taken, printed+round+1, "tokens taken after %d kills", round+1)
	}
	t.Logf("%d tokens reported in 12 lives", printed)
}

// together is the limit from whose keys processes take until they are killed.
var together = &runtime.Policy{Name: "together", Kind: runtime.TokenBucket, Rate: 1, Period: runtime.MaxPeriod, Capacity: 1e9}

// callersUntilKilled is how many goroutines of a process take, half of the time from one key and otherwise from a hundred
// others: so many tokens may be taken and not printed.
const callersUntilKilled = 8

func takeTogetherUntilKilled(l *limiter.Limiter) error {
	errs := make(chan error)
	for range callersUntilKilled {
		go func() {
			for n := int64(0); ; n = rand.Int64N(200) {
				d, err := l.Limit(together, runtime.KeyOf(runtime.Int64(min(n, 100)))).Allow(context.Background())
				if err != nil || !d.Allowed {
					errs <- fmt.Errorf("%v, %w", d, err)
				}
				if _, err := os.Stdout.WriteString("taken\n"); err != nil {
					errs <- err
				}
			}
		}()
	}
	return <-errs
}

// Three processes at a time take from the same keys, and each is killed after some tokens, the first of them while it opens
// the file.
func TestKilledProcessesOfOneFileLoseNoReportedToken(t *testing.T) {
	path, kills := filepath.Join(t.TempDir(), "limits.db"), int64(40)
	if runtimetest.Long() {
		kills = 1000
	}
	var printed, begun atomic.Int64
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for n := begun.Add(1); n <= kills; n = begun.Add(1) {
				lines, err := killAfter(process("takeTogetherUntilKilled", path), rand.IntN(int(min(n, 300))))
				printed.Add(lines)
				if !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	all.Wait()
	s := opened(t, path)
	taken := int64(0)
	for n := range int64(101) {
		b := must(limiter.New(s).Limit(together, runtime.KeyOf(runtime.Int64(n))).Peek(t.Context()))(t)
		taken += together.Capacity - b.Remaining
	}
	assert.GreaterOrEqual(t, taken, printed.Load())
	assert.LessOrEqual(t, taken, printed.Load()+callersUntilKilled*kills)
	db := must(sql.Open("sqlite", path))(t)
	defer db.Close()
	var integrity string
	require.NoError(t, db.QueryRow("PRAGMA integrity_check").Scan(&integrity))
	assert.Equal(t, "ok", integrity)
	t.Logf("%d processes killed; %d tokens reported, %d taken", kills, printed.Load(), taken)
}

// killAfter kills a process when it has printed some lines, and returns how many it has printed.
func killAfter(cmd *exec.Cmd, some int) (printed int64, err error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(out)
	for ; int(printed) < some && lines.Scan(); printed++ {
	}
	if err := cmd.Process.Kill(); err != nil {
		return printed, err
	}
	for ; lines.Scan(); printed++ {
	}
	if err := cmd.Wait(); err == nil {
		return printed, errors.New("the process has ended by itself")
	}
	return printed, lines.Err()
}
