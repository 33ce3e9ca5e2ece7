package override_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	goruntime "runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/internal/override"
	"github.com/ratelimitgen/ratelimitgen/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

var overridable = runtimetest.Overridable

// logStore is a store whose log of overrides may be slow to arrive, fail, or lose its end.
type logStore struct {
	*memstore.Store
	view  *override.View
	mu    sync.Mutex
	log   []runtime.OverrideEntry
	err   error
	reads int
	// takes is how long a read takes, and page, if not nil, what it returns.
	takes time.Duration
	page  []runtime.OverrideEntry
	// now is the time if it is not zero.
	now time.Time
}

func newLogStore(mem *memstore.Store, background func(func(context.Context))) *logStore {
	s := &logStore{Store: mem}
	s.view = override.New(override.Source{
		Since: s.OverridesSince, Background: background,
		Now: func() int64 {
			if s.now.IsZero() {
				return time.Now().UnixNano()
			}
			return s.now.UnixNano()
		},
	})
	return s
}

func (s *logStore) OverrideView() *override.View { return s.view }

func (s *logStore) OverridesSince(ctx context.Context, id int64) (entries []runtime.OverrideEntry, err error) {
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.page != nil {
		return s.page, s.err
	}
	for _, e := range s.log {
		if e.ID >= id && len(entries) < override.Page {
			entries = append(entries, e)
		}
	}
	return entries, s.err
}

func (s *logStore) set(err error, log ...runtime.OverrideEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log, s.err = log, err
}

func entry(id int64, key, what string, until time.Time) runtime.OverrideEntry {
	return runtime.OverrideEntry{ID: id, Limit: "calls", Key: key, What: what, Capacity: 100, Until: until, Reason: "r", Author: "a"}
}

func TestViewReadsOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := newLogStore(&memstore.Store{}, func(f func(context.Context)) { go f(ctx) })
		limit := limiter.New(s).Limit(overridable(), runtime.KeyOf(runtime.String("a")))
		allowed := func() bool {
			d, err := limit.Check(t.Context())
			require.NoError(t, err)
			return d.Allowed
		}
		down := errors.New("down")
		s.set(down)
		_, err := limit.Allow(t.Context())
		require.ErrorIs(t, err, down, "a process that has never read them does not know whether the key is blocked")
		s.set(nil)
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		require.True(t, allowed())
		require.LessOrEqual(t, s.reads, 3, "one after the error, and the first of those once per interval")

		block := entry(1, "a", runtime.OverrideBlock, time.Now().Add(time.Hour))
		s.set(nil, block)
		time.Sleep(override.DefaultEvery)
		synctest.Wait()
		require.False(t, allowed())
		for range 100 {
			allowed()
		}
		reads := s.reads
		require.LessOrEqual(t, reads, 4)
		s.set(down)
		time.Sleep(10 * override.DefaultEvery)
		synctest.Wait()
		require.False(t, allowed(), "what is in force stays in force if it cannot be read")
		require.Equal(t, 10, s.reads-reads)
		// As after a failover that has lost the last entry, whose number another one has now.
		s.set(nil, entry(1, "b", runtime.OverrideBlock, time.Now().Add(time.Hour)))
		time.Sleep(override.DefaultEvery)
		synctest.Wait()
		require.True(t, allowed())
		stop()
		synctest.Wait()
		reads = s.reads
		time.Sleep(time.Hour)
		require.Equal(t, reads, s.reads)
	})
}

func TestOnErrorDecidesWhileOverridesAreUnread(t *testing.T) {
	s := newLogStore(&memstore.Store{}, nil)
	s.set(errors.New("down"))
	p := overridable()
	p.OnError = runtime.FailOpen
	d, err := limiter.New(s).Limit(p, runtime.Key{}).Allow(t.Context())
	require.NoError(t, err)
	require.Error(t, d.FailedOpen)
	p.OnError = runtime.FailLocal
	d, err = limiter.New(s).Limit(p, runtime.Key{}).Allow(t.Context())
	require.NoError(t, err)
	require.Error(t, d.FailedLocal)
	p.OnError, p.Mode = runtime.FailClosed, runtime.ModeOff
	_, err = limiter.New(s).Limit(p, runtime.Key{}).Allow(t.Context())
	require.Error(t, err, "the key may be blocked")
	_, err = limiter.New(struct{ runtime.Store }{s}).Limit(p, runtime.Key{}).Allow(t.Context())
	require.ErrorIs(t, err, runtime.ErrNoOverrides)
}

func TestUnknownEntryFailsItsKey(t *testing.T) {
	s := newLogStore(&memstore.Store{}, nil)
	p := overridable()
	limits := limiter.New(s)
	s.set(nil, entry(1, "a", "slower", runtime.ForGood()), entry(2, "b", runtime.OverridePlan, runtime.ForGood()),
		entry(3, "c", "slower", time.Unix(1, 0)))
	_, err := limits.Limit(p, runtime.KeyOf(runtime.String("a"))).Allow(t.Context())
	require.ErrorIs(t, err, runtime.ErrUnknownOverride)
	require.ErrorContains(t, err, `limit "calls": unknown override: entry 1 of the log of overrides has the kind "slower"`)
	_, err = limits.Limit(p, runtime.KeyOf(runtime.String("b"))).Allow(t.Context())
	require.ErrorIs(t, err, runtime.ErrUnknownOverride)
	_, err = limits.Limit(p, runtime.KeyOf(runtime.String("c"))).Allow(t.Context())
	require.NoError(t, err, "it has ended")
	require.Len(t, s.view.Problems(nil), 1)
	problems := s.view.Problems([]*runtime.Policy{p})
	require.Len(t, problems, 2)
	require.ErrorContains(t, problems[1], "entry 2")
	other := *p
	other.Name = "other"
	require.Len(t, s.view.Problems([]*runtime.Policy{&other}), 1, "of a limit that is not in the file, only the kind matters")

	require.NoError(t, s.view.Unused([]*runtime.Policy{&other, p}))
	err = s.view.Unused([]*runtime.Policy{&other})
	require.ErrorIs(t, err, runtime.ErrUnusedOverrides)
	require.EqualError(t, err, `limit "calls" is not among the policies, but 0 blocks and 2 overrides of it are in force: they have no effect; `+
		`run the SQL that "ratelimitgen diff" prints for that edit, or call Forget of the store to end them`)
	plain := *p
	plain.Overrides = runtime.OverrideBounds{}
	require.ErrorContains(t, s.view.Unused([]*runtime.Policy{&plain}), `limit "calls" has no overrides any more, but`)
}

// An entry that this version does not understand lets no request pass by its OnError, and no blocked key beside it.
func TestUnknownEntryOfAnotherKeyDoesNotLiftABlock(t *testing.T) {
	s := newLogStore(&memstore.Store{}, nil)
	p := overridable()
	p.OnError = runtime.FailOpen
	limits := limiter.New(s)
	s.set(nil, entry(1, "a", "slower", runtime.ForGood()), entry(2, "b", runtime.OverrideBlock, runtime.ForGood()))
	key := func(key string) limiter.Limit { return limits.Limit(p, runtime.KeyOf(runtime.String(key))) }
	for _, items := range [][]limiter.Item{{key("a"), key("b")}, {key("b"), key("a")}, {key("a")}} {
		ds, err := limits.All(t.Context(), items...)
		require.ErrorIs(t, err, runtime.ErrUnknownOverride)
		require.False(t, ds.Allowed)
	}
	ds, err := limits.All(t.Context(), key("b"))
	require.NoError(t, err)
	require.False(t, ds.Allowed)
}

func TestLongLogIsReadInPages(t *testing.T) {
	s := newLogStore(&memstore.Store{}, nil)
	var log []runtime.OverrideEntry
	for i := range int64(3*override.Page + 5) {
		log = append(log, entry(i+1, fmt.Sprint(i), runtime.OverrideNumbers, runtime.ForGood()))
	}
	for _, n := range []int{override.Page - 1, override.Page, override.Page + 1, 2 * override.Page, len(log)} {
		s.set(nil, log[:n]...)
		require.NoError(t, s.view.Refresh(t.Context()))
		require.Len(t, s.view.InForce(), n)
	}
}

// The first read belongs to the process: it goes on when the calls that wait for it have timed out, keeps the pages
// that it has read, and is tried again after an error.
func TestFirstReadOutlivesTheCallsThatWaitForIt(t *testing.T) {
	const page, pages = 50 * time.Millisecond, 6
	synctest.Test(t, func(t *testing.T) {
		s := newLogStore(&memstore.Store{}, func(f func(context.Context)) { go f(t.Context()) })
		s.takes = page
		var log []runtime.OverrideEntry
		for i := range int64(pages*(override.Page-1) - 1) {
			log = append(log, entry(i+1, fmt.Sprint(i), runtime.OverrideBlock, runtime.ForGood()))
		}
		s.set(nil, log...)
		p := overridable()
		p.Timeout = page + page/2
		limits, key, began := limiter.New(s), runtime.KeyOf(runtime.String("0")), time.Now()
		_, err := limits.Limit(p, key).Allow(t.Context())
		require.ErrorIs(t, err, runtime.ErrOverridesUnread)
		require.ErrorContains(t, err, "within the limit's timeout")
		require.Equal(t, p.Timeout, time.Since(began))
		open := *p
		open.OnError = runtime.FailOpen
		d, err := limits.Limit(&open, key).Allow(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, d.FailedOpen, runtime.ErrOverridesUnread)
		require.Equal(t, 2*p.Timeout, time.Since(began))

		down := errors.New("down")
		s.set(down, log...)
		_, err = limits.Limit(p, key).Allow(t.Context())
		require.ErrorIs(t, err, down, "of the page that was being read")
		at := time.Now()
		_, err = limits.Limit(p, key).Allow(t.Context())
		require.ErrorIs(t, err, down)
		require.Equal(t, at, time.Now(), "until the next attempt, calls fail at once")
		s.set(nil, log...)
		time.Sleep(page)
		synctest.Wait()
		d, err = limits.Limit(overridable(), key).Allow(t.Context())
		require.NoError(t, err, "a call without a timeout waits for the read")
		require.False(t, d.Allowed)
		require.Greater(t, time.Since(at), page)
		require.Equal(t, pages+1, s.reads, "each page is read once, and the one that failed twice")
	})
}

// slowLog is a log that is read slowly.
type slowLog struct {
	*memstore.Store
	view *override.View
}

func (s *slowLog) OverrideView() *override.View { return s.view }

// A refresh that begins while another goroutine reads for the first time reads the entries written meanwhile.
func TestRefreshDuringTheFirstReadReadsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memstore.Store{}
		s := &slowLog{Store: store}
		s.view = override.New(override.Source{
			Since: func(ctx context.Context, id int64) ([]runtime.OverrideEntry, error) {
				entries, err := store.OverridesSince(ctx, id)
				time.Sleep(time.Second)
				return entries, err
			},
			Now: func() int64 { return time.Now().UnixNano() },
		})
		var all sync.WaitGroup
		limit := limiter.New(s).Limit(overridable(), runtime.KeyOf(runtime.String("a")))
		all.Go(func() { _, _ = limit.Allow(t.Context()) })
		synctest.Wait()
		_, err := store.AppendOverride(t.Context(), runtime.OverrideEntry{
			Limit: "calls", Key: "a", What: runtime.OverrideBlock, Until: runtime.ForGood(), Reason: "r", Author: "a",
		})
		require.NoError(t, err)
		require.NoError(t, s.view.Refresh(t.Context()))
		d, err := limit.Allow(t.Context())
		require.NoError(t, err)
		require.False(t, d.Allowed)
		all.Wait()
	})
}

// A write copies a small part of what is in force, however much that is.
func TestOverrideOfOneKeyDoesNotCopyTheOthers(t *testing.T) {
	const keys = 20_000
	s := newLogStore(&memstore.Store{}, nil)
	var log []runtime.OverrideEntry
	for i := range int64(keys) {
		log = append(log, entry(i+1, fmt.Sprint(i), runtime.OverrideBlock, runtime.ForGood()))
	}
	s.set(nil, log...)
	require.NoError(t, s.view.Refresh(t.Context()))
	allocated := func(write func()) uint64 {
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		write()
		goruntime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	const writes = 100
	bytes := allocated(func() {
		for i := range int64(writes) {
			log = append(log, entry(keys+i+1, fmt.Sprint(i), runtime.OverrideUnblock, runtime.ForGood()))
			s.page = log[len(log)-2:]
			require.NoError(t, s.view.Refresh(t.Context()))
		}
	})
	require.Len(t, s.view.InForce(), keys-writes)
	require.Less(t, bytes/writes, uint64(keys), "bytes for each write")
}

// An entry that has ended takes no memory once the log has been read again.
func TestEndedEntriesAreDropped(t *testing.T) {
	s := newLogStore(&memstore.Store{}, nil)
	now := time.Now()
	s.set(nil, entry(1, "a", runtime.OverrideBlock, now.Add(time.Minute)), entry(2, "b", runtime.OverrideBlock, now.Add(time.Hour)))
	for _, row := range []struct {
		after time.Duration
		keys  int
	}{{0, 2}, {time.Minute, 1}, {time.Hour, 0}} {
		s.now = now.Add(row.after)
		require.NoError(t, s.view.Refresh(t.Context()))
		s.now = now // the clock is set back
		require.Len(t, s.view.InForce(), row.keys)
	}
}

func TestLimitWithoutOverridesCostsNothing(t *testing.T) {
	s := newLogStore(&memstore.Store{}, nil)
	p := runtimetest.Bucket("plain", 1000)
	limit := limiter.New(s).Limit(p, runtime.Key{})
	for range 10 {
		_, err := limit.Allow(t.Context())
		require.NoError(t, err)
	}
	require.Zero(t, s.reads)
	store := allowing{s, []runtime.Answer{{Decisions: []runtime.Decision{{Allowed: true}}, At: 1}}}
	limit = limiter.New(store).Limit(p, runtime.Key{})
	plain := testing.AllocsPerRun(100, func() { limit.Allow(t.Context()) })
	with := limiter.New(store).Limit(overridable(), runtime.KeyOf(runtime.String("a")))
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { with.Allow(t.Context()) }), plain, "a look-up needs no memory")
	require.NotZero(t, s.reads)
}

// allowing is a store that allows every call, without memory.
type allowing struct {
	*logStore
	answers []runtime.Answer
}

func (a allowing) Do(context.Context, []runtime.Call) ([]runtime.Answer, error) {
	return a.answers, nil
}

// What is in force is the same, now and later, for processes that read the log after a sweep, and for those that have
// read a part of it before.
func TestObsoleteOverridesChangeNothingInForce(t *testing.T) {
	what := []string{
		runtime.OverrideBlock, runtime.OverrideBlock, runtime.OverrideUnblock, runtime.OverrideNumbers, runtime.OverrideNone, runtime.OverrideGranted, "of a later version",
	}
	start, deleted := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 3))
		var log []runtime.OverrideEntry
		for i := range int64(30) {
			// The clocks of the processes that write differ by up to a day.
			at := start.Add(time.Duration(i)*24*time.Hour + time.Duration(random.Int64N(int64(24*time.Hour))))
			e := entry(i+1, string('a'+rune(random.IntN(3))), what[random.IntN(len(what))], at)
			e.At = at
			if e.What == runtime.OverrideBlock || e.What == runtime.OverrideNumbers {
				e.Until = at.Add(time.Duration(1+random.IntN(1000)) * time.Hour)
			}
			if random.IntN(4) == 0 {
				e.Until = runtime.ForGood()
			}
			log = append(log, e)
		}
		full, swept := log, log
		for i := range 3 {
			now := start.Add(time.Duration(10+15*i+random.IntN(15)) * 24 * time.Hour)
			obsolete := override.Obsolete(swept, now)
			before := swept
			swept = slices.DeleteFunc(slices.Clone(swept), func(e runtime.OverrideEntry) bool { return slices.Contains(obsolete, e.ID) })
			deleted += len(obsolete)
			require.Equal(t, full[len(full)-1], swept[len(swept)-1], "the newest entry stays")
			half := full[random.IntN(len(full))].ID
			torn := append(slices.DeleteFunc(slices.Clone(before), func(e runtime.OverrideEntry) bool { return e.ID > half }),
				slices.DeleteFunc(slices.Clone(swept), func(e runtime.OverrideEntry) bool { return e.ID <= half })...)
			for _, later := range []time.Duration{0, 24 * time.Hour, 100 * 24 * time.Hour} {
				want := inForceOf(t, full, now.Add(later))
				require.Equal(t, want, inForceOf(t, swept, now.Add(later)), "seed %d", seed)
				require.Equal(t, want, inForceOf(t, torn, now.Add(later)), "seed %d, read in part before the sweep", seed)
			}
		}
	}
	require.Greater(t, deleted, 3000)
}

// inForceOf returns the IDs of the entries of a log in force at an instant.
func inForceOf(t *testing.T, log []runtime.OverrideEntry, now time.Time) (ids []int64) {
	view := override.New(override.Source{
		Since: func(context.Context, int64) ([]runtime.OverrideEntry, error) { return log, nil },
		Now:   func() int64 { return now.UnixNano() },
	})
	require.NoError(t, view.Refresh(t.Context()))
	for _, e := range view.InForce() {
		ids = append(ids, e.ID)
	}
	return ids
}
