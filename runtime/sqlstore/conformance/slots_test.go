package conformance

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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// slotsEnv is the environment variable that makes this program hold slots.
const slotsEnv = "RATELIMITGEN_TEST_SLOTS"

// slotLimit is the limit for whose slots the processes compete.
var slotLimit = runtime.Policy{Name: "slots", Kind: runtime.InFlight, Slots: 5, Hold: time.Second}

// slotPool is how many connections each process has to each node.
const slotPool = 3

const (
	// leastAcquired is how many acquisitions there are to judge, of all processes.
	leastAcquired = 11
	// maxSlotRounds is how often the processes run for them.
	maxSlotRounds = 10
)

// slotCourse is a course of holders that write their events to a file.
type slotCourse struct {
	course
	Events string
	For    time.Duration
	// Calm is for how long calls have no timeout of their own.
	Calm time.Duration
}

// slotEvent is what happened to a holder, in nanoseconds since 1970 UTC.
type slotEvent struct {
	Fence int64
	// What is "acquired", "renewed", or "releasing", which is written before the request is sent, or an error.
	What string
	// Sent and Received are by the clock of this host, which is the database's: all servers run on it. The stores compute it
	// from their measurements.
	Sent, Received int64
}

// clockError is how far the clocks of two processes may be apart on a busy machine, whose round trips are long. A late
// packet that counted would set them a second apart.
const clockError = 250 * time.Millisecond

// holdSlots is the main function of a process on a slotCourse in JSON.
func holdSlots(text string) error {
	var c slotCourse
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	// Each event is one write, so that a process that is killed has written all of its events.
	file, err := os.OpenFile(c.Events, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	limiters, err := c.openAll()
	if err != nil {
		slotWorker{file: file}.judge(context.Background(), 0, time.Now(), err)
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.For)
	defer cancel()
	var all sync.WaitGroup
	for g := range goroutinesEach {
		all.Go(func() {
			w := slotWorker{limiters[g%len(limiters)].Slots(&slotLimit, runtime.Key{}), file, time.Now().Add(c.Calm)}
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
	// trouble is when calls get a timeout.
	trouble time.Time
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

// hold acquires a slot, if one is free, holds it for a while, and releases it; a tenth of the holders never do, and a tenth
// are late.
func (w slotWorker) hold(ctx context.Context) {
	sent := time.Now()
	var s *limiter.Slot
	err := w.call(ctx, func(ctx context.Context) (err error) { s, err = w.limit.Acquire(ctx); return err })
	if err != nil {
		w.judge(ctx, 0, sent, err)
		return
	}
	if !s.Allowed {
		time.Sleep(rand.N(20 * time.Millisecond))
		return
	}
	w.write(slotEvent{s.Fence, "acquired", sent.UnixNano(), time.Now().UnixNano()})
	fate := rand.IntN(10)
	if fate == 0 {
		return
	}
	time.Sleep(rand.N(60 * time.Millisecond))
	if rand.IntN(3) == 0 {
		renewing := time.Now()
		if err := w.call(ctx, s.Renew); err != nil {
			w.judge(ctx, s.Fence, sent, err)
		} else {
			w.write(slotEvent{s.Fence, "renewed", renewing.UnixNano(), time.Now().UnixNano()})
			sent = renewing
		}
		time.Sleep(rand.N(60 * time.Millisecond))
	}
	if fate == 1 {
		time.Sleep(slotLimit.Hold + clockError)
		switch err := w.call(ctx, s.Release); {
		case err == nil:
			w.write(slotEvent{Fence: s.Fence, What: "a late release has no error"})
		default:
			w.judge(ctx, s.Fence, sent, err)
		}
		return
	}
	w.write(slotEvent{Fence: s.Fence, What: "releasing", Sent: time.Now().UnixNano()})
	w.judge(ctx, s.Fence, sent, w.call(ctx, s.Release))
}

// call makes a call, which ends a second after it or the trouble has begun.
func (w slotWorker) call(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second+max(0, time.Until(w.trouble)))
	defer cancel()
	return do(ctx)
}

// judge writes an error: "failed", if the store was not reached, or a loss while the hold cannot have ended.
func (w slotWorker) judge(ctx context.Context, fence int64, sent time.Time, err error) {
	switch {
	case err == nil, ctx.Err() != nil:
	case !errors.Is(err, runtime.ErrSlotLost):
		w.write(slotEvent{Fence: fence, What: "failed: " + err.Error(), Received: time.Now().UnixNano()})
	case time.Since(sent) < slotLimit.Hold-clockError:
		w.write(slotEvent{Fence: fence, What: "after " + time.Since(sent).String() + ": " + err.Error()})
	}
}

// 64 workers in 4 processes compete for 5 slots. A tenth never release them, and a tenth do so late. Processes are killed
// and started again, and later frozen too, and connections fall silent. By the clock of the database there are never more
// than 5 holders, the fences grow, no holder loses a slot before its hold has ended, and no slot stays lost for longer.
func TestProcessesNeverHoldMoreThanTheSlots(t *testing.T) {
	t.Parallel()
	onAll(t, func(t *testing.T, nodes []live.Server) { holdMostOf(t, nodes...) })
	onSQLite(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits.db")
		store := live.Must(sqlite.Open(path))(t)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		r := &slotRun{course: course{Driver: "sqlite", DSNs: []string{path}}}
		r.holdMost(t, store)
	})
}

// The same while each process measures the clock by a late packet when it starts, and on each connection that it opens
// later.
func TestProcessesWithLateMeasurementsNeverHoldMoreThanTheSlots(t *testing.T) {
	t.Parallel()
	for _, late := range []direction{request, answer} {
		live.AtOnce(t, "late "+late.String(), func(t *testing.T) {
			onEach(t, func(t *testing.T, s live.Server) {
				// No connection falls silent: a session that ends soon when it is silent would end before the packet arrives.
				r, store := newSlotRun(t, s)
				r.late = late
				behind, _ := lateClock(t, s, late)
				r.course.DSNs = []string{behind.DSN}
				r.holdMost(t, store)
			})
		})
	}
}

// A process measures the clock by a packet that is late, and waits for a slot of another one, which holds it for a second.
// It gets the slot when the hold has ended by the database's clock, its answers say when that is, and before that the holder
// loses nothing.
func TestLateMeasurementEndsNoHold(t *testing.T) {
	t.Parallel()
	for _, late := range []direction{request, answer} {
		live.AtOnce(t, late.String(), func(t *testing.T) {
			onEach(t, func(t *testing.T, s live.Server) {
				r, holder := newSlotRun(t, s)
				behind, _ := lateClock(t, s, late)
				store := behind.StoreWith(t, behind.Open(t), sqlstore.Options{Table: r.course.Table})
				require.NoError(t, store.Ready(t.Context()))
				all := limiter.New(holder).Slots(&slotLimit, runtime.Key{})
				most := live.Must(all.AcquireN(t.Context(), slotLimit.Slots-1))(t)
				require.True(t, most.Allowed)

				sent := time.Now()
				last := live.Must(all.Acquire(t.Context()))(t)
				require.True(t, last.Allowed)
				received := time.Now()
				require.NoError(t, most.Renew(t.Context()))
				other := limiter.New(store).Slots(&slotLimit, runtime.Key{})
				for {
					asking := time.Now()
					slot := live.Must(other.Acquire(t.Context()))(t)
					if slot.Allowed {
						break
					}
					ends := time.Now().Add(slot.RetryAfter)
					require.False(t, ends.Before(sent.Add(slotLimit.Hold-clockError)), "%v early", sent.Add(slotLimit.Hold).Sub(ends))
					require.False(t, asking.After(received.Add(slotLimit.Hold+clockError)), "a hold of %v has not ended after %v",
						slotLimit.Hold, asking.Sub(received))
					time.Sleep(min(slot.RetryAfter, 100*time.Millisecond))
				}
				assert.GreaterOrEqual(t, time.Since(sent), slotLimit.Hold-clockError, "a hold ended early")
				require.ErrorIs(t, last.Release(t.Context()), runtime.ErrSlotLost)
			})
		})
	}
}

// holdMostOf runs the processes on the nodes of a database.
func holdMostOf(t *testing.T, nodes ...live.Server) {
	r, store := newSlotRun(t, nodes...)
	for _, s := range nodes {
		r.reach(t, impatient(t, s))
	}
	r.holdMost(t, store)
}

// slotRun is the processes of a test, and what happens to them.
type slotRun struct {
	course  course
	proxies []*proxy
	// late is in which direction measurements of the clock are late, or 0.
	late direction
	// trouble is when more begins than kills, and ends when the processes end.
	trouble, ends time.Time

	killed, frozen, silenced atomic.Int64
}

// newSlotRun returns the processes for a new table, and a store in it.
func newSlotRun(t *testing.T, nodes ...live.Server) (*slotRun, runtime.Store) {
	table, stores := live.Shared(t, nodes, nil)
	return &slotRun{course: course{Driver: nodes[0].Driver, Dialect: nodes[0].Dialect, Table: table, Pool: slotPool}}, stores[0]
}

// reach lets the processes reach a node through a proxy.
func (r *slotRun) reach(t *testing.T, s live.Server) {
	behind, proxy := through(t, s, 0)
	proxy.forgotten = 2 * time.Second
	r.course.DSNs, r.proxies = append(r.course.DSNs, behind.DSN), append(r.proxies, proxy)
}

func (r *slotRun) holdMost(t *testing.T, store runtime.Store) {
	lasts := 6 * time.Second
	if *long {
		lasts = 2 * time.Minute
	}
	// A process is ready when it has measured the clock.
	starts := time.Duration(0)
	if r.late > 0 {
		starts = measuredLate
	}
	lasts += 2 * starts
	r.trouble = time.Now().Add(lasts / 3)
	var files []string
	for n := range racers {
		files = append(files, filepath.Join(t.TempDir(), strconv.Itoa(n)))
	}
	var all []slotEvent
	// On a busy machine, processes may be killed before they have acquired a slot.
	for round := 0; round < maxSlotRounds && acquiredIn(all) < leastAcquired; round++ {
		r.ends = time.Now().Add(lasts)
		r.run(t, files, starts)
		all = nil
		for _, name := range files {
			all = append(all, eventsOf(t, name)...)
		}
	}
	ended := time.Now()
	limits := limiter.New(store).Slots(&slotLimit, runtime.Key{})
	require.Eventually(t, func() bool {
		s, err := limits.AcquireN(t.Context(), slotLimit.Slots)
		return err == nil && s.Allowed
	}, slotLimit.Hold+2*time.Second, 10*time.Millisecond, "slots stay lost")
	freed := time.Since(ended)
	acquired, failed, most, gap := judgeSlots(t, all, r.trouble)
	t.Logf("%d acquired, at most %d held at once; %d processes killed, %d frozen, %d silences, %d calls failed; "+
		"at most %v between two acquisitions, all free %v after the end", acquired, most, r.killed.Load(), r.frozen.Load(),
		r.silenced.Load(), failed, gap.Round(time.Millisecond), freed.Round(time.Millisecond))
}

// run runs the processes to the end. Each writes its events to its file.
func (r *slotRun) run(t *testing.T, files []string, starts time.Duration) {
	var group sync.WaitGroup
	for _, name := range files {
		group.Go(func() {
			for time.Until(r.ends) > 0 {
				assert.NoError(t, r.runProcess(name, starts))
			}
		})
	}
	for r.pause(time.Second, 4*time.Second) {
		if len(r.proxies) > 0 && time.Until(r.trouble) < 0 {
			r.proxies[rand.N(len(r.proxies))].silence()
			r.silenced.Add(1)
		}
	}
	group.Wait()
}

// pause sleeps for a random time, at most to the end. It returns false at the end.
func (r *slotRun) pause(least, most time.Duration) bool {
	time.Sleep(min(time.Until(r.ends), least+rand.N(most-least)))
	return time.Until(r.ends) > 0
}

// runProcess runs a process that writes its events to a file, until it has killed it, or the end. Meanwhile it freezes it
// now and then, for up to two holds. starts is how long it takes to start.
func (r *slotRun) runProcess(events string, starts time.Duration) error {
	text, err := json.Marshal(slotCourse{course: r.course, Events: events, For: time.Until(r.ends), Calm: time.Until(r.trouble)})
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), slotsEnv+"="+string(text)), os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	for r.pause(starts+time.Second, starts+3*time.Second) {
		if time.Until(r.trouble) > 0 || rand.N(2) == 0 {
			r.killed.Add(1)
			if err := cmd.Process.Kill(); err != nil {
				return err
			}
			_ = cmd.Wait() // it was killed
			return nil
		}
		r.frozen.Add(1)
		if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		r.pause(slotLimit.Hold/4, 2*slotLimit.Hold)
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			return err
		}
	}
	return cmd.Wait()
}

// acquiredIn returns how many of the events are acquisitions.
func acquiredIn(all []slotEvent) (n int) {
	for _, e := range all {
		if e.What == "acquired" {
			n++
		}
	}
	return n
}

func eventsOf(t *testing.T, name string) (all []slotEvent) {
	t.Helper()
	file := live.Must(os.Open(name))(t)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var e slotEvent
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e), lines.Text())
		all = append(all, e)
	}
	return all
}

// judgeSlots judges the events of all holders, and returns how many slots were acquired, how many calls failed, how many
// slots were held at once at most, and the longest time between two acquisitions. Before the trouble, no call may fail,
// except on a connection that MySQL ends at the same time.
func judgeSlots(t *testing.T, all []slotEvent, trouble time.Time) (acquired, failed, most int, gap time.Duration) {
	t.Helper()
	type holding struct{ from, until, sent, received int64 }
	holders := map[int64]*holding{}
	hold := int64(slotLimit.Hold - clockError)
	slices.SortStableFunc(all, func(a, b slotEvent) int { return cmp.Compare(a.Fence, b.Fence) })
	for _, e := range all {
		h := holders[e.Fence]
		switch e.What {
		case "acquired":
			assert.Nil(t, h, "the fence %d has two holders", e.Fence)
			// It is certainly held from when the answer arrives, until its hold has passed since the request was sent.
			holders[e.Fence] = &holding{e.Received, e.Sent + hold, e.Sent, e.Received}
		case "renewed":
			h.until = e.Sent + hold
		case "releasing":
			h.until = min(h.until, e.Sent)
		default:
			idle := strings.Contains(e.What, "invalid connection") || strings.Contains(e.What, "Error 4031")
			if !strings.HasPrefix(e.What, "failed: ") || e.Received < trouble.UnixNano() && !idle {
				t.Errorf("%d: %s", e.Fence, e.What)
			}
			failed++
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
	assert.LessOrEqual(t, most, int(slotLimit.Slots), "held at once")
	assert.GreaterOrEqual(t, len(holders), leastAcquired, "slots were acquired")
	// Each session of the processes may have fallen silent while it waited for the row, and then keeps it for a second.
	assert.Less(t, gap, slotLimit.Hold+(racers*slotPool+3)*time.Second+measuredLate, "slots stay lost")
	return len(holders), failed, most, gap
}
