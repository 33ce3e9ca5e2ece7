package livetest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// slotsEnv is the environment variable that makes this program hold slots.
const slotsEnv = "RATELIMITGEN_TEST_SLOTS"

// slotLimit is the limit for whose slots the processes compete.
var slotLimit = runtime.Policy{Name: "slots", Kind: runtime.InFlight, Rate: 5, Capacity: 5, Period: time.Second}

// slotCourse is a course of holders that write their events to a file.
type slotCourse struct {
	course
	Events string
	For    time.Duration
}

// slotEvent is what happened to a holder, in nanoseconds since 1970 UTC. Sent and Received are by the clock of the process,
// which is that of the server too.
type slotEvent struct {
	Fence int64
	// What is "acquired", "renewed", or "releasing", which is written before the request is sent, or an error.
	What string
	// At is when it was acquired or renewed by the store's clock.
	At, Sent, Received int64
}

// holdSlots is the main function of a process on a slotCourse in JSON.
func holdSlots(text string) error {
	var c slotCourse
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	// The server runs on this host: its clock as each process reads it, half a round trip after it was measured, would be too
	// coarse for what the test compares.
	c.clock = time.Now
	limiters, err := c.openAll()
	if err != nil {
		return err
	}
	// Each event is one write, so that a process that is killed has written all of its events.
	file, err := os.OpenFile(c.Events, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	ctx, cancel := context.WithTimeout(context.Background(), c.For)
	defer cancel()
	var all sync.WaitGroup
	for g := range goroutinesEach {
		all.Go(func() {
			w := slotWorker{limiters[g%len(limiters)].Slots(&slotLimit, runtime.Key{}), file}
			for ctx.Err() == nil {
				w.hold(ctx)
			}
		})
	}
	all.Wait()
	return nil
}

// openAll returns a limiter for each node.
func (c *slotCourse) openAll() ([]*limiter.Limiter, error) {
	if c.Driver != "sqlite" {
		return c.limiters()
	}
	store, err := sqlite.Open(c.DSNs[0])
	return []*limiter.Limiter{limiter.New(store)}, err
}

// slotWorker acquires slots one after the other.
type slotWorker struct {
	limit limiter.SlotLimit
	file  *os.File
}

func (w slotWorker) write(e slotEvent) {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = w.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic(err)
	}
}

// hold acquires a slot, if one is free, holds it for a while, and releases it; a tenth of the holders never do, and a tenth are
// late.
func (w slotWorker) hold(ctx context.Context) {
	sent := time.Now()
	s, err := w.limit.Acquire(ctx)
	switch {
	case err != nil:
		if ctx.Err() == nil {
			w.write(slotEvent{What: err.Error(), Sent: sent.UnixNano()})
		}
		return
	case !s.Allowed:
		time.Sleep(rand.N(20 * time.Millisecond))
		return
	}
	w.write(slotEvent{s.Fence(), "acquired", s.TakenAt.UnixNano(), sent.UnixNano(), time.Now().UnixNano()})
	fate := rand.IntN(10)
	if fate == 0 {
		return
	}
	time.Sleep(rand.N(60 * time.Millisecond))
	if rand.IntN(3) == 0 {
		renewing := time.Now()
		err := s.Renew(ctx)
		if ctx.Err() != nil {
			return
		}
		w.judge(s, sent, err)
		if err == nil {
			// Not before it was sent, by the store's clock.
			w.write(slotEvent{s.Fence(), "renewed", renewing.UnixNano(), renewing.UnixNano(), time.Now().UnixNano()})
			sent = renewing
		}
		time.Sleep(rand.N(60 * time.Millisecond))
	}
	if fate == 1 {
		time.Sleep(slotLimit.Period + 50*time.Millisecond)
		if err := s.Release(ctx); !errors.Is(err, runtime.ErrSlotLost) {
			w.write(slotEvent{Fence: s.Fence(), What: "a late release has the error " + errorText(err)})
		}
		return
	}
	w.write(slotEvent{Fence: s.Fence(), What: "releasing", Sent: time.Now().UnixNano()})
	w.judge(s, sent, s.Release(ctx))
}

// judge writes an error, also a loss while the hold cannot have ended.
func (w slotWorker) judge(s *limiter.Slot, sent time.Time, err error) {
	if err != nil && (!errors.Is(err, runtime.ErrSlotLost) || time.Since(sent) < slotLimit.Period) {
		w.write(slotEvent{Fence: s.Fence(), What: "after " + time.Since(sent).String() + ": " + err.Error()})
	}
}

func errorText(err error) string {
	if err == nil {
		return "nil"
	}
	return err.Error()
}

// 64 workers in 4 processes compete for 5 slots. A tenth never release them, a tenth do so late, and processes are killed and started
// again. By the clock of the database there are never more than 5 holders, the fences grow, no holder loses a slot before its hold
// has ended, and no slot stays lost for longer.
func TestProcessesNeverHoldMoreThanTheSlots(t *testing.T) {
	onAll(t, func(t *testing.T, nodes []server) {
		table, stores := shared(t, nodes, nil)
		c := course{Driver: nodes[0].driver, Dialect: nodes[0].dialect, Table: table}
		for _, s := range nodes {
			c.DSNs = append(c.DSNs, s.dsn)
		}
		holdMostOf(t, c, stores[0])
	})
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits.db")
		store, err := sqlite.Open(path)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		holdMostOf(t, course{Driver: "sqlite", DSNs: []string{path}}, store)
	})
	t.Run("pgbouncer", func(t *testing.T) {
		p := startPooler(t, 40, "installed", ignoreDigits)
		for _, mode := range []string{"transaction", "session"} {
			t.Run(mode, func(t *testing.T) {
				s := p.server("postgres", mode)
				table, stores := shared(t, []server{s}, nil)
				holdMostOf(t, course{Driver: s.driver, DSNs: []string{s.dsn}, Dialect: s.dialect, Table: table}, stores[0])
			})
		}
	})
}

func holdMostOf(t *testing.T, of course, store runtime.Store) {
	lasts := 6 * time.Second
	if *long {
		lasts = 2 * time.Minute
	}
	limits, c := limiter.New(store).Slots(&slotLimit, runtime.Key{}), slotCourse{course: of}
	var files []string
	var group sync.WaitGroup
	kills, ends := 0, time.Now().Add(lasts)
	var mu sync.Mutex
	for n := range racers {
		c := c
		c.Events = filepath.Join(t.TempDir(), strconv.Itoa(n))
		files = append(files, c.Events)
		group.Go(func() {
			for time.Until(ends) > 0 {
				c.For = time.Until(ends)
				text, err := json.Marshal(c)
				assert.NoError(t, err)
				killed, err := runFor(slotsEnv+"="+string(text), time.Second+rand.N(3*time.Second))
				assert.NoError(t, err)
				if killed {
					mu.Lock()
					kills++
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	ended := time.Now()
	require.Eventually(t, func() bool {
		s, err := limits.AcquireN(t.Context(), 5)
		return err == nil && s.Allowed
	}, slotLimit.Period+time.Second, 10*time.Millisecond, "slots stay lost")
	freed := time.Since(ended)
	var all []slotEvent
	for _, name := range files {
		all = append(all, eventsOf(t, name)...)
	}
	acquired, most, gap := judgeSlots(t, all)
	t.Logf("%d acquired, at most %d held at once, %d processes killed, at most %v between two acquisitions, all free %v after the end",
		acquired, most, kills, gap.Round(time.Millisecond), freed.Round(time.Millisecond))
}

// runFor runs this program with an environment variable, and kills it after a time, if it has not ended by then.
func runFor(env string, after time.Duration) (killed bool, err error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), env), os.Stderr
	if err := cmd.Start(); err != nil {
		return false, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		return false, err
	case <-time.After(after):
	}
	if err := cmd.Process.Kill(); err != nil {
		return false, nil // it has just ended
	}
	<-done
	return true, nil
}

func eventsOf(t *testing.T, name string) (all []slotEvent) {
	t.Helper()
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var e slotEvent
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e), lines.Text())
		all = append(all, e)
	}
	return all
}

// judgeSlots judges the events of all holders, and returns how many slots were acquired, how many were held at once at most, and the
// longest time between two acquisitions.
func judgeSlots(t *testing.T, all []slotEvent) (acquired, most int, gap time.Duration) {
	t.Helper()
	type holding struct{ from, until, sent, received int64 }
	holders := map[int64]*holding{}
	hold := int64(slotLimit.Period)
	slices.SortStableFunc(all, func(a, b slotEvent) int { return cmp.Compare(a.Fence, b.Fence) })
	for _, e := range all {
		h := holders[e.Fence]
		switch e.What {
		case "acquired":
			assert.Nil(t, h, "the fence %d has two holders", e.Fence)
			holders[e.Fence] = &holding{e.At, e.At + hold, e.Sent, e.Received}
		case "renewed":
			h.until = e.At + hold
		case "releasing":
			h.until = min(h.until, e.Sent)
		default:
			t.Errorf("%d: %s", e.Fence, e.What)
		}
	}
	fences := make([]int64, 0, len(holders))
	var changes []struct{ at, by int64 }
	for fence, h := range holders {
		fences = append(fences, fence)
		if h.until > h.from {
			changes = append(changes, struct{ at, by int64 }{h.from, 1}, struct{ at, by int64 }{h.until, -1})
		}
	}
	slices.Sort(fences)
	// A slot that was acquired after another one was has the larger fence.
	latestSent := int64(0)
	for i, fence := range fences {
		h := holders[fence]
		assert.Greater(t, h.received, latestSent, "the fence %d is larger than one that was requested after it", fence)
		latestSent = max(latestSent, h.sent)
		if i > 0 {
			gap = max(gap, time.Duration(h.received-holders[fences[i-1]].received))
		}
	}
	slices.SortFunc(changes, func(a, b struct{ at, by int64 }) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	held := int64(0)
	for _, c := range changes {
		held += c.by
		most = max(most, int(held))
	}
	assert.LessOrEqual(t, most, int(slotLimit.Capacity), "held at once")
	assert.Greater(t, len(holders), 20, "slots were acquired")
	assert.Less(t, gap, slotLimit.Period+2*time.Second, "a slot stays lost")
	return len(holders), most, gap
}
