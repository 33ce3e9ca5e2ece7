package table

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/registry"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// Registry is the registrations of limits. It has its own table.
type Registry struct {
	side
	// owner is the one of the store's options, or "".
	owner     string
	overrides *OverrideLog

	known registry.Known
	// stored has the registrations as they were read last; nil before the first use.
	stored atomic.Pointer[reading]
	// turn has a value while a call reads or writes the table for a first use, and spare one for each call that does so beside
	// it.
	turn, spare chan struct{}
}

// registrations are by the name of the limit.
type registrations map[string]runtime.Registration

// reading is the registrations at the time when they were read.
type reading struct {
	all registrations
	at  time.Time
}

// The rows of which checkRows reads.
const (
	wholeTable = "{table}"
	someRows   = "(SELECT name, value FROM {table} LIMIT 10000) AS few"
)

// The statements of the registry.
const (
	readRegistry = "SELECT name, owner, format, key_types, numbers, at_ns FROM {table}" + allRows
	insertLimit  = "INSERT INTO {table} (owner, format, key_types, numbers, at_ns, name) VALUES (?, ?, ?, ?, ?, ?)"
	updateLimit  = "UPDATE {table} SET owner = ?, format = ?, key_types = ?, numbers = ?, at_ns = ? WHERE name = ?"
	removeLimit  = "DELETE FROM {table} WHERE name = ?"
)

func NewRegistry(on *Prepared, owner string, overrides *OverrideLog) *Registry {
	r := &Registry{
		owner: owner, overrides: overrides, side: newSide(on, dialect.RegistryTable(on.Server.Table)),
		turn: make(chan struct{}, 1), spare: make(chan struct{}, bounds.SpareTurns),
	}
	r.create, r.parts, r.missing, r.lacking = on.Server.Dialect.CreateRegistry, on.Server.Dialect.RegistryParts,
		missingRegistry, lackingRegistry
	r.autoCreate = overrides.AutoCreate
	return r
}

// checkRows returns an error if a row was written before 23 November 2026, when rows had the tokens that are left. Today
// they have minus the tokens that are used, so that every key would be full. Statements that upgrade a table leave such rows
// in it.
func (r *Registry) checkRows(ctx context.Context, x *conn.Executor, from string) error {
	// It is about the table of counts.
	query, err := r.server.Naming(r.server.Table, r.server.Dialect.Reading("SELECT name FROM "+from+" WHERE value > 0 LIMIT 1"))
	if err != nil {
		return err
	}
	var limit string
	err = r.server.Single(ctx, x, func(in conn.Session) error { return in.QueryRowContext(ctx, query).Scan(&limit) })
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	return &fault.Hinted{Text: r.server.FillIn(fmt.Sprintf(fault.FirstRows, limit)), Err: runtime.ErrForeignCounts}
}

// Refuse is the first stage of a call. It compares the limits that are used for the first time with their registrations, and
// returns the errors of the calls that are refused. Limits that are not registered, or that cannot be compared because the
// table or the privilege to read it is missing, are not refused: Ready reports those.
func (r *Registry) Refuse(ctx context.Context, calls []runtime.Call) (registry.Refusals, error) {
	if r.known.Admits(calls) {
		return nil, nil
	}
	forgotten := func(*runtime.Policy) (error, bool) { return nil, false }
	if r.known.Compared(calls) {
		return r.known.Refuse(calls, forgotten), nil
	}
	ctx, cancel := context.WithTimeout(ctx, bounds.Timeout)
	defer cancel()
	end, err := r.inTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if r.known.Compared(calls) {
		return r.known.Refuse(calls, forgotten), nil
	}
	return Using(ctx, r.prepared, func(ctx context.Context, x *conn.Executor) (registry.Refusals, error) {
		if !r.server.Gate.Enter() {
			return nil, runtime.ErrClosed
		}
		defer r.server.Gate.Open.Done()
		err := r.server.WithRoom(ctx, func() error {
			return r.load(func() (registrations, error) { return r.readFirst(ctx, x) })
		})
		if err != nil {
			return nil, err
		}
		return r.known.Refuse(calls, func(p *runtime.Policy) (error, bool) { return r.compare(ctx, x, p), true }), nil
	})
}

// inTurn waits until no other call reads or writes the table for a first use: most that come meanwhile then need not do so.
// The error is that of ctx.
func (r *Registry) inTurn(ctx context.Context) (end func(), err error) {
	late := time.After(bounds.TurnPatience)
	var spare chan struct{}
	for ctx.Err() == nil {
		select {
		case r.turn <- struct{}{}:
			return func() { <-r.turn }, nil
		case spare <- struct{}{}:
			return func() { <-spare }, nil
		case <-late:
			// A nil channel, as before, is never ready.
			spare = r.spare
		case <-ctx.Done():
		}
	}
	return nil, ctx.Err()
}

// RefuseInTx is Refuse in a transaction of the caller, which may have the only connection, and may be rolled back: so it
// registers nothing.
func (r *Registry) RefuseInTx(ctx context.Context, tx conn.Runner, calls []runtime.Call) (registry.Refusals, error) {
	if r.known.Admits(calls) {
		return nil, nil
	}
	if err := r.load(func() (registrations, error) { return r.readInTx(ctx, tx) }); err != nil {
		return nil, err
	}
	return r.known.Refuse(calls, func(p *runtime.Policy) (error, bool) {
		was, registered := r.stored.Load().all[p.Name]
		if !registered {
			return nil, !r.autoCreate
		}
		return was.Refuses(runtime.RegistrationOf(r.owner, p)), true
	}), nil
}

// Compare returns the error of a limit whose rows are about to be changed other than by a call.
func (r *Registry) Compare(ctx context.Context, p *runtime.Policy) error {
	if err, known := r.known.Of(p); known {
		return err
	}
	_, err := Using(ctx, r.prepared, func(ctx context.Context, x *conn.Executor) (any, error) {
		if err := r.load(func() (registrations, error) { return r.readFirst(ctx, x) }); err != nil {
			return nil, err
		}
		return nil, r.compare(ctx, x, p)
	})
	return err
}

// compare compares a limit with its registration, and registers it if it is not, and the store may do so.
func (r *Registry) compare(ctx context.Context, x *conn.Executor, p *runtime.Policy) error {
	own := runtime.RegistrationOf(r.owner, p)
	was, registered := r.stored.Load().all[p.Name]
	switch {
	case registered:
		return was.Refuses(own)
	case !r.autoCreate || r.Err != nil:
		return nil
	}
	// The first use may have been in a transaction of the caller, which creates no table.
	err := r.creating(ctx, func() error { return r.register(ctx, x, []runtime.Registration{own}, false) })
	// Another error leaves the limit unregistered, as on a server: the call itself has the same problem, or none.
	if errors.Is(err, runtime.ErrForeignCounts) {
		return err
	}
	return nil
}

// load reads the registrations, unless they were read lately: another program may have changed them since.
func (r *Registry) load(read func() (registrations, error)) error {
	if last := r.stored.Load(); last != nil && time.Since(last.at) < registry.Again {
		return nil
	}
	stored, err := read()
	if err == nil {
		r.stored.Store(&reading{stored, time.Now()})
	}
	return err
}

// readFirst reads the table before the first use. It is empty if the table is missing, or the right to read it.
func (r *Registry) readFirst(ctx context.Context, x *conn.Executor) (stored registrations, err error) {
	if r.Err != nil {
		return registrations{}, nil
	}
	err = r.creating(ctx, func() (err error) {
		stored, err = r.readAll(ctx, x)
		return err
	})
	if fault.NoTable(err) || fault.NoPrivilege(err) {
		return registrations{}, nil
	}
	return stored, err
}

// readInTx reads the table in a transaction of the caller, which on Postgres ends with the first statement that fails.
func (r *Registry) readInTx(ctx context.Context, tx conn.Runner) (stored registrations, err error) {
	if r.Err != nil {
		return registrations{}, nil
	}
	const savepoint = "ratelimitgen_registry"
	if _, err := tx.ExecContext(ctx, "SAVEPOINT "+savepoint); err != nil {
		return nil, err
	}
	stored, err = scanRegistrations(ctx, tx, r.reading(readRegistry))
	if err != nil {
		if _, ended := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT "+savepoint); ended != nil {
			return nil, err
		}
	}
	if _, ended := tx.ExecContext(ctx, "RELEASE SAVEPOINT "+savepoint); ended != nil {
		return nil, ended
	}
	if fault.NoTable(err) || fault.NoPrivilege(err) {
		return registrations{}, nil
	}
	return stored, err
}

func (r *Registry) readAll(ctx context.Context, x *conn.Executor) (stored registrations, err error) {
	err = r.server.Single(ctx, x, func(in conn.Session) (err error) {
		stored, err = scanRegistrations(ctx, in, r.reading(readRegistry))
		return err
	})
	return stored, err
}

func scanRegistrations(ctx context.Context, in conn.Runner, query string) (registrations, error) {
	rows, err := in.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	stored := registrations{}
	for rows.Next() {
		var of runtime.Registration
		var at int64
		if err := rows.Scan(&of.Limit, &of.Owner, &of.Format, &of.Key, &of.Numbers, &at); err != nil {
			return nil, err
		}
		of.At = time.Unix(0, at).UTC()
		stored[of.Limit] = of
	}
	return stored, rows.Err()
}

// All returns what is registered, in the order of the names.
func (r *Registry) All(ctx context.Context) ([]runtime.Registration, error) {
	if r.Err != nil {
		return nil, r.Err
	}
	stored, err := Using(ctx, r.prepared, func(ctx context.Context, x *conn.Executor) (registrations, error) {
		stored, err := r.readAll(ctx, x)
		return stored, r.Explain(err)
	})
	if err != nil {
		return nil, err
	}
	all := make([]runtime.Registration, 0, len(stored))
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		all = append(all, stored[name])
	}
	return all, nil
}

// own returns the registrations of policies, one for each name.
func (r *Registry) own(policies []*runtime.Policy) (all []runtime.Registration, err error) {
	byName := map[string][]*runtime.Policy{}
	var names []string
	for _, p := range policies {
		if err := p.Validate(); err != nil {
			return nil, err
		}
		if byName[p.Name] == nil {
			names = append(names, p.Name)
		}
		byName[p.Name] = append(byName[p.Name], p)
	}
	for _, name := range names {
		all = append(all, runtime.RegistrationOf(r.owner, byName[name]...))
	}
	return all, nil
}

// Register creates the table and writes the registrations of policies. If adopt is set, they replace those of another owner
// or key. It writes nothing, and needs no right to, if they are stored already.
func (r *Registry) Register(ctx context.Context, policies []*runtime.Policy, adopt bool) error {
	own, err := r.own(policies)
	if r.Err != nil || err != nil {
		return err
	}
	_, err = Using(ctx, r.prepared, func(ctx context.Context, x *conn.Executor) (any, error) {
		if err := r.CreateTable(ctx); err != nil {
			return nil, err
		}
		return nil, r.Explain(r.register(ctx, x, own, adopt))
	})
	return err
}

// register writes registrations and, if it could, has all limits compared again. The error joins those of all limits.
func (r *Registry) register(ctx context.Context, x *conn.Executor, own []runtime.Registration, adopt bool) error {
	var tried []runtime.Registration
	return conn.Retry(ctx, func(ctx context.Context) error {
		stored, err := r.readAll(ctx, x)
		if err != nil {
			return err
		}
		if len(stored) == 0 {
			// The first registrations of a table. It is read as a whole this once.
			if err := r.checkRows(ctx, x, wholeTable); err != nil {
				return err
			}
		}
		var refused []error
		var changed []runtime.Registration
		for _, of := range own {
			was, registered := stored[of.Limit]
			if err := was.Refuses(of); registered && err != nil {
				if free, errFree := r.unused(ctx, x, was, of); errFree != nil {
					return errFree
				} else if !free && (!adopt || was.Format != of.Format) {
					refused = append(refused, err)
					continue
				}
			}
			if registered {
				of = of.Complete(was)
				was.At = of.At
			}
			if of != was {
				changed = append(changed, of)
			}
		}
		err = conn.Retry(ctx, func(ctx context.Context) error {
			if len(changed) == 0 {
				return nil
			}
			return r.server.InTx(ctx, x, runtime.DurabilityFull,
				func(in conn.Session) error { return r.write(ctx, in, stored, changed) })
		})
		switch {
		case err == nil:
			for _, of := range changed {
				stored[of.Limit] = of
			}
			r.replace(stored)
			return errors.Join(refused...)
		case fault.NoPrivilege(err) && onlyNumbers(stored, changed):
			// They are for people only, and the migrator's to write.
			r.replace(stored)
			return errors.Join(refused...)
		case fault.RefusedValue(err) && !slices.Equal(changed, tried):
			// Another process has registered the limit meanwhile. Otherwise the next attempt finds the same table, and a constraint
			// of it refuses the registration.
			tried = changed
			return &fault.Again{Err: err}
		}
		return err
	})
}

// replace has all limits compared again with what is now stored.
func (r *Registry) replace(stored registrations) {
	r.stored.Store(&reading{stored, time.Now()})
	r.known.Clear()
}

// unused reports whether a limit's key may be replaced by another one, because nothing is stored under the old one.
func (r *Registry) unused(ctx context.Context, x *conn.Executor, was, of runtime.Registration) (bool, error) {
	if was.Key = of.Key; was.Refuses(of) != nil {
		return false, nil
	}
	page, err := r.prepared.Page(ctx, x, runtime.Row{Name: of.Limit, Shard: -1}, 1)
	if len(page) > 0 || err != nil {
		return false, err
	}
	view, err := r.overrides.ReadLog(ctx)
	return view == nil || len(view.Endings(of.Limit)) == 0, err
}

func onlyNumbers(stored registrations, changed []runtime.Registration) bool {
	return !slices.ContainsFunc(changed, func(of runtime.Registration) bool {
		was, registered := stored[of.Limit]
		of.Numbers, of.At = was.Numbers, was.At
		return !registered || of != was
	})
}

func (r *Registry) write(ctx context.Context, in conn.Runner, stored registrations, changed []runtime.Registration) error {
	for _, of := range changed {
		statement := insertLimit
		if _, registered := stored[of.Limit]; registered {
			statement = updateLimit
		}
		if _, err := in.ExecContext(ctx, r.sql(statement), of.Owner, of.Format, of.Key, of.Numbers, r.server.Present(), of.Limit); err != nil {
			return err
		}
	}
	return nil
}

// Check compares the table with the dialect's requirements, and the registrations with those of the policies, which must be
// registered. It also looks for rows of old versions in the table of counts.
func (r *Registry) Check(ctx context.Context, policies []*runtime.Policy) error {
	own, err := r.own(policies)
	if r.Err != nil || err != nil {
		return err
	}
	// Some rows only, because there may be millions.
	_, err = Using(ctx, r.prepared, func(ctx context.Context, x *conn.Executor) (any, error) {
		return nil, r.checkRows(ctx, x, someRows)
	})
	if err != nil || len(own) == 0 {
		return err
	}
	if err := r.checkParts(ctx); err != nil {
		return err
	}
	stored, err := Using(ctx, r.prepared, func(ctx context.Context, x *conn.Executor) (registrations, error) {
		stored, err := r.readAll(ctx, x)
		return stored, r.Explain(err)
	})
	if err != nil {
		return err
	}
	var problems []error
	for _, of := range own {
		if was, registered := stored[of.Limit]; !registered {
			problems = append(problems, fmt.Errorf("limit %q is not registered: call Migrate with the generated Policies", of.Limit))
		} else if err := was.Refuses(of); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// OfOthers returns the names of the limits that are registered for other owners than that of the policies.
func (r *Registry) OfOthers(ctx context.Context, policies []*runtime.Policy) (names []string) {
	own, err := r.own(policies)
	if err != nil || len(own) == 0 {
		return nil
	}
	all, err := r.All(ctx)
	if err != nil {
		return nil
	}
	for _, of := range all {
		is := func(own runtime.Registration) bool { return own.Owner == of.Owner }
		if of.Owner != "" && !slices.ContainsFunc(own, is) {
			names = append(names, of.Limit)
		}
	}
	return names
}

// Forget deletes the registration of a limit that no longer exists.
func (r *Registry) Forget(ctx context.Context, limit string) error {
	if r.Err != nil {
		return nil
	}
	_, err := Using(ctx, r.prepared, func(ctx context.Context, x *conn.Executor) (any, error) {
		return nil, conn.Retry(ctx, func(ctx context.Context) error {
			return r.server.InTx(ctx, x, runtime.DurabilityFull, func(in conn.Session) error {
				_, err := in.ExecContext(ctx, r.sql(removeLimit), limit)
				return err
			})
		})
	})
	if fault.NoTable(err) || fault.NoPrivilege(err) {
		// What is left says whose the name was, and nothing else has it.
		return nil
	}
	return r.Explain(err)
}

const lackingRegistry = "the database user lacks a privilege: on table {table} it needs SELECT, and to run Migrate also INSERT, UPDATE, " +
	"and CREATE"

const missingRegistry = `there is no table {table}, or no right to see it, which says whose limits these are: call Migrate with the generated ` +
	`Policies, or run what "ratelimitgen sql {flags}" prints`
