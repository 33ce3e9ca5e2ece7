package conformance

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// goneEnv is the environment variable that makes this program hold slots by calls whose contexts end soon.
const goneEnv = "RATELIMITGEN_TEST_GONE"

// goneCourse is a course of callers that go, who write their events to a file.
type goneCourse struct {
	course
	Events string
	For    time.Duration
	Hold   time.Duration
	// Key is one that only this process uses.
	Key int
}

// The limits of a goneCourse: slots for which all processes compete, with tokens beside them, and reservations of a process.
func (c *goneCourse) slots() *runtime.Policy {
	return &runtime.Policy{Name: "slots", Kind: runtime.InFlight, Slots: 5, Hold: c.Hold}
}

var (
	goneBeside = &runtime.Policy{Name: "beside", Kind: runtime.SlidingWindow, Rate: 1e6, Capacity: 1e6, Period: runtime.MaxPeriod}
	// Nothing accrues within a fixed window, so that refunds in any order give back all.
	goneReserved = &runtime.Policy{Name: "reserved", Kind: runtime.FixedWindow, Rate: 20, Capacity: 20, MaxReserved: 1e6, Period: runtime.MaxPeriod}
)

// goneEvent is what happened to a caller. The clock is that of the host, on which all processes run, but for At.
type goneEvent struct {
	// What has one of the values "acquired", "releasing", which is written before the request is sent, "gone", or an error.
	What  string
	Fence int64 `json:",omitempty"`
	Now   int64
	// At is when it was acquired, by the clock of the store.
	At int64 `json:",omitempty"`
}

// goOn is the main function of a process on a goneCourse in JSON. It prints a line when all calls have returned, and ends
// with its input, so that its store is not closed meanwhile.
func goOn(text string) error {
	var c goneCourse
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	file, err := os.OpenFile(c.Events, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	limiters, err := (&slotCourse{course: c.course}).openAll()
	if err != nil {
		return err
	}
	end := time.Now().Add(c.For)
	var all sync.WaitGroup
	for g := range goroutinesEach {
		all.Go(func() {
			l := limiters[g%len(limiters)]
			w := goneWorker{file, l, l.Slots(c.slots(), runtime.Key{}), live.KeyOf(c.Key)}
			for time.Now().Before(end) {
				w.call()
			}
		})
	}
	all.Wait()
	if _, err := os.Stdout.WriteString("returned\n"); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// goneWorker makes calls whose contexts end soon.
type goneWorker struct {
	file  *os.File
	limit *limiter.Limiter
	slots limiter.SlotLimit
	own   runtime.Key
}

func (w goneWorker) write(e goneEvent) {
	e.Now = time.Now().UnixNano()
	line, err := json.Marshal(e)
	if err == nil {
		// One write, so that a process that is killed has written all of its events.
		_, err = w.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic(err)
	}
}

// call makes a call by one of the verbs that hold something, and gives it back if it gets an answer.
func (w goneWorker) call() {
	stays := rand.N(20 * time.Millisecond)
	if rand.IntN(16) == 0 {
		// On a slow machine, a database answers few callers that leave so early.
		stays = 2 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), stays)
	defer cancel()
	var err error
	switch rand.IntN(4) {
	case 0:
		var s *limiter.Slot
		if s, err = w.slots.Acquire(ctx); err == nil {
			w.hold(s)
		}
	case 1:
		var s *limiter.Slot
		if s, err = w.slots.WaitAcquire(ctx); err == nil {
			w.hold(s)
		}
	case 2:
		var ds limiter.Decisions
		if ds, err = w.limit.All(ctx, w.slots, w.limit.Limit(goneBeside, w.own)); err == nil {
			if s, ok := ds.Slot(0); ok {
				w.hold(s)
			}
			if r, ok := ds.Settlement(1); ok {
				w.gaveBack(again(r.Cancel))
			}
		}
	default:
		var r *limiter.Reservation
		if r, err = w.limit.Reservable(goneReserved, w.own).ReserveN(ctx, 50); err == nil && r.Allowed {
			w.gaveBack(again(r.Cancel))
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded):
		w.write(goneEvent{What: "gone"})
	default:
		w.write(goneEvent{What: err.Error()})
	}
}

// hold holds a slot, if it is one, for a moment.
func (w goneWorker) hold(s *limiter.Slot) {
	if !s.Allowed {
		return
	}
	w.write(goneEvent{What: "acquired", Fence: s.Fence, At: s.TakenAt.UnixNano()})
	time.Sleep(rand.N(5 * time.Millisecond))
	w.write(goneEvent{What: "releasing", Fence: s.Fence})
	err := again(s.Release)
	if held := time.Since(s.TakenAt); errors.Is(err, runtime.ErrSlotLost) {
		if held > s.Policy.Hold-holdTolerance {
			return // on a slow machine, the hold has ended
		}
		err = fmt.Errorf("after %v: %w", held, err)
	}
	w.gaveBack(err)
}

// holdTolerance is by how much the ends of holds may differ by the clock of the host from those by the clock of the store,
// which processes know within a few milliseconds.
const holdTolerance = 100 * time.Millisecond

// again gives back what a caller has got, and tries again if the database has not answered in time: on a slow machine, one
// call for the row for which all others compete may wait longer than that. A try without an answer may have succeeded.
func again(giveBack func(context.Context) error) error {
	err := giveBack(context.Background())
	for tries := 0; tries < 5 && errors.Is(err, context.DeadlineExceeded); tries++ {
		if err = giveBack(context.Background()); errors.Is(err, runtime.ErrSlotLost) || errors.Is(err, runtime.ErrNotReserved) {
			return nil
		}
	}
	return err
}

func (w goneWorker) gaveBack(err error) {
	if err != nil {
		w.write(goneEvent{What: err.Error()})
	}
}

// 64 workers in 4 processes acquire 5 slots and reserve tokens by every verb, and give up after 0 to 20 ms. Processes are
// killed and started again. By the clock of the database there are never more than 5 holders, and a second after all calls
// have returned no slot is held, the holds of killed processes having ended by then, and on SQLite no token is reserved.
func TestNothingIsHeldForCallersThatHaveGone(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, nodes []live.Server) {
		table, stores := live.Shared(t, upToDate(nodes), nil)
		c := course{Driver: nodes[0].Driver, Dialect: nodes[0].Dialect, Table: table, Pool: slotPool}
		for _, s := range nodes {
			c.DSNs = append(c.DSNs, s.DSN)
		}
		goAll(t, c, stores[0])
	})
	onSQLite(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits.db")
		store := live.Must(sqlite.Open(path))(t)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		goAll(t, course{Driver: "sqlite", DSNs: []string{path}}, store)
	})
}

// goAll runs the processes.
func goAll(t *testing.T, c course, store runtime.Store) {
	hold, killing := 3*time.Second, 2*time.Second
	if *long {
		hold, killing = 20*time.Second, time.Minute
	}
	began := time.Now()
	// The holds of the last process that is killed end before the others do.
	kills, ends := began.Add(killing), began.Add(killing+hold+2*time.Second)
	var files []string
	var all sync.WaitGroup
	var returned []io.Closer
	var mu sync.Mutex
	killed, keys := 0, []int{}
	for n := range racers {
		files = append(files, filepath.Join(t.TempDir(), strconv.Itoa(n)))
		all.Go(func() {
			for generation := 0; ; generation++ {
				key := n + racers*generation
				p := startGone(t, goneCourse{c, files[n], time.Until(ends), hold, key})
				if p == nil {
					return
				}
				if time.Now().Before(kills) {
					time.Sleep(300*time.Millisecond + rand.N(time.Second))
					assert.NoError(t, p.cmd.Process.Kill())
					_ = p.cmd.Wait() // it was killed
					mu.Lock()
					killed++
					mu.Unlock()
					continue
				}
				line, err := p.out.ReadString('\n')
				assert.NoError(t, err)
				assert.Equal(t, "returned\n", line)
				mu.Lock()
				defer mu.Unlock()
				returned, keys = append(returned, p), append(keys, key)
				return
			}
		})
	}
	all.Wait()
	require.Len(t, returned, racers)
	limits, slots := limiter.New(store), (&goneCourse{Hold: hold}).slots()
	var held string
	assert.Eventually(t, func() bool {
		held = ""
		check := func(p *runtime.Policy, key runtime.Key) {
			if b, err := limits.Limit(p, key).Peek(t.Context()); err != nil || b.Used != 0 {
				held += p.Name + ": " + b.String() + " "
			}
		}
		check(slots, runtime.Key{})
		// On a server, a statement that takes too long after its callers have left is given up, and whether it has taken tokens is
		// not known.
		if c.Driver != "sqlite" {
			keys = nil
		}
		for _, key := range keys {
			check(goneBeside, live.KeyOf(key))
			check(goneReserved, live.KeyOf(key))
		}
		return held == ""
	}, hold*2/3, 10*time.Millisecond, "held long after all calls have returned, and not yet because of a hold that ends by itself")
	for _, p := range returned {
		assert.NoError(t, p.Close())
	}
	assert.Empty(t, held)
	acquired, gone, most := judgeGone(t, files, hold)
	t.Logf("%d acquired, at most %d held at once; %d callers have gone, %d processes were killed", acquired, most, gone, killed)
}

// goneProcess is a process on a goneCourse.
type goneProcess struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

// Close ends a process whose calls have returned.
func (p *goneProcess) Close() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }

// startGone starts a process, or returns nil if it cannot.
func startGone(t *testing.T, c goneCourse) *goneProcess {
	text, err := json.Marshal(c)
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), goneEnv+"="+string(text)), os.Stderr
	in, noIn := cmd.StdinPipe()
	out, noOut := cmd.StdoutPipe()
	if err = errors.Join(err, noIn, noOut, cmd.Start()); !assert.NoError(t, err) {
		return nil
	}
	return &goneProcess{cmd, in, bufio.NewReader(out)}
}

// judgeGone judges the events of all processes: how many slots were held at once, at most, and that nothing has failed.
func judgeGone(t *testing.T, files []string, hold time.Duration) (acquired, gone, most int) {
	t.Helper()
	type change struct {
		at int64
		by int
	}
	from, until := map[int64]int64{}, map[int64]int64{}
	for _, name := range files {
		file := live.Must(os.Open(name))(t)
		defer file.Close()
		for lines := bufio.NewScanner(file); lines.Scan(); {
			var e goneEvent
			require.NoError(t, json.Unmarshal(lines.Bytes(), &e), lines.Text())
			switch e.What {
			case "acquired":
				assert.NotContains(t, from, e.Fence, "the fence has two holders")
				// If the process is killed, it is held until its hold ends.
				from[e.Fence], until[e.Fence] = e.Now, e.At+int64(hold-holdTolerance)
			case "releasing":
				until[e.Fence] = min(until[e.Fence], e.Now)
			case "gone":
				gone++
			default:
				t.Error(e.What)
			}
		}
	}
	var changes []change
	for fence, at := range from {
		if at < until[fence] {
			changes = append(changes, change{at, 1}, change{until[fence], -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	held := 0
	for _, c := range changes {
		held += c.by
		most = max(most, held)
	}
	assert.LessOrEqual(t, most, 5, "held at once")
	assert.NotEmpty(t, from, "slots were acquired")
	assert.NotZero(t, gone, "callers have gone")
	return len(from), gone, most
}
