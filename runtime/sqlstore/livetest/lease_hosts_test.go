package livetest

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// address says where a host finds the counts. It can be told to another process.
type address struct {
	Driver, DSN, Dialect, Table string
}

// host is a store of one host's own, with the tokens that it has leased and the denials that it remembers.
type host struct {
	*sqlstore.Store
	close func() error
}

// Close gives back what the host has leased, and closes its database.
func (h host) Close() error { return h.close() }

const onFile = "sqlite"

// open opens a host's store.
func (a address) open(o sqlstore.Options) (host, error) {
	o.Table = a.Table
	if a.Driver == onFile {
		s, err := sqlite.OpenWith(a.DSN, o)
		if err != nil {
			return host{}, err
		}
		return host{s.Store, s.Close}, nil
	}
	db, err := sql.Open(a.Driver, a.DSN)
	if err != nil {
		return host{}, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	s, err := sqlstore.New(db, a.dialect(), o)
	if err != nil {
		return host{}, errors.Join(err, db.Close())
	}
	return host{s, func() error { return errors.Join(s.Close(), db.Close()) }}, nil
}

func (a address) dialect() sqlstore.Dialect {
	for _, s := range servers {
		if s.dialect.Name == a.Dialect {
			return s.dialect
		}
	}
	return sqlstore.SQLite
}

// hosts opens a host at each address, and more in turn until there are n.
func hosts(t *testing.T, at []address, n int, o sqlstore.Options) []host {
	t.Helper()
	all := make([]host, n)
	for i := range all {
		h, err := at[i%len(at)].open(o)
		require.NoError(t, err)
		all[i] = h
	}
	return all
}

// closeAll closes hosts.
func closeAll(t *testing.T, all []host) {
	t.Helper()
	for _, h := range all {
		require.NoError(t, h.Close())
	}
}

// onHosts runs a test on each database that hosts, or processes, can share: a file of SQLite, the servers, and the
// nodes of the cluster. Which driver it is matters little to what a host keeps: without -long, one is enough for a
// server. The table is a new one, which is dropped when the test ends.
func onHosts(t *testing.T, test func(t *testing.T, at []address)) {
	t.Run("sqlite", func(t *testing.T) {
		test(t, []address{{Driver: onFile, DSN: filepath.Join(t.TempDir(), "limits.db"), Table: newTable()}})
	})
	onNodes := func(name string, nodes func(t *testing.T) []server) {
		t.Run(name, func(t *testing.T) {
			nodes := upToDate(nodes(t))
			table, _ := shared(t, nodes, nil)
			test(t, addresses(nodes, table))
		})
	}
	for _, s := range servers {
		if s.driver != "postgres" || *long {
			onNodes(s.name, func(*testing.T) []server { return []server{s} })
		}
	}
	onNodes("galera", galeraServers)
}

// addresses returns where hosts find a table on each node.
func addresses(nodes []server, table string) (all []address) {
	for _, s := range nodes {
		all = append(all, address{s.driver, s.dsn, s.dialect.Name, table})
	}
	return all
}

// left returns what is left of each of so many keys of a limit, as a host sees it that has nothing leased.
func (a address) left(t *testing.T, l leasedHeat, clock func() time.Time) []float64 {
	t.Helper()
	h, err := a.open(sqlstore.Options{Clock: clock})
	require.NoError(t, err)
	defer func() { require.NoError(t, h.Close()) }()
	all := make([]float64, l.keys)
	for key := range all {
		all[key] = l.peek(context.Background(), t, h, key)
	}
	return all
}
