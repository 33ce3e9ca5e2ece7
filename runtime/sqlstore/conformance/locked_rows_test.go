package conformance

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
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
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// lockedCase is rows that a transaction holds, and the callers that need them or others meanwhile.
type lockedCase struct {
	name string
	// policy is that of the rows that are locked: those of the first keys.
	policy *runtime.Policy
	keys   int
	// missing: the transaction has inserted the rows, which are missing otherwise. only: it holds this condition's rows only.
	missing bool
	only    string
	// others are the limits of the calls that must not wait. Each requests the key of its number, above those that are locked.
	others []*runtime.Policy
	// together: calls are about two limits, of which the second has the row that is locked. The others share the first limit
	// with them.
	together bool
}

// lockable returns a limit of each kind, with more tokens than are taken.
func lockable() []*runtime.Policy {
	const plenty = 1_000_000
	kinds := live.Granting(plenty)
	strict := precise(plenty, runtime.MaxPeriod)
	slots := slotsOfHistory()
	slots.Slots, slots.Hold = runtime.MaxSlots, time.Hour
	punished := live.Once("punished", plenty)
	punished.Penalty = runtime.Penalty{Steps: [runtime.MaxPenaltySteps]time.Duration{time.Minute}, Forgive: time.Hour}
	return append(kinds, strict, slots, punished)
}

func lockedCases() (all []lockedCase) {
	plain := live.Once("another limit", 1_000_000)
	for _, p := range lockable() {
		c := lockedCase{name: p.Name, policy: p, keys: 1, others: slices.Repeat([]*runtime.Policy{p, plain}, 4)}
		if p.Shards > 1 {
			c.only = " AND shard = 1"
		}
		all = append(all, c)
	}
	var twenty []*runtime.Policy
	for i := range 20 {
		twenty = append(twenty, live.Once(fmt.Sprintf("limit %02d", i), 1_000_000))
	}
	bucket := live.Once("limit 07 is locked", 1_000_000)
	second := live.Once("limit 08 is locked", 1_000_000)
	return append(all,
		lockedCase{name: "twenty limits", policy: bucket, keys: 1, others: twenty},
		lockedCase{name: "five rows", policy: bucket, keys: 5, others: twenty[:8]},
		lockedCase{name: "an inserted row", policy: bucket, keys: 1, missing: true, others: append(slices.Repeat([]*runtime.Policy{bucket}, 4), twenty[:4]...)},
		lockedCase{name: "an inserted row of a sliding window", policy: all[4].policy, keys: 1, missing: true, others: twenty[:8]},
		lockedCase{name: "groups", policy: second, keys: 1, together: true, others: slices.Repeat([]*runtime.Policy{bucket}, 8)},
	)
}

// request returns a call that takes a token of each limit.
func requestOf(key int, policies ...*runtime.Policy) []runtime.Call {
	var c runtime.Call
	for _, p := range policies {
		c.Requests = append(c.Requests, runtime.Request{Count: 1, Policy: p, Key: live.KeyOf(key).String()})
	}
	return []runtime.Call{c}
}

// lock begins a transaction that locks the rows.
func (c *lockedCase) lock(t *testing.T, s live.Server, db *sql.DB, table string, store *sqlstore.Store) *sql.Tx {
	t.Helper()
	tx := live.Must(db.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelReadCommitted}))(t)
	t.Cleanup(func() { tx.Rollback() })
	for i := range c.keys {
		if c.missing {
			require.NoError(t, limiter.New(store).WithTx(tx).Limit(c.policy, live.KeyOf(i)).Require(t.Context()))
			continue
		}
		key := s.Dialect.Quote + "key" + s.Dialect.Quote
		result := live.Must(tx.Exec(fmt.Sprintf("UPDATE %s SET value = value - 0.5 WHERE name = '%s' AND %s = '%s'%s", table, c.policy.Name, key, live.KeyOf(i), c.only)))(t)
		require.NotZero(t, live.Must(result.RowsAffected())(t))
	}
	return tx
}

// beside is the goroutines of a case, and their answers.
type beside struct {
	store *sqlstore.Store
	c     *lockedCase

	answered       atomic.Int64
	taken          []atomic.Int64
	mu             sync.Mutex
	failed         []string
	patientErrors  []error
	impatientFails atomic.Int64
}

// patience is the timeout of the others' calls: longer than any takes on a busy machine, and shorter than rows are locked.
const patience = 2 * time.Second

// othersFor lets the others call for a while.
func (a *beside) othersFor(d time.Duration) {
	var all sync.WaitGroup
	begin := time.Now()
	for i, p := range a.c.others {
		all.Go(func() {
			for time.Since(begin) < d {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				answers, err := a.store.Do(ctx, requestOf(a.c.keys+i, p))
				cancel()
				a.answered.Add(1)
				if err == nil {
					err = answers[0].Err
				}
				if err != nil {
					a.mu.Lock()
					a.failed = append(a.failed, p.Name+": "+err.Error())
					a.mu.Unlock()
				} else if answers[0].Allowed() {
					a.taken[i].Add(1)
				}
			}
		})
	}
	all.Wait()
}

// policies are the limits of a call for a row that is locked.
func (c *lockedCase) policies() []*runtime.Policy {
	if c.together {
		return []*runtime.Policy{c.others[0], c.policy}
	}
	return []*runtime.Policy{c.policy}
}

// A transaction holds rows. Calls for them wait, and no other call does.
func TestLockedRowCostsItsKeyOnly(t *testing.T) {
	hold := 2500 * time.Millisecond
	if *long {
		hold = 5 * time.Second
	}
	onEach(t, func(t *testing.T, s live.Server) {
		db := s.Open(t)
		table := live.NewTable()
		s.StoreIn(t, db, table, nil)
		for _, c := range lockedCases() {
			t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
				// A pool of its own, of the usual number of connections of a program.
				own := s.Open(t)
				own.SetMaxOpenConns(20)
				own.SetMaxIdleConns(20)
				store := live.Must(agree.NewCreatingStore(own, s.Dialect, sqlstore.Options{Table: table}))(t)
				t.Cleanup(func() { store.Close() })
				a := &beside{store: store, c: &c, taken: make([]atomic.Int64, len(c.others))}
				for i := range c.keys {
					if !c.missing {
						live.Must(store.Do(t.Context(), requestOf(i, c.policies()...)))(t)
						live.Must(store.Do(t.Context(), requestOf(i, c.policies()...)))(t)
					}
				}
				before := a.used(t)
				a.othersFor(hold / 5)
				free := float64(a.answered.Swap(0)) / (hold / 5).Seconds()

				tx := c.lock(t, s, db, table, store)
				var asking sync.WaitGroup
				ended, end := context.WithCancel(context.Background())
				for i := range c.keys {
					asking.Go(func() { // patient
						answers, err := store.Do(context.Background(), requestOf(i, c.policies()...))
						if err == nil {
							err = answers[0].Err
						}
						a.mu.Lock()
						a.patientErrors = append(a.patientErrors, err)
						a.mu.Unlock()
					})
					asking.Go(func() {
						for ended.Err() == nil {
							ctx, cancel := context.WithTimeout(context.Background(), 250*time.Millisecond)
							if _, err := store.Do(ctx, requestOf(i, c.policies()...)); err != nil {
								a.impatientFails.Add(1)
							}
							cancel()
						}
					})
				}
				a.othersFor(hold)
				held := float64(a.answered.Load()) / hold.Seconds()
				open := own.Stats().InUse
				require.NoError(t, tx.Rollback())
				end()
				asking.Wait()

				assert.Empty(t, a.failed, "%d calls for other rows failed", len(a.failed))
				for _, err := range a.patientErrors {
					// A call waits 5 seconds for the database.
					if !*long {
						assert.NoError(t, err, "a call for a locked row waits until it is free")
					}
				}
				for i, used := range a.used(t) {
					if i != 0 || !c.together {
						assert.Equal(t, a.taken[i].Load(), used-before[i], "%s: tokens used by the calls for key %d", c.others[i].Name, c.keys+i)
					}
				}
				t.Logf("%s: %.0f calls/s of others while free, %.0f while locked, %d failed; %d connections in use; %d of those who ask for it gave up",
					s.Name, free, held, len(a.failed), open, a.impatientFails.Load())
			})
		}
	})
}

// used returns how many tokens of each of the others' keys are used.
func (a *beside) used(t *testing.T) (all []int64) {
	t.Helper()
	for i, p := range a.c.others {
		call := requestOf(a.c.keys+i, p)
		call[0].Requests[0].Op, call[0].Requests[0].Count = runtime.Peek, 0
		answers := live.Must(a.store.Do(t.Context(), call))(t)
		require.NoError(t, answers[0].Err)
		all = append(all, p.Capacity-answers[0].Decisions[0].Remaining)
	}
	return all
}
