package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Migrate creates the table, if there is none. Several processes may do so at once.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.usable(); err != nil {
		return err
	}
	create, err := s.dialect.DDL(s.table)
	if err != nil {
		return err
	}
	tries := 0
	_, err = bounded(ctx, func(ctx context.Context) (any, error) {
		return nil, retry(ctx, func() error {
			// Before there is a table that would have to be moved to another database.
			if err := s.checkSession(ctx, s.db); err != nil {
				return err
			}
			_, err := s.db.ExecContext(ctx, create)
			if tries++; tries < 10 && createdMeanwhile(err) {
				return &RetryTxError{err}
			}
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("create table %q: %w", s.table, s.explain(ctx, err))
	}
	return nil
}

// createdMeanwhile reports whether a table could not be created because somebody else was at it: Postgres looks
// whether there is one, and then is surprised.
func createdMeanwhile(err error) bool {
	var stated interface{ SQLState() string }
	// unique_violation, duplicate_table and duplicate_object.
	return errors.As(err, &stated) && slices.Contains([]string{"23505", "42P07", "42710"}, stated.SQLState())
}

// check returns an error that says how the table differs from what the store needs, if it does. Some of
// that would break counts without a word: without a primary key, a database may keep two rows of one key.
func (s *Store) check(ctx context.Context, db querier) error {
	if s.describe == "" {
		return nil
	}
	// First, for in some sessions the table cannot be described.
	if err := s.checkSession(ctx, db); err != nil {
		return err
	}
	found, err := describe(ctx, db, s.describe)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return &advised{s.say(unseenTable), errUnseen}
	}
	if all := differences(s.dialect.Parts, found); len(all) > 0 {
		return &advised{s.say(otherTable) + ": " + strings.Join(all, "; "), nil}
	}
	s.checked.Store(true)
	return nil
}

// checkSession returns an error that says which settings of the session are not what the store needs, if any
// is: one that does not commit what a statement has written, for example, would lose it.
func (s *Store) checkSession(ctx context.Context, db querier) error {
	if s.dialect.Session == "" {
		return nil
	}
	found, err := describe(ctx, db, s.dialect.Session)
	if err != nil {
		return err
	}
	all := differences(s.dialect.Needs, found)
	if len(all) == 0 {
		return nil
	}
	do := otherSession
	if strings.HasPrefix(all[0], "server_encoding ") {
		do = s.say(otherEncoding)
	}
	return &advised{do + ": " + strings.Join(all, "; "), nil}
}

// blameTable returns what the database itself says about a table that check has not seen, which is more precise: the
// table is missing, or a privilege is.
func (s *Store) blameTable(ctx context.Context, p *prepared, err error) error {
	if !errors.Is(err, errUnseen) {
		return err
	}
	look := s.single(ctx, p, func(in session) error {
		rows := []runtime.Row{{Shard: -1}}
		return newRowLock(in, rows, runtime.DurabilityDefault).read(ctx, lookRows, rows)
	})
	if look != nil && remedy(look) != "" {
		return look
	}
	return err
}

// errUnseen is in the error of check if it has not seen the table.
var errUnseen = errors.New("the table is not visible")

// What to do about a table that cannot be used. See [trouble] for the placeholders.
const (
	noTable     = `there is no table {table}: call Migrate, or run what "ratelimitgen sql {flags}" prints`
	noTableInTx = `there is no table {table} where the transaction was begun: begin it in the database that holds the counts, ` +
		`or create the table there: call Migrate, or run what "ratelimitgen sql {flags}" prints`
	// Some databases do not show a table to a user who may do nothing with it.
	unseenTable  = `there is no table {table}, or no right to see it: call Migrate, or run what "ratelimitgen sql {flags}" prints`
	otherSession = `change the settings of the connections, in the data source name or in the server`
	// An encoding can only be chosen for a new database.
	otherEncoding = `keep table {table} in a database whose encoding is UTF8, such as "CREATE DATABASE ... ENCODING 'UTF8' ` +
		`TEMPLATE template0" makes`
	otherTable = `change table {table} to what "ratelimitgen sql {flags}" prints`
)

// describe returns the parts of a table.
func describe(ctx context.Context, db querier, query string) (map[string]string, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var name, what string
		if err := rows.Scan(&name, &what); err != nil {
			return nil, err
		}
		found[name] = what
	}
	return found, rows.Err()
}

// differences says what is missing from the parts that were found, or not what it must be.
func differences(parts string, found map[string]string) (all []string) {
	for line := range strings.Lines(strings.TrimSpace(parts)) {
		name, kinds, _ := strings.Cut(strings.TrimSpace(line), ": ")
		allowed := strings.Split(kinds, " | ")
		switch what, ok := found[name]; {
		case !ok:
			all = append(all, fmt.Sprintf("%s is missing", name))
		case !slices.Contains(allowed, what):
			all = append(all, fmt.Sprintf("%s is %q instead of %q", name, what, allowed[0]))
		}
	}
	return all
}

// Ready returns nil if the store can answer: the table is there, is what the store needs, and can be read and
// written. It leaves nothing changed. Call it when the program starts, so that what is missing is known
// before the first request.
//
// The error says what is wrong, such as a column of another type, a privilege that is lacking or a server that
// is a replica, and what to do about it. On a Galera cluster, it is also about nodes whose clocks differ, as far as 10,000
// rows show that: by a row that another node has written, or this one before its clock was set back.
func (s *Store) Ready(ctx context.Context) error {
	if err := s.usable(); err != nil {
		return err
	}
	_, err := bounded(ctx, func(ctx context.Context) (any, error) {
		return nil, s.withRoom(ctx, func() error { return retry(ctx, func() error { return s.tryOut(ctx) }) })
	})
	if err != nil {
		return s.explain(ctx, err)
	}
	return nil
}

// tryOut checks the table and the clocks of a cluster, rehearses a call, and looks for a pooler that mixes statements up.
func (s *Store) tryOut(ctx context.Context) error {
	p, err := s.prepareNow(ctx)
	if err != nil {
		return err
	}
	if err := s.check(ctx, s.db); err != nil {
		return err
	}
	if err := s.checkClocks(ctx, p); err != nil {
		return err
	}
	if err := s.rehearse(ctx, p); err != nil {
		return err
	}
	return s.checkNames(ctx, p)
}

// rehearse does with a row that no limit can have what a call does with its rows, and rolls back.
func (s *Store) rehearse(ctx context.Context, p *prepared) error {
	row := runtime.Row{Shard: -1}
	err := s.inTx(ctx, p, runtime.DurabilityDefault, func(se session) error {
		l := newRowLock(se, []runtime.Row{row}, runtime.DurabilityDefault)
		if err := l.lock(ctx, s.locking(readFirst)); err != nil {
			return err
		}
		for _, s := range []statement{writeRows, deleteRows} {
			if err := l.put(ctx, s, []stored{{row: row}}); err != nil {
				return err
			}
		}
		return errRollback
	})
	if errors.Is(err, errRollback) {
		return nil
	}
	return err
}

// nameRounds is how often a pooler is given the occasion to mix up statements: it may have several sessions, and other
// clients at the same time.
const nameRounds = 2

// sparePatience is how long Ready waits for a second connection, or for a pooler's second session. There may be none.
const sparePatience = 250 * time.Millisecond

// checkNames returns the error of a statement that the driver has prepared under a name, and that a pooler has then sent
// to a session of the server that does not have it, or has it from another client. Two connections run the same
// statement: the first one alone, the second one in a transaction, and the first one again, which then cannot have the
// session of the transaction. In a pooler that has only one session, the second one finds the first one's statement.
func (s *Store) checkNames(ctx context.Context, p *prepared) error {
	if s.dialect.Named == "" || p.splits {
		return nil
	}
	first, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { first.Close() }()
	named, err := s.named(ctx, first)
	for i := 0; err == nil && named && i < nameRounds; i++ {
		var second *sql.Conn
		if second = s.spare(ctx); second != nil {
			err = s.meet(ctx, first, second)
			second.Close()
		}
		if err == nil {
			first, named, err = s.renew(ctx, first)
		}
	}
	return err
}

// named reports whether a statement has a name in the session that runs it.
func (s *Store) named(ctx context.Context, in runtime.Tx) (named bool, err error) {
	v := new(values)
	v[paramName] = "%ratelimitgen_named%"
	t := &s.texts[askNamed][oneRow]
	err = in.QueryRowContext(ctx, t.sql, t.args(v)...).Scan(&named)
	return named, err
}

// spare returns a second connection, or nil if there is none.
func (s *Store) spare(ctx context.Context) *sql.Conn {
	if s.db.Stats().MaxOpenConnections == 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sparePatience)
	defer cancel()
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil
	}
	return conn
}

// meet has two connections run the statement so that they cannot have the same session.
func (s *Store) meet(ctx context.Context, first, second *sql.Conn) error {
	tx, err := second.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := s.named(ctx, tx); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, sparePatience)
	defer cancel()
	if _, err := s.named(wait, first); err != nil && wait.Err() == nil {
		return err
	}
	return nil
}

// renew closes a connection, and has another one run the statement.
func (s *Store) renew(ctx context.Context, conn *sql.Conn) (_ *sql.Conn, named bool, err error) {
	conn.Raw(func(any) error { return driver.ErrBadConn })
	fresh, err := s.db.Conn(ctx)
	if err != nil {
		return conn, false, err
	}
	named, err = s.named(ctx, fresh)
	return fresh, named, err
}

// conduct returns how the driver of db sends statements outside of transactions.
//
// It resends if it may send a statement again that the server has carried out already. Package database/sql does so
// when a driver returns driver.ErrBadConn, which drivers should return only for what they have not sent; lib/pq
// returns it for any connection that breaks, and so does what wraps it.
//
// It splits if it may prepare a statement and run it by two messages that a pooler may send to two sessions of the
// server. lib/pq does so: it prepares without a name, waits for the answer, and then runs what is prepared without a
// name. pgx in its mode describe_exec does the same. Its other modes send one message, or name the statement after its
// text, so that what is run is what was prepared. Drivers that are not known may do both.
func conduct(ctx context.Context, db *sql.DB) (resends, splits bool, err error) {
	switch fmt.Sprintf("%T", db.Driver()) {
	case "*mysql.MySQLDriver", "*sqlite.Driver":
		return false, false, nil
	case "*stdlib.Driver":
		mode, err := execMode(ctx, db)
		return false, mode == "" || mode == "describe exec", err
	}
	return true, true, nil
}

// execMode returns what pgx calls the mode in which it runs statements, or "" if that is not known. A connection of
// pgx's package stdlib has a method Conn, and what that returns a method Config: this package imports no driver.
func execMode(ctx context.Context, db *sql.DB) (mode string, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	err = conn.Raw(func(of any) error {
		method := reflect.ValueOf(of).MethodByName("Conn")
		if !returnsOne(method) {
			return nil
		}
		method = method.Call(nil)[0].MethodByName("Config")
		if !returnsOne(method) {
			return nil
		}
		config := reflect.Indirect(method.Call(nil)[0])
		if config.Kind() != reflect.Struct {
			return nil
		}
		if field := config.FieldByName("DefaultQueryExecMode"); field.IsValid() {
			mode = fmt.Sprint(field.Interface())
		}
		return nil
	})
	return mode, err
}

// returnsOne reports whether there is a method, without parameters and with one result.
func returnsOne(method reflect.Value) bool {
	return method.IsValid() && method.Type().NumIn() == 0 && method.Type().NumOut() == 1
}
