package table

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// CheckSetup checks the table, a cluster's clocks, a dry run of a call, and proxies and poolers.
func (p *Prepared) CheckSetup(ctx context.Context) error {
	x, err := p.prepareNow(ctx)
	if err != nil {
		return err
	}
	// Again, because prepareNow checks the table only once in the store's life.
	if err := p.Server.Check(ctx, p.Server.DB); err != nil {
		return err
	}
	if err := p.Server.CheckReady(ctx); err != nil {
		return err
	}
	if err := p.checkClocks(ctx, x); err != nil {
		return err
	}
	if err := p.tryAll(ctx, x); err != nil {
		return err
	}
	if err := p.checkReads(ctx, x); err != nil {
		return err
	}
	return p.checkPooler(ctx, x)
}

// checkClocks returns an error if rows were written by a node whose clock is ahead of this one's: that node grants tokens
// early, and this node does not grant any until its clock catches up.
func (p *Prepared) checkClocks(ctx context.Context, x *conn.Executor) error {
	if p.Server.Clock != nil || p.Server.Dialect.Latest == "" || !x.Resends {
		return nil
	}
	now, err := p.Server.Now(ctx, p.Server.DB)
	if err != nil {
		return err
	}
	// NULL if the table is empty.
	var ts sql.NullInt64
	if err := p.Server.DB.QueryRowContext(ctx, p.Server.Place().Latest).Scan(&ts); err != nil {
		return err
	}
	if at := now(); ts.Int64 > at+int64(bounds.ClockLead) {
		ahead := time.Duration(ts.Int64 - at).Round(time.Second)
		return &fault.Hinted{Text: fmt.Sprintf(p.Server.FillIn(clocksDiffer), ahead), Err: nil}
	}
	return nil
}

// clocksDiffer is the hint if the clocks of nodes differ. %v is by how much.
const clocksDiffer = "table {table} has rows that are %v ahead of this node's clock, as if the clocks of the cluster's nodes " +
	"differed: synchronize them by NTP"

// tryAll compares the table on each shard, and does a dry run there.
func (p *Prepared) tryAll(ctx context.Context, x *conn.Executor) error {
	if !p.Server.Sharded() {
		return p.dryRun(ctx, x, runtime.Row{Shard: -1})
	}
	keys, err := p.Server.KeyOfEach(ctx)
	for place, key := range keys {
		if err == nil {
			err = p.Server.CheckOn(ctx, place)
		}
		if err == nil {
			err = p.dryRun(ctx, x, runtime.Row{Key: key, Shard: -1})
		}
	}
	if err == nil && p.TwoPhase && len(keys) > 1 {
		err = p.tryTwoPhases(ctx, x, keys)
	}
	return err
}

// tryTwoPhases commits a transaction that has written and deleted a row on each shard, given a key of each. Only a commit
// shows whether the keyspace allows it.
func (p *Prepared) tryTwoPhases(ctx context.Context, x *conn.Executor, keys map[string]string) error {
	rows, places := []runtime.Row{}, map[string]string{}
	for place, key := range keys {
		rows, places[key] = append(rows, runtime.Row{Key: key, Shard: -1}), place
	}
	slices.SortFunc(rows, runtime.Row.Compare)
	return p.Server.InTwoPhases(ctx, x, func(in conn.Session) error { return tryWrites(ctx, in, rows, places, SeedFirst) })
}

// tryWrites locks, writes and deletes rows that no limit can have.
func tryWrites(ctx context.Context, in conn.Session, rows []runtime.Row, places map[string]string, order LockOrder) error {
	l := NewRowLock(in, rows, runtime.DurabilityDefault)
	l.Places = places
	if err := l.Lock(ctx, order); err != nil {
		return err
	}
	// Both, because a user may have the privilege for one of them only.
	for _, st := range []conn.Statement{conn.WriteRows, conn.DeleteRows} {
		if err := l.put(ctx, st, withoutStates(rows)); err != nil {
			return err
		}
	}
	return nil
}

// dryRun tries a row, and rolls back.
func (p *Prepared) dryRun(ctx context.Context, x *conn.Executor, row runtime.Row) error {
	err := p.Server.InTx(ctx, x, runtime.DurabilityDefault, func(in conn.Session) error {
		if err := tryWrites(ctx, in, []runtime.Row{row}, nil, OrderFor(&p.Server.Dialect, ReadFirst)); err != nil {
			return err
		}
		return conn.ErrRollback
	})
	if errors.Is(err, conn.ErrRollback) {
		return nil
	}
	return err
}

// checkReads returns an error if a proxy sends reads to a replica. Writes have succeeded by then, so that the server itself
// is none.
func (p *Prepared) checkReads(ctx context.Context, x *conn.Executor) error {
	if p.Server.Dialect.FindReplica == "" {
		return nil
	}
	var replica bool
	err := p.Server.Single(ctx, x, func(in conn.Session) error {
		return in.QueryRowContext(ctx, p.Server.Dialect.ReadHint+p.Server.Dialect.FindReplica).Scan(&replica)
	})
	if err == nil && replica {
		return &fault.Hinted{Text: p.Server.FillIn(readsReplica), Err: nil}
	}
	return err
}

const readsReplica = "a proxy before the server sends reads of table {table} to a read-only replica, so that balances, denials and " +
	"blocks are as old as the replica: make it send them to the primary server, for Pgpool-II by allow_sql_comments = off"

// checkPooler returns the error of a statement that the driver has prepared under a name, and that a pooler has then sent
// to a session of the server that does not have it, or has another client's under that name. Two connections run the same
// statement: the first one alone, the second one in a transaction, and the first one again, which then cannot have the
// session of the transaction. In a pooler that has only one session, the second one finds the first one's statement.
func (p *Prepared) checkPooler(ctx context.Context, x *conn.Executor) error {
	if p.Server.Dialect.FindPrepared == "" || x.Splits {
		return nil
	}
	first, err := p.Server.DB.Conn(ctx)
	if err != nil {
		return err
	}
	// A closure, because replaceConn changes first.
	defer func() { first.Close() }()
	named, err := p.isNamed(ctx, first)
	for i := 0; err == nil && named && i < bounds.PoolerRounds; i++ {
		var second *sql.Conn
		if second = p.spareConn(ctx, bounds.SpareTimeout); second != nil {
			err = p.provePoolerMixup(ctx, first, second)
			second.Close()
		}
		if err == nil {
			// A new connection to the pooler, so that the next round may get other sessions.
			first, named, err = p.replaceConn(ctx, first)
		}
	}
	return err
}

// isNamed reports whether the driver has prepared the statement under a name.
func (p *Prepared) isNamed(ctx context.Context, in conn.Runner) (named bool, err error) {
	v := new(conn.Values)
	v.Of[conn.ParamName] = "%ratelimitgen_named%"
	q := &p.Server.Place().Queries[conn.FindNamed][conn.OneRow]
	err = in.QueryRowContext(ctx, q.Text, v.Args(q)...).Scan(&named)
	return named, err
}

// spareConn returns a second connection, or nil if the pool has none within the time.
func (p *Prepared) spareConn(ctx context.Context, wait time.Duration) *sql.Conn {
	if p.Server.DB.Stats().MaxOpenConnections == 1 {
		// Waiting for one would only take the timeout.
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	conn, err := p.Server.DB.Conn(ctx)
	if err != nil {
		return nil
	}
	return conn
}

// LocateFor finds the schemas of the tables for a call in a transaction of the caller: by another connection if the pool has
// one, because the caller may have changed the search path or the database of the transaction.
func (p *Prepared) LocateFor(ctx context.Context, tx conn.Runner) error {
	if p.Server.Located() {
		return nil
	}
	began := time.Now()
	found, err := p.Server.Find(ctx, tx)
	took := time.Since(began)
	opens := bounds.OpenTimeout
	if deadline, ok := ctx.Deadline(); ok {
		opens = min(opens, time.Until(deadline)/2)
	}
	if spare := p.spareConn(ctx, opens); spare != nil {
		defer spare.Close()
		// A far server answers late on this connection too. Behind a pooler that has one session, no answer comes.
		wait, cancel := context.WithTimeout(ctx, max(bounds.SpareTimeout, 4*took))
		defer cancel()
		// It does not see a table that the transaction itself has created.
		if other, failed := p.Server.Find(wait, spare); failed == nil && other[p.Server.Table] != "" {
			found, err = other, nil
		}
	}
	if err != nil {
		return err
	}
	return p.Server.Settle(found)
}

// provePoolerMixup runs the statement on two connections so that they cannot have the same session.
func (p *Prepared) provePoolerMixup(ctx context.Context, first, second *sql.Conn) error {
	tx, err := second.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := p.isNamed(ctx, tx); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, bounds.SpareTimeout)
	defer cancel()
	// A timeout only shows that the pooler has no second session.
	if _, err := p.isNamed(wait, first); err != nil && wait.Err() == nil {
		return err
	}
	return nil
}

// replaceConn closes a connection, and runs the statement on a new one.
func (p *Prepared) replaceConn(ctx context.Context, conn *sql.Conn) (_ *sql.Conn, named bool, err error) {
	// database/sql closes a connection for this error, and does not return it to the pool.
	conn.Raw(func(any) error { return driver.ErrBadConn })
	fresh, err := p.Server.DB.Conn(ctx)
	if err != nil {
		return conn, false, err
	}
	named, err = p.isNamed(ctx, fresh)
	return fresh, named, err
}
