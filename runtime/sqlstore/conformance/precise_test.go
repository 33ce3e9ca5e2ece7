package conformance

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
	"github.com/ratelimitgen/ratelimitgen/runtime/storetest"
)

// precise returns a limit that never grants more than rate tokens in any period.
func precise(rate int64, period time.Duration) *runtime.Policy {
	return &runtime.Policy{Name: fmt.Sprintf("precise %d per %v", rate, period), Kind: runtime.SlidingWindow, Rate: rate,
		Capacity: rate, Period: period, Precise: true}
}

// preciseHeats are limits for which processes compete for a few of their periods, the last one only with -long.
var preciseHeats = []*runtime.Policy{
	precise(1, 50*time.Millisecond), precise(5, 100*time.Millisecond), precise(40, 400*time.Millisecond), precise(1000, time.Second),
}

// preciseEnv is the environment variable that makes this program take from the limits of preciseHeats.
const preciseEnv = "RATELIMITGEN_TEST_PRECISE"

// granted is a number of tokens taken at an instant, by the clock of the store.
type granted struct{ At, Tokens int64 }

// takePrecisely is the main function of a process on a course in JSON: it takes one to three tokens at a time from a limit
// whose place in preciseHeats it reads, for six periods, prints the tokens that it got, and reads the next one.
func takePrecisely(text string) error {
	var c course
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	limiters, err := c.limiters()
	if err != nil {
		return err
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		// All processes begin together.
		var heat int
		if err := in.Decode(&heat); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		got, err := compete(limiters[0], preciseHeats[heat])
		if err != nil {
			return err
		}
		if err := out.Encode(got); err != nil {
			return err
		}
	}
}

func compete(l *limiter.Limiter, p *runtime.Policy) (all []granted, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 6*p.Period+300*time.Millisecond)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	for g := range goroutinesEach {
		group.Go(func() {
			for ctx.Err() == nil {
				count := min(p.Rate, int64(1+g%3))
				d, failed := l.Limit(p, runtime.Key{}).AllowN(ctx, count)
				mu.Lock()
				if failed != nil && ctx.Err() == nil {
					err = failed
				}
				if failed == nil && d.Allowed {
					all = append(all, granted{d.TakenAt.UnixNano(), count})
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return all, err
}

// mostGranted returns the most tokens in any half-open interval of a period.
func mostGranted(all []granted, period time.Duration) (most int64) {
	slices.SortFunc(all, func(a, b granted) int { return cmp.Compare(a.At, b.At) })
	sum, first := int64(0), 0
	for _, g := range all {
		sum += g.Tokens
		for ; all[first].At+int64(period) <= g.At; first++ {
			sum -= all[first].Tokens
		}
		most = max(most, sum)
	}
	return most
}

// 64 goroutines in 4 processes get the rate, and in no period more.
func TestProcessesNeverExceedAPreciseRate(t *testing.T) {
	onAll(t, func(t *testing.T, nodes []live.Server) {
		table, _ := live.Shared(t, nodes, nil)
		text := live.Must(json.Marshal(course{Driver: nodes[0].Driver, Dialect: nodes[0].Dialect, Table: table, DSNs: []string{nodes[0].DSN}}))(t)
		var processes []racer
		for range racers {
			processes = append(processes, startRacer(t, preciseEnv, string(text)))
		}
		heats := preciseHeats
		if !*long {
			heats = heats[:3]
		}
		for i, p := range heats {
			reached := false
			// A server that stands still for a moment has the processes take less, once.
			for again := 0; !reached && again < 5; again++ {
				for _, r := range processes {
					require.NoError(t, r.in.Encode(i))
				}
				var all []granted
				for _, r := range processes {
					var each []granted
					require.NoError(t, r.out.Decode(&each), p.Name)
					all = append(all, each...)
				}
				most := mostGranted(all, p.Period)
				t.Logf("%-24s %5d takes allowed, at most %d tokens in any period", p.Name+":", len(all), most)
				require.LessOrEqual(t, most, p.Rate, p.Name)
				reached = most == p.Rate
			}
			assert.True(t, reached, "%s: the processes never took the rate", p.Name)
		}
	})
}

// In the caller's transaction, the tokens of a log are taken if and only if it commits, and a denial leaves it usable.
func TestPreciseInTheCallersTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db, clock := s.Open(t), storetest.NewClock()
		store := s.Store(t, db, clock.Now)
		l, p := limiter.New(store), precise(4, time.Minute)
		take := func(rollBack bool) bool {
			clock.Add(time.Second)
			allowed := false
			err := sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error {
				d, err := l.WithTx(tx).Limit(p, runtime.Key{}).AllowN(t.Context(), 2)
				allowed = d.Allowed
				if err == nil && rollBack {
					return sql.ErrTxDone
				}
				return err
			})
			if rollBack {
				require.ErrorIs(t, err, sql.ErrTxDone)
			} else {
				require.NoError(t, err)
			}
			return allowed
		}
		for i, want := range []bool{true, true, true, true, false} {
			assert.Equal(t, want, take(i%2 == 0 && i < 4), "take %d", i)
		}
		clock.Add(58 * time.Second)
		assert.True(t, take(false))
	})
}

// Callers in transactions of their own, at every isolation level, do not exceed the rate either.
func TestPreciseTransactionsAtEveryIsolationLevel(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		for _, level := range []string{"read committed", "repeatable read", "serializable"} {
			t.Run(level, func(t *testing.T) {
				db := isolated(s, level).Open(t)
				l, p := limiter.New(s.Store(t, db, nil)), precise(40, time.Hour)
				var mu sync.Mutex
				var all sync.WaitGroup
				total := 0
				for range 8 {
					all.Go(func() {
						for range 10 {
							allowed := false
							err := sqlstore.RunInTx(t.Context(), db, func(tx *sql.Tx) error {
								d, err := l.WithTx(tx).Limit(p, runtime.Key{}).Allow(t.Context())
								allowed = d.Allowed
								return err
							})
							assert.NoError(t, err)
							mu.Lock()
							if allowed {
								total++
							}
							mu.Unlock()
						}
					})
				}
				all.Wait()
				assert.Equal(t, 40, total)
			})
		}
	})
}

// A key has one row, whose log is bounded, and which a sweep deletes when it is not needed.
func TestPreciseLogsAreBoundedAndSwept(t *testing.T) {
	onEach(t, func(t *testing.T, s live.Server) {
		db, clock, table := s.Open(t), storetest.NewClock(), live.NewTable()
		store := s.StoreIn(t, db, table, clock.Now)
		p := precise(1000, time.Minute)
		limits := limiter.New(store)
		l := limits.Limit(p, runtime.Key{})
		size := func() (rows, bytes int) {
			require.NoError(t, db.QueryRow("SELECT COUNT(*), COALESCE(MAX(OCTET_LENGTH(log)), 0) FROM "+table).Scan(&rows, &bytes))
			return rows, bytes
		}
		take := func(keys ...runtime.Key) {
			var items []limiter.Item
			for _, k := range keys {
				items = append(items, limits.Limit(p, k))
			}
			clock.Add(61 * time.Millisecond)
			ds := live.Must(limits.All(t.Context(), items...))(t)
			require.True(t, ds.Allowed)
		}
		for i := range 1100 {
			take(runtime.Key{})
			if i%100 == 0 {
				// Several rows in one statement, of which some have no log yet.
				take(runtime.Key{}, runtime.KeyOf(runtime.Int(i)))
			}
		}
		rows, bytes := size()
		assert.Equal(t, 12, rows)
		assert.Less(t, bytes, 7*1002)
		b := live.Must(l.Peek(t.Context()))(t)
		assert.Less(t, b.Remaining, int64(20), "after 61 ms for each of a minute")
		clock.Add(time.Hour + time.Minute)
		n := live.Must(store.Sweep(t.Context(), p))(t)
		assert.Equal(t, 12, n)
		d := live.Must(l.AllowN(t.Context(), 1000))(t)
		assert.True(t, d.Allowed)
		require.NoError(t, l.Reset(t.Context()))
		rows, _ = size()
		assert.Zero(t, rows)
	})
}

// BenchmarkPreciseTake is the cost of a take from a full log, by one caller and by 64 on one key, and that of an
// approximate sliding window.
func BenchmarkPreciseTake(b *testing.B) {
	for _, s := range servers {
		approximate := precise(1000, time.Minute)
		approximate.Name, approximate.Precise = "approximate", false
		for _, p := range []*runtime.Policy{approximate, precise(5, time.Minute), precise(100, time.Minute), precise(1000, time.Minute)} {
			for _, callers := range []int{1, 64} {
				b.Run(fmt.Sprintf("%s/%s/callers=%d", s.Name, p.Name, callers), func(b *testing.B) {
					db, clock := s.Open(b), storetest.NewClock()
					l := limiter.New(s.Store(b, db, clock.Now)).Limit(p, runtime.Key{})
					// The log is full, and a token is due at each take.
					for range p.Rate {
						clock.Add(p.Period / time.Duration(p.Rate))
						_, err := l.Allow(b.Context())
						require.NoError(b, err)
					}
					b.SetParallelism(callers)
					b.ResetTimer()
					b.RunParallel(func(each *testing.PB) {
						for each.Next() {
							clock.Add(p.Period / time.Duration(p.Rate))
							if _, err := l.Allow(b.Context()); err != nil {
								b.Error(err)
								return
							}
						}
					})
				})
			}
		}
	}
}
