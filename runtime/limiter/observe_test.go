package limiter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
)

// spy is an observer that keeps everything.
type spy struct {
	mu   sync.Mutex
	seen []runtime.Observation
}

func (s *spy) Decided(_ context.Context, o runtime.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, o)
}

// take returns the observations since the last call.
func (s *spy) take() []runtime.Observation {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

// lines returns the observations since the last call, as "limit op outcome count/taken".
func (s *spy) lines() (lines []string) {
	for _, o := range s.take() {
		line := fmt.Sprintf("%s %v %v %d/%d", o.Limit, o.Op, o.Outcome, o.Count, o.Taken)
		if o.Source != runtime.SourceStore {
			line += " by " + o.Source.String()
		}
		lines = append(lines, line)
	}
	return lines
}

// Each row is a call, and what an observer sees of it.
func TestEveryVerbIsObserved(t *testing.T) {
	watch, ctx := &spy{}, t.Context()
	store := &faulty{Store: still()}
	limits := limiter.New(store, limiter.Observe(watch))
	key := runtime.KeyOf(runtime.String("k"))
	send := limits.Limit(bucket("send", 5), key)
	book := limits.Reservable(&runtime.Policy{
		Name: "book", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 2, MaxReserved: 5,
	}, key)
	in := func(mode runtime.Mode) limiter.Limit {
		p := bucket(mode.String(), 1)
		p.Mode = mode
		return limits.Limit(p, key)
	}
	failing := func(onError runtime.OnError) limiter.Limit {
		p := bucket(onError.String(), 1)
		p.OnError = onError
		return limits.Limit(p, key)
	}
	var d runtime.Decision
	var r *limiter.Reservation
	var rs *limiter.Reservations
	for _, row := range []struct {
		name string
		call func()
		want []string
	}{
		{"Allow", func() { d, _ = send.Allow(ctx) }, []string{"send Take allowed 1/1"}},
		{"AllowN denied", func() { _, _ = send.AllowN(ctx, 5) }, []string{"send Take denied 5/0"}},
		{"AllowN of 0", func() { _, _ = send.AllowN(ctx, 0) }, []string{"send Take allowed 0/0"}},
		{"AllowUpTo", func() { _, _ = send.AllowUpTo(ctx, 2) }, []string{"send TakeUpTo allowed 2/2"}},
		{"Check", func() { _, _ = send.Check(ctx) }, []string{"send Check checked 1/0"}},
		{"Check denied", func() { _, _ = send.CheckN(ctx, 3) }, []string{"send Check denied 3/0"}},
		{"Require", func() { _ = send.RequireN(ctx, 3) }, []string{"send Take denied 3/0"}},
		{"Refund", func() { _, _ = send.Refund(ctx, d) }, []string{"send Refund refunded 1/0"}},
		{"Refund of a denial", func() { _, _ = send.Refund(ctx, runtime.Decision{}) }, nil},
		{"Charge", func() { _, _ = send.Charge(ctx, 9) }, []string{"send Charge charged 9/9"}},
		{"Peek", func() { _, _ = send.Peek(ctx) }, nil},
		{"Reset", func() { _ = send.Reset(ctx) }, []string{"send Reset reset 0/0"}},

		{"Reserve", func() { r, _ = book.ReserveN(ctx, 4) }, []string{"book Take delayed 4/4"}},
		{"Reserve denied", func() { _, _ = book.ReserveN(ctx, 4) }, []string{"book Take denied 4/0"}},
		{"Settle for less", func() { _ = r.Settle(ctx, 1) }, []string{"book Refund refunded 3/0"}},
		{"Settle again", func() { _ = r.Settle(ctx, 1) }, nil},
		{"Reserve", func() { r, _ = book.Reserve(ctx) }, []string{"book Take allowed 1/1"}},
		{"Settle for more", func() { _ = r.Settle(ctx, 3) }, []string{"book Charge charged 2/2"}},
		{"Reserve", func() { r, _ = book.Reserve(ctx) }, []string{"book Take delayed 1/1"}},
		{"Settle for the same", func() { _ = r.Settle(ctx, 1) }, nil},
		{"Reset", func() { _ = book.Reset(ctx) }, []string{"book Reset reset 0/0"}},

		{"All", func() { _, _ = limits.All(ctx, send, book.Checked()) }, []string{"send Take allowed 1/1", "book Check checked 1/0"}},
		{"All, one denies", func() { _, _ = limits.All(ctx, send, book.N(2), send.N(4)) },
			[]string{"send Take denied_by_other 1/0", "book Take denied_by_other 2/0", "send Take denied 4/0"}},
		{"All, one is invalid", func() { _, _ = limits.All(ctx, send, book.N(-1)) },
			[]string{"book Take invalid -1/0"}},
		{"All, the first is invalid", func() { _, _ = limits.All(ctx, book.N(-1), send, send.N(6)) },
			[]string{"book Take invalid -1/0"}},
		{"All, only checked", func() { _, _ = limits.All(ctx, send.Checked(), book.CheckedN(7)) }, nil},
		{"All of none", func() { _, _ = limits.All(ctx) }, nil},
		{"ReserveAll", func() { rs, _ = limits.ReserveAll(ctx, send, book.N(3)) },
			[]string{"send Take allowed 1/1", "book Take delayed 3/3"}},
		{"Cancel of all", func() { _ = rs.Cancel(ctx) }, []string{"send Refund refunded 1/0", "book Refund refunded 3/0"}},
		{"Group.Check", func() { _, _ = limits.Group(send, book).Check(ctx) }, []string{"send Check checked 1/0", "book Check checked 1/0"}},
		{"Group.Wait", func() { _ = limits.Group(send, book).Wait(ctx) }, []string{"send Take allowed 1/1", "book Take allowed 1/1"}},
		{"Wait", func() { _ = send.Wait(ctx) }, []string{"send Take allowed 1/1"}},

		{"shadow", func() { _, _ = in(runtime.ModeShadow).Allow(ctx) }, []string{"shadow Take allowed 1/1"}},
		{"shadow, denied", func() { _, _ = in(runtime.ModeShadow).Allow(ctx) }, []string{"shadow Take shadow_denied 1/0"}},
		{"shadow, some", func() { _ = in(runtime.ModeShadow).Reset(ctx); _, _ = in(runtime.ModeShadow).AllowUpTo(ctx, 3) },
			[]string{"shadow Reset reset 0/0", "shadow TakeUpTo shadow_delayed 3/3"}},
		{"off", func() { _, _ = in(runtime.ModeOff).Allow(ctx) }, []string{"off Take allowed 1/1 by none"}},
		{"unlimited", func() { _, _ = in(runtime.ModeUnlimited).AllowN(ctx, 7) }, []string{"unlimited Take allowed 7/7 by none"}},
		{"block", func() { _, _ = in(runtime.ModeBlock).Allow(ctx) }, []string{"block Take denied 1/0 by none"}},
		{"Wait on block", func() { _ = in(runtime.ModeBlock).Wait(ctx) }, []string{"block Take denied 1/0 by none"}},

		{"negative", func() { _, _ = send.AllowN(ctx, -1) }, []string{"send Take invalid -1/0"}},
		{"more than the capacity", func() { _, _ = send.AllowN(ctx, 6) }, []string{"send Take invalid 6/0"}},
		{"invalid key", func() {
			_, _ = limits.Limit(bucket("send", 5), runtime.KeyOf(runtime.Text(nil))).Allow(ctx)
		},
			[]string{"send Take invalid 1/0 by none"}},
		{"no policy", func() { _, _ = limits.Limit(nil, key).Allow(ctx) }, []string{" Take invalid 1/0 by none"}},
		{"invalid policy in a group", func() { _, _ = limits.All(ctx, send, limits.Limit(&runtime.Policy{Name: "bad"}, key)) },
			[]string{"bad Take invalid 1/0 by none"}},
		{"no store", func() {
			_, _ = limiter.New(nil, limiter.Observe(watch)).Limit(bucket("send", 5), key).Allow(ctx)
		}, []string{"send Take invalid 1/0 by none"}},

		{"the store fails", func() { store.err = errDown; _, _ = failing(runtime.FailClosed).Allow(ctx) }, []string{"closed Take error 1/0"}},
		{"open", func() { _, _ = failing(runtime.FailOpen).Allow(ctx) }, []string{"open Take failed_open 1/1"}},
		{"local", func() { _, _ = failing(runtime.FailLocal).Allow(ctx) }, []string{"local Take failed_local 1/1 by memory"}},
		{"local, denied", func() { _, _ = failing(runtime.FailLocal).Allow(ctx) }, []string{"local Take denied 1/0 by memory"}},
		{"Charge fails", func() { _, _ = failing(runtime.FailOpen).Charge(ctx, 2) }, []string{"open Charge error 2/0"}},
		{"All, closed and open", func() { _, _ = limits.All(ctx, failing(runtime.FailClosed), failing(runtime.FailOpen)) },
			[]string{"closed Take error 1/0", "open Take error 1/0"}},
		{"canceled", func() {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			_, _ = send.Allow(ended)
		}, []string{"send Take canceled 1/0 by none"}},
	} {
		row.call()
		assert.Equal(t, row.want, watch.lines(), row.name)
	}
}

func TestObservationHasTheDecision(t *testing.T) {
	watch := &spy{}
	limits := limiter.New(still(), limiter.Observe(watch))
	p := reservable(20)
	book := limits.Reservable(p, runtime.Key{})
	one := func(err error) runtime.Observation {
		require.NoError(t, err)
		seen := watch.take()
		require.Len(t, seen, 1)
		require.Same(t, p, seen[0].Policy)
		require.Equal(t, "limit", seen[0].Limit)
		require.Equal(t, 1, seen[0].Limits)
		return seen[0]
	}
	_, err := book.AllowN(t.Context(), 18)
	o := one(err)
	require.EqualValues(t, 2, o.Remaining)
	require.False(t, o.Near(), "a tenth is left")
	_, err = book.AllowUpTo(t.Context(), 1)
	o = one(err)
	require.True(t, o.Near())
	require.EqualValues(t, 1, o.Tokens())

	d, err := book.AllowN(t.Context(), 5)
	o = one(err)
	require.Equal(t, d.RetryAfter, o.RetryAfter)
	require.EqualValues(t, 5, o.Tokens(), "those requested")
	require.False(t, o.Near())
	require.Equal(t, "limit: Take 5: denied, retry after 4s", o.String())
	_, err = book.CheckN(t.Context(), 5)
	o = one(err)
	require.Zero(t, o.Tokens())

	r, err := book.ReserveN(t.Context(), 5)
	o = one(err)
	require.Equal(t, r.UsableAfter, o.Delay)
	require.EqualValues(t, 5, o.Tokens())
	require.True(t, o.Near())

	// What a caller can make up is bounded, so that sums do not overflow.
	require.NoError(t, book.Reset(t.Context()))
	must(book.ReserveN(t.Context(), 40))
	watch.take()
	_, err = book.AllowUpTo(t.Context(), 1<<50)
	o = one(err)
	require.EqualValues(t, int64(1<<50), o.Count)
	require.EqualValues(t, 40, o.Tokens())

	must(limits.All(t.Context(), limits.Limit(bucket("send", 1), runtime.Key{}), book))
	seen := watch.take()
	require.Equal(t, []int{0, 2, 1, 2}, []int{seen[0].Index, seen[0].Limits, seen[1].Index, seen[1].Limits})
}

// A Wait is one request of the caller, however often it retries.
func TestWaitIsObservedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watch := &spy{}
		limits := limiter.New(&memstore.Store{}, limiter.Observe(watch))
		plain, ordered := limits.Limit(bucket("plain", 1), runtime.Key{}), limits.Reservable(reservable(10), runtime.Key{})
		require.NoError(t, plain.Wait(t.Context()))
		require.Equal(t, []string{"plain Take allowed 1/1"}, watch.lines())

		took := elapsed(func() { require.NoError(t, plain.Wait(t.Context())) })
		seen := watch.take()
		require.Len(t, seen, 1)
		require.Equal(t, runtime.OutcomeDelayed, seen[0].Outcome)
		require.Equal(t, took, seen[0].Waited)

		took = elapsed(func() { require.NoError(t, limits.Group(plain, ordered).Wait(t.Context())) })
		seen = watch.take()
		require.Len(t, seen, 2)
		require.Equal(t, took, seen[0].Waited)
		require.Equal(t, took, seen[1].Waited)

		// It gives up at once, because its deadline is too early.
		early, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		defer cancel()
		require.ErrorIs(t, plain.Wait(early), runtime.ErrLimited)
		require.Equal(t, []string{"plain Take denied 1/0"}, watch.lines())

		// It is interrupted while it waits.
		for _, wait := range []func(context.Context) error{plain.Wait, limits.Group(plain).Wait} {
			ending, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			require.ErrorIs(t, wait(ending), context.Canceled)
			seen = watch.take()
			require.Len(t, seen, 1)
			require.Equal(t, runtime.OutcomeCanceled, seen[0].Outcome)
			require.Equal(t, time.Millisecond, seen[0].Waited)
			require.ErrorIs(t, seen[0].Err(), context.Canceled)
		}

		// Reserved tokens are taken before the wait, and refunded if it is interrupted.
		require.NoError(t, ordered.Reset(t.Context()))
		must(ordered.AllowN(t.Context(), 10))
		watch.take()
		ending, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		require.ErrorIs(t, ordered.Wait(ending), context.Canceled)
		require.Equal(t, []string{"limit Take delayed 1/1", "limit Refund refunded 1/0"}, watch.lines())
	})
}

// reentrant is an observer that uses the limiter.
type reentrant struct{ act func() }

func (r *reentrant) Decided(context.Context, runtime.Observation) {
	if act := r.act; act != nil {
		r.act = nil // not for its own request
		act()
	}
}

// If a lock were held, the test would end with a deadlock.
func TestObserverMayUseTheLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watch := &reentrant{}
		limits := limiter.New(&memstore.Store{}, limiter.Observe(watch))
		plain, ordered := limits.Limit(bucket("plain", 1), runtime.Key{}), limits.Reservable(reservable(10), runtime.Key{})

		r := must(ordered.Reserve(t.Context()))
		watch.act = func() { require.ErrorIs(t, r.Settle(t.Context(), 0), runtime.ErrNotReserved) }
		require.NoError(t, r.Cancel(t.Context()))
		require.Nil(t, watch.act, "it was called")

		rs := must(limits.ReserveAll(t.Context(), plain, ordered))
		watch.act = func() { require.ErrorIs(t, rs.Cancel(t.Context()), runtime.ErrNotReserved) }
		require.NoError(t, rs.Cancel(t.Context()))
		require.Nil(t, watch.act)

		require.NoError(t, plain.Wait(t.Context()))
		watch.act = func() { require.NoError(t, plain.Wait(t.Context())) }
		require.NoError(t, plain.Wait(t.Context()), "after a turn in the queue of the key")
		require.Nil(t, watch.act)
	})
}

func TestPanicOfAnObserverReachesTheCaller(t *testing.T) {
	watch := &reentrant{act: func() { panic("observer") }}
	limits := limiter.New(still(), limiter.Observe(watch))
	book := limits.Reservable(reservable(10), runtime.Key{})
	require.PanicsWithValue(t, "observer", func() { _, _ = book.AllowN(t.Context(), 3) })
	require.EqualValues(t, 7, must(book.Peek(t.Context())).Remaining, "the tokens are taken")

	// No lock remains held.
	r := must(book.ReserveN(t.Context(), 2))
	watch.act = func() { panic("observer") }
	require.Panics(t, func() { _ = r.Settle(t.Context(), 1) })
	require.ErrorIs(t, r.Settle(t.Context(), 1), runtime.ErrNotReserved, "it is settled")
	require.EqualValues(t, 6, must(book.Peek(t.Context())).Remaining)
}

func TestObservationsInATransactionSaySo(t *testing.T) {
	watch, store := &spy{}, still()
	limits := limiter.New(store, limiter.Observe(watch))
	tx := store.Begin()
	must(limits.WithTx(tx).Limit(bucket("send", 1), runtime.Key{}).Allow(t.Context()))
	require.NoError(t, tx.Rollback())
	must(limits.Limit(bucket("send", 1), runtime.Key{}).Allow(t.Context()))
	seen := watch.take()
	require.Len(t, seen, 2)
	require.True(t, seen[0].InTx)
	require.Equal(t, runtime.OutcomeAllowed, seen[0].Outcome)
	require.False(t, seen[1].InTx)
	require.Equal(t, runtime.OutcomeAllowed, seen[1].Outcome, "the first was rolled back")
}

func TestOptionsOfObserversAddUp(t *testing.T) {
	first, second := &spy{}, &spy{}
	limits := limiter.New(still(), limiter.Observe(first), limiter.Observe(nil), limiter.Observe(second))
	require.NoError(t, limits.Limit(bucket("send", 1), runtime.Key{}).Require(t.Context()))
	require.Equal(t, []string{"send Take allowed 1/1"}, first.lines())
	require.Equal(t, []string{"send Take allowed 1/1"}, second.lines())
}

func TestObserverSeesTheEffectivePlan(t *testing.T) {
	watch := &spy{}
	limits := limiter.New(still(), limiter.Observe(watch))
	policies := runtime.PlanPolicies{{}, *bucket("calls", 5), *bucket("calls", 50)}
	must(limits.Limit(policies.For(2, runtime.Key{})).Allow(t.Context()))
	_, err := limits.Limit(policies.For(0, runtime.Key{})).Allow(t.Context())
	require.ErrorIs(t, err, runtime.ErrInvalidPlan)
	seen := watch.take()
	require.Same(t, &policies[2], seen[0].Policy)
	require.Equal(t, "calls", seen[1].Limit)
	require.Equal(t, runtime.OutcomeInvalid, seen[1].Outcome)
}

// A request that waits for a store longer than the caller's deadline is the store's failure, not the caller's.
func TestDeadlineInTheStoreIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watch := &spy{}
		limits := limiter.New(&faulty{Store: &memstore.Store{}, slow: time.Hour}, limiter.Observe(watch))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := limits.Limit(bucket("send", 1), runtime.Key{}).Allow(ctx)
		require.Error(t, err)
		o := watch.take()[0]
		require.Equal(t, runtime.OutcomeError, o.Outcome)
		require.Equal(t, time.Second, o.Duration)
	})
}

// leaky is an error as of a database that quotes the key.
func leaky(key string) error { return fmt.Errorf("duplicate key (send,%s), for good", key) }

// canary is a key that must be printed nowhere.
const canary = "canary-4711"

func TestObservationsDoNotPrintTheKey(t *testing.T) {
	watch := &spy{}
	store := &faulty{Store: still(), err: leaky(canary)}
	limits := limiter.New(store, limiter.Observe(watch))
	p := bucket("send", 1)
	p.OnError = runtime.FailOpen
	for _, policy := range []*runtime.Policy{bucket("send", 1), p} {
		_, _ = limits.Limit(policy, runtime.KeyOf(runtime.String(canary))).Allow(t.Context())
	}
	store.err = nil
	must(limits.Limit(p, runtime.KeyOf(runtime.String(canary))).Allow(t.Context()))
	_, err := limits.Limit(p, runtime.KeyOf(runtime.Text(secretive{}))).Allow(t.Context())
	require.Error(t, err)
	seen := watch.take()
	require.Len(t, seen, 4)
	for _, o := range seen {
		type wrapper struct{ inner runtime.Observation }
		type Exported struct{ Inner *runtime.Observation }
		var printed strings.Builder
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "%t"} {
			fmt.Fprintf(&printed, verb+verb+verb+verb, o, &o, wrapper{o}, Exported{&o})
		}
		text := must(json.Marshal([]any{o, &o, wrapper{o}, Exported{&o}}))
		printed.Write(text)
		// Testify prints all fields, unexported ones too, as debuggers and loggers by reflection do.
		failure := &failures{}
		assert.Equal(failure, wrapper{o}, wrapper{})
		require.Contains(t, failure.text, "hiddenKey")
		printed.WriteString(failure.text)
		for _, form := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary), "99 97 110 97 114 121"} {
			require.NotContains(t, printed.String(), form)
		}
		require.NotContains(t, o.String()+o.Message()+fmt.Sprintf("%+v", o), canary)
	}
	require.Contains(t, seen[0].String(), "duplicate key (send,[key]), for good")
	for _, verb := range []string{"%v", "%+v", "%#v", "%d"} {
		require.Equal(t, "send: Take 1: allowed", fmt.Sprintf(verb, seen[2]))
	}
}

// secretive is a part of a key whose error has the key.
type secretive struct{}

func (secretive) MarshalText() ([]byte, error) { return nil, leaky(canary) }

// failures is a test that keeps its message.
type failures struct{ text string }

func (f *failures) Errorf(format string, args ...any) { f.text += fmt.Sprintf(format, args...) }

func TestMessageReplacesTheKey(t *testing.T) {
	for _, row := range []struct{ key, text, want string }{
		{"", "down", "down"},
		{"customer", "for customer", "for [key]"},
		{"customer", "xcustomers", "x[key]s"},
		{"42", "limit 42: row (42)", "limit [key]: row ([key])"},
		{"42", "after 420 and 142ms", "after 420 and 142ms"},
		{"42", "42", "[key]"},
	} {
		watch := &spy{}
		limits := limiter.New(&faulty{Store: still(), err: errors.New(row.text)}, limiter.Observe(watch))
		key := runtime.Key{}
		if row.key != "" {
			key = runtime.KeyOf(runtime.String(row.key))
		}
		_, _ = limits.Limit(bucket("send", 1), key).Allow(t.Context())
		o := watch.take()[0]
		require.Equal(t, `limit "send": `+row.want, o.Message())
	}
}

func TestFingerprint(t *testing.T) {
	watch := &spy{}
	limits := limiter.New(still(), limiter.Observe(watch))
	key := runtime.KeyOf(runtime.String("a|b"), runtime.Int(7))
	require.NoError(t, limits.Limit(bucket("send", 1), key).Require(t.Context()))
	o := watch.take()[0]
	require.Equal(t, runtime.Fingerprint([]byte("secret"), key.String()), o.Fingerprint([]byte("secret")))
	require.Equal(t, "99cf03e72f3b", runtime.Fingerprint([]byte("secret"), key.String()), "printf 'a%%7Cb|7' | openssl sha256 -hmac secret")
	require.NotEqual(t, o.Fingerprint(nil), o.Fingerprint([]byte("secret")))
}

// A request allocates one call beside what the store allocates, and one function, which hides the key, if it is
// observed.
func TestObservedRequestAllocatesOnce(t *testing.T) {
	ctx, key, p := context.Background(), runtime.KeyOf(runtime.String("key")), busy()
	store := &memstore.Store{}
	calls := []runtime.Call{{Requests: []runtime.Request{{Policy: p, Key: key.String(), Count: 1}}}}
	direct := testing.AllocsPerRun(1000, func() { _, _ = store.Do(ctx, calls) })
	require.Equal(t, 1.0, direct, "the answer and its decision")
	for more, options := range [][]limiter.Option{nil, {limiter.Observe(ignorant{})}} {
		l := limiter.New(store, options...).Limit(p, key)
		require.Equal(t, direct+1+float64(more), testing.AllocsPerRun(1000, func() { _, _ = l.Allow(ctx) }))
	}
}

type ignorant struct{}

func (ignorant) Decided(context.Context, runtime.Observation) {}

// Each observation has the policy that was in force, its entry, and whether the store was needed.
func TestObservationsOfOverrides(t *testing.T) {
	watch := &spy{}
	o := newOverriding(t, overridable())
	o.limiter = limiter.New(&faulty{Store: o.store}, limiter.Observe(watch))
	ctx := t.Context()
	for _, row := range []struct {
		key    string
		before func()
		call   func(l limiter.Limit)
		want   string
		source runtime.Source
		// capacity is that of the policy, and entry the number of the override.
		capacity, entry int64
	}{
		{"plain", func() {}, func(l limiter.Limit) { _, _ = l.Allow(ctx) }, "calls Take allowed 1/1", runtime.SourceStore, 10, 0},
		{"numbers", func() { o.override(o.overrides("numbers"), runtime.Override{Capacity: 30}) },
			func(l limiter.Limit) { _, _ = l.AllowN(ctx, 20) }, "calls Take allowed 20/20", runtime.SourceStore, 30, 1},
		{"numbers", func() {}, func(l limiter.Limit) { _, _ = l.AllowN(ctx, 31) }, "calls Take invalid 31/0", runtime.SourceStore, 30, 1},
		{"numbers", func() {}, func(l limiter.Limit) { _, _ = l.Charge(ctx, 2) }, "calls Charge charged 2/2", runtime.SourceStore, 30, 1},
		{"block", func() { o.block(o.overrides("block"), time.Minute) },
			func(l limiter.Limit) { _, _ = l.Allow(ctx) }, "calls Take denied 1/0 by none", runtime.SourceNone, 10, 2},
		{"block", func() {}, func(l limiter.Limit) { _ = l.Wait(ctx) }, "calls Take denied 1/0 by none", runtime.SourceNone, 10, 2},
		{"off", func() { o.override(o.overrides("off"), runtime.Override{Mode: runtime.ModeOff}) },
			func(l limiter.Limit) { _, _ = l.AllowN(ctx, 99) }, "calls Take allowed 99/99 by none", runtime.SourceNone, 10, 3},
		{"shadow", func() { o.override(o.overrides("shadow"), runtime.Override{Mode: runtime.ModeShadow}) },
			func(l limiter.Limit) { _, _ = l.AllowN(ctx, 11) }, "calls Take shadow_denied 11/0", runtime.SourceStore, 10, 4},
	} {
		row.before()
		watch.take()
		row.call(o.key(row.key))
		seen := watch.take()
		require.Len(t, seen, 1, row.want)
		watch.seen = seen
		require.Equal(t, []string{row.want}, watch.lines())
		require.Equal(t, row.source, seen[0].Source, row.want)
		require.Equal(t, row.source == runtime.SourceStore, seen[0].Duration > 0, row.want)
		require.Equal(t, row.capacity, seen[0].Policy.Capacity, row.want)
		entry, ok := seen[0].Override()
		require.Equal(t, row.entry, entry, row.want)
		require.Equal(t, row.entry != 0, ok, row.want)
	}
}

// A hint for a client, or an operator's page, reads a key without asking for tokens: it must not count as a denial.
func TestReadsOfAKeyAreNotObserved(t *testing.T) {
	watch := &spy{}
	o := newOverriding(t, overridable())
	o.limiter = limiter.New(o.store, limiter.Observe(watch))
	o.block(o.overrides("blocked"), time.Hour)
	ctx := t.Context()
	for _, key := range []string{"free", "blocked"} {
		must(o.key(key).CheckN(ctx, 0))
		must(o.key(key).Peek(ctx))
		must(o.limiter.All(ctx, o.key(key).CheckedN(0), o.key("other").CheckedN(0)))
	}
	require.Empty(t, watch.take())
	// Beside requests, only those are observed.
	must(o.limiter.All(ctx, o.key("blocked").CheckedN(0), o.key("other"), o.key("other").Checked()))
	seen := watch.take()
	require.Len(t, seen, 2)
	require.Equal(t, []int{1, 2}, []int{seen[0].Index, seen[1].Index})
	must(o.key("blocked").Check(ctx))
	require.Len(t, watch.take(), 1, "a check of a token may protect an action")
}

// followed is a store whose log of overrides is followed by a view of its own.
type followed struct {
	*memstore.Store
	view *override.View
}

func (f followed) OverrideView() *override.View { return f.view }

// Decisions, observers, waiters and writers at once: every observation has the policy of its entry, and with -race this
// finds unsynchronized access. No goroutine is left.
func TestObserversWhileOverridesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		store := &memstore.Store{}
		view := override.New(override.Source{
			Since: store.OverridesSince, Now: func() int64 { return time.Now().UnixNano() },
			Background: func(f func(context.Context)) { go f(ctx) },
		})
		watch := &spy{}
		limits := limiter.New(followed{store, view}, limiter.Observe(watch))
		p, key := overridable(), runtime.KeyOf(runtime.String("a"))
		limit, overrides := limits.Limit(p, key), limits.Overrides(p, key)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 200 {
					must(limit.AllowUpTo(t.Context(), 1))
					time.Sleep(time.Second)
				}
			})
		}
		all.Go(func() {
			bounded, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := limits.Group(limit, limit).Wait(bounded)
			require.True(t, err == nil || errors.Is(err, runtime.ErrLimited) || errors.Is(err, context.DeadlineExceeded), "%v", err)
		})
		capacities := map[int64]int64{0: 10}
		for i := range int64(50) {
			e := must(overrides.Set(t.Context(), runtime.Override{Capacity: 20 + i, Until: time.Now().Add(3 * time.Second), Reason: "r", Author: "a"}))
			capacities[e.ID] = 20 + i
			time.Sleep(5 * time.Second)
		}
		all.Wait()
		overridden := 0
		for _, o := range watch.take() {
			entry, ok := o.Override()
			require.Equal(t, capacities[entry], o.Policy.Capacity, "entry %d", entry)
			if ok {
				overridden++
			}
		}
		require.NotZero(t, overridden)
		stop()
		synctest.Wait()
	})
}
