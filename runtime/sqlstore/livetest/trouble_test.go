package livetest

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// faults is what goes wrong.
type faults struct {
	// odds are those at which a [proxy] cuts a connection.
	odds int
	// hurried is one in how many calls has a timeout, at random below patience.
	hurried  int
	patience time.Duration
}

// timeout returns the context of a call.
func (f *faults) timeout(random *rand.Rand) (context.Context, context.CancelFunc) {
	if f == nil || random.IntN(f.hurried) > 0 {
		return context.WithTimeout(context.Background(), time.Minute)
	}
	return context.WithTimeout(context.Background(), time.Duration(random.Int64N(int64(f.patience))))
}

// faulty returns stores that reach the nodes through proxies, and how many connections those have cut.
func faulty(t *testing.T, nodes []server, table string, clock func() time.Time, odds int) ([]runtime.Store, func() int64) {
	t.Helper()
	var stores []runtime.Store
	var proxies []*proxy
	for _, s := range nodes {
		s, p := s.through(t, odds)
		db, err := sql.Open(s.driver, s.dsn)
		require.NoError(t, err)
		store, err := sqlstore.New(db, s.dialect, sqlstore.Options{Table: table, Clock: clock})
		require.NoError(t, err)
		t.Cleanup(func() {
			store.Close()
			db.Close()
		})
		stores, proxies = append(stores, store), append(proxies, p)
	}
	return stores, func() (cuts int64) {
		for _, p := range proxies {
			cuts += p.cuts.Load()
		}
		return cuts
	}
}
