package sqlite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/runtimetest"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// warned are the limits whose thresholds processes cross.
var warned = func() (all []*runtime.Policy) {
	for i, kind := range runtimetest.TokenKinds() {
		p := once(fmt.Sprint("warned", i), kind, 20, 0)
		p.Warn = runtime.Thresholds{50, 80, 100}
		all = append(all, p)
	}
	return all
}()

// windows is how many keys of each limit are used up.
func windows() int {
	if runtimetest.Long() {
		return 1000
	}
	return 60
}

// warn takes from the keys of every limit, in 16 goroutines, and prints how often each threshold was crossed.
func warn(l *limiter.Limiter) error {
	var mu sync.Mutex
	var wg sync.WaitGroup
	crossed, errs := map[string]int{}, make(chan error, 16)
	keys := 60
	if os.Getenv(envLong) != "" {
		keys = 1000
	}
	for range 16 {
		wg.Go(func() {
			for i := range keys {
				for _, p := range warned {
					d, err := l.Limit(p, runtime.KeyOf(runtime.Int(i))).Allow(context.Background())
					if err != nil {
						errs <- err
						return
					}
					if d.Crossed > 0 {
						mu.Lock()
						crossed[fmt.Sprintf("%s %d: %d%%", p.Name, i, d.Crossed)]++
						mu.Unlock()
					}
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return json.NewEncoder(os.Stdout).Encode(crossed)
	}
}

const envLong = "RATELIMITGEN_TEST_LONG"

// 4 processes of 16 goroutines use up keys at once: of all their requests, one crosses each threshold of each key.
func TestProcessesCrossEachThresholdOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	total := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			cmd := process("warn", path)
			if runtimetest.Long() {
				cmd.Env = append(cmd.Env, envLong+"=1")
			}
			out, err := cmd.Output()
			if !assert.NoError(t, err) {
				return
			}
			crossed := map[string]int{}
			assert.NoError(t, json.Unmarshal(out, &crossed))
			mu.Lock()
			defer mu.Unlock()
			for threshold, times := range crossed {
				total[threshold] += times
			}
		})
	}
	wg.Wait()
	for _, p := range warned {
		for i := range windows() {
			for _, percent := range p.Warn[:p.Warn.Len()] {
				threshold := fmt.Sprintf("%s %d: %d%%", p.Name, i, percent)
				assert.Equal(t, 1, total[threshold], threshold)
				delete(total, threshold)
			}
		}
	}
	assert.Empty(t, total)
}

// Random requests of every verb on limits of every kind, one of which operators change meanwhile, cross a threshold if and
// only if the tokens before and after them, at one instant, are on two sides of it.
func TestCrossingsAreThoseOfTheTokensBeforeAndAfter(t *testing.T) {
	for name, open := range map[string]func(clock func() time.Time) runtime.Store{
		"memstore": func(clock func() time.Time) runtime.Store { return &memstore.Store{Clock: clock} },
		"SQLite": func(clock func() time.Time) runtime.Store {
			s := must(sqlite.OpenWith(filepath.Join(t.TempDir(), "limits.db"), sqlstore.Options{Clock: clock}))(t)
			t.Cleanup(func() { s.Close() })
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &warnWalk{T: t, r: rand.New(rand.NewPCG(3, 1)), clock: storetest.NewClock(), crossed: map[string]int{}}
			store := open(w.clock.Now)
			w.limits = limiter.New(store, limiter.OnWarn(func(_ context.Context, heard runtime.Warning) { w.heard = append(w.heard, heard.Crossed) }))
			for range runtimetest.Steps() / 10 {
				w.step()
			}
			t.Logf("%v", w.crossed)
			require.Len(t, w.crossed, len(w.policies())*len(warnVerbs))
		})
	}
}

// warnWalk is a walk of random requests.
type warnWalk struct {
	*testing.T
	r       *rand.Rand
	clock   *storetest.Clock
	limits  *limiter.Limiter
	taken   []runtime.Decision
	heard   []uint8
	crossed map[string]int
}

// policies are of every kind. Operators can give the keys of the first other numbers.
func (w *warnWalk) policies() (all []*runtime.Policy) {
	for i, kind := range append(runtimetest.TokenKinds(), runtime.TokenBucket) {
		p := &runtime.Policy{Name: fmt.Sprint("walk", i), Kind: kind, Rate: 10, Period: time.Minute, Capacity: 10, Warn: runtime.Thresholds{33, 80, 100}}
		if kind.Linear() {
			p.MaxReserved = 5
		}
		if i == 0 {
			p.Overrides = runtime.OverrideBounds{Rate: 30, Capacity: 30, MaxReserved: 5}
		}
		all = append(all, p)
	}
	return all
}

// warnVerbs take tokens.
var warnVerbs = []string{"Allow", "AllowUpTo", "Charge", "Reserve", "All"}

func (w *warnWalk) step() {
	if w.r.IntN(3) == 0 {
		w.clock.Add(time.Duration(w.r.Int64N(int64(20 * time.Second))))
	}
	policies := w.policies()
	p := policies[w.r.IntN(len(policies))]
	l := w.limits.Reservable(p, runtime.Key{})
	ctx, n := w.Context(), 1+w.r.Int64N(4)
	switch w.r.IntN(20) {
	case 0:
		require.NoError(w, l.Reset(ctx))
		w.taken = nil
	case 1, 2, 3:
		if i := len(w.taken) - 1; i >= 0 {
			d := w.taken[i]
			w.taken = w.taken[:i]
			must(w.limits.Reservable(d.Policy, runtime.Key{}).RefundN(ctx, d, n))(w.T)
		}
	case 4:
		if p.Overridable() {
			o := w.limits.Overrides(p, runtime.Key{})
			must(o.Set(ctx, runtime.Override{Rate: 5 + w.r.Int64N(26), Capacity: 5 + w.r.Int64N(26), Until: w.clock.Now().Add(time.Minute), Reason: "r", Author: "a"}))(w.T)
		}
	case 5:
		must(l.CheckN(ctx, n))(w.T)
	default:
		w.take(p, l, n)
		return
	}
	require.Empty(w, w.heard, "nothing was taken")
}

// take makes a request that takes tokens, between two that read the key.
func (w *warnWalk) take(p *runtime.Policy, l limiter.ReservableLimit, n int64) {
	ctx, verb := w.Context(), warnVerbs[w.r.IntN(len(warnVerbs))]
	before := must(l.Peek(ctx))(w.T)
	if n > before.Capacity {
		return
	}
	var d runtime.Decision
	switch verb {
	case "Allow":
		d = must(l.AllowN(ctx, n))(w.T)
	case "AllowUpTo":
		d = must(l.AllowUpTo(ctx, n))(w.T)
	case "Charge":
		d = must(l.Charge(ctx, n))(w.T)
	case "Reserve":
		if !p.Kind.Linear() {
			d = must(l.AllowN(ctx, n))(w.T)
			break
		}
		r := must(l.ReserveN(ctx, n))(w.T)
		d = r.Decision
	case "All":
		if 2*n > before.Capacity {
			return
		}
		// The sum of both is one take.
		ds := must(w.limits.All(ctx, l.N(n), l.N(n)))(w.T)
		require.Zero(w, ds.Each[0].Crossed)
		d = ds.Each[1]
	}
	after := must(l.Peek(ctx))(w.T)
	require.Equal(w, before.Capacity, after.Capacity)
	want := uint8(0)
	if d.Allowed {
		want = crossedOf(p.Warn, after.Capacity, before.Value, after.Value)
		if verb != "All" && !d.TakenAt.IsZero() {
			d.Policy = p
			w.taken = append(w.taken, d)
		}
	}
	require.Equal(w, want, d.Crossed, "%s(%d) of %s, from %g to %g of %d", verb, n, p.Name, before.Value, after.Value, after.Capacity)
	if want > 0 {
		w.crossed[p.Name+" "+verb]++
		require.Equal(w, []uint8{want}, w.heard)
	} else {
		require.Empty(w, w.heard)
	}
	w.heard = nil
}

// crossedOf is the definition of a crossing.
func crossedOf(thresholds runtime.Thresholds, capacity int64, before, after float64) (highest uint8) {
	reached := func(left float64, percent uint8) bool {
		used := big.NewRat(capacity-int64(math.Floor(left+1e-6)), 1) // only whole tokens are left, but for a rounding
		return used.Cmp(big.NewRat(int64(percent)*capacity, 100)) >= 0
	}
	for _, percent := range thresholds[:thresholds.Len()] {
		if reached(after, percent) && !reached(before, percent) {
			highest = percent
		}
	}
	return highest
}
