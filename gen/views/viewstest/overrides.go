package viewstest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// whats are what the entries of random logs do.
var whats = []string{
	runtime.OverrideNumbers, runtime.OverrideNumbers, runtime.OverridePlan, runtime.OverridePlan, runtime.OverrideUnlimited, runtime.OverrideOff,
	runtime.OverrideShadow, runtime.OverrideBlock, runtime.OverrideUnblock, runtime.OverrideNone, runtime.OverrideGranted,
}

func (s *suite) overrides() string { return sqlstore.OverridesTable(s.table) }

// writeLog replaces all blocks and overrides by others, of which about half are in force.
func (s *suite) writeLog() {
	s.log = &runtime.MemStore{Clock: func() time.Time { return time.Unix(0, s.now) }}
	// So early that the log is read with the entries that have ended by the instants to compare.
	s.now = 0
	var entries []runtime.OverrideEntry
	for _, p := range s.limits {
		for i := range keysPerLimit + 1 {
			key := fmt.Sprintf("é|%d", i)
			if i == keysPerLimit {
				key = "" // the whole limit
			}
			for range s.IntN(4) * s.IntN(2) {
				if !p.Overridable() {
					break
				}
				e, err := s.log.AppendOverride(context.Background(), s.entry(p, key))
				require.NoError(s.t, err)
				entries = append(entries, e)
			}
		}
	}
	require.NoError(s.t, s.log.OverrideView().Refresh(context.Background()))
	s.exec("DELETE FROM " + s.overrides())
	s.insert(entries)
}

// entry is a random entry of the log.
func (s *suite) entry(p *runtime.Policy, key string) runtime.OverrideEntry {
	b := p.Overrides
	e := runtime.OverrideEntry{
		Limit: p.Name, Key: key, What: whats[s.IntN(len(whats))], Until: runtime.ForGood, Reason: "r", Author: "a", At: time.Unix(0, s.latest),
		// The log may be older than the bounds of the file.
		Most: runtime.OverrideBounds{Rate: 2 * b.Rate, Capacity: 2 * b.Capacity, MaxReserved: 2 * b.MaxReserved, Unlimited: true},
	}
	if s.IntN(2) == 0 {
		e.Until = time.Unix(0, s.latest+int64(float64(p.Period)*4*(s.Float64()-0.2)))
	}
	if e.What == runtime.OverridePlan {
		e.Plan = []string{"free", "pro", "enterprise"}[s.IntN(3)]
	}
	if e.What == runtime.OverrideNumbers || e.What == runtime.OverridePlan {
		for _, n := range []struct {
			to        *int64
			own, most int64
		}{{&e.Rate, p.Rate, b.Rate}, {&e.Capacity, p.Capacity, b.Capacity}, {&e.MaxReserved, p.MaxReserved, b.MaxReserved}} {
			// Near the number of the file, so that the row still matters.
			if s.IntN(3) > 0 && n.own > 0 {
				*n.to = 1 + s.Int64N(min(2*n.most, 1+4*min(n.own, 1000)))
			}
		}
	}
	return e
}

func (s *suite) insert(entries []runtime.OverrideEntry) {
	var rows []string
	for _, e := range entries {
		rows = append(rows, fmt.Sprintf("(%d, '%s', '%s', '%s', '%s', %d, %d, %d, %d, %d, %d, 1, %d, 'r', 'a', %d)", e.ID, e.Limit, e.Key, e.What, e.Plan,
			e.Rate, e.Capacity, e.MaxReserved, e.Most.Rate, e.Most.Capacity, e.Most.MaxReserved, e.Until.UnixNano(), e.At.UnixNano()))
	}
	if len(rows) > 0 {
		s.exec("INSERT INTO " + s.overrides() + " VALUES " + strings.Join(rows, ", "))
	}
}

// inForce returns the policy by which to read a key, after comparing the entry in force with the row of the view; nil if
// the key is not limited.
func (s *suite) inForce(p *runtime.Policy, key string, row shown) *runtime.Policy {
	effective, err := s.log.OverrideView().PolicyOf(p, key)
	if err != nil {
		// The limit has no plans. A request fails, and the view shows the numbers of the file.
		require.ErrorIs(s.t, err, runtime.ErrUnknownOverride)
		require.Equal(s.t, runtime.OverridePlan, row.inForce)
		return p
	}
	what := ""
	if id, ok := (runtime.Decision{Policy: effective}).Override(); ok {
		entries, err := s.log.OverridesSince(context.Background(), id)
		require.NoError(s.t, err)
		what = entries[0].What
	} else if !p.Overrides.Unlimited && (row.inForce == runtime.OverrideOff || row.inForce == runtime.OverrideUnlimited || row.inForce == runtime.OverrideShadow) {
		// The file does not allow it any more.
		what = row.inForce
	}
	require.Equal(s.t, what, row.inForce, "what is in force for %s of %s at %d", key, p.Name, s.now)
	if effective.Mode == runtime.ModeOff || effective.Mode == runtime.ModeUnlimited {
		require.False(s.t, row.left.Valid || row.capacity.Valid || row.inDebt || !row.full.IsZero(), "%+v", row)
		return nil
	}
	return effective
}
