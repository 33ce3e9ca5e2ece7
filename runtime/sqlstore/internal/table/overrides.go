package table

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

const overrideColumns = `id, name, {key}, what, plan, rate, capacity, max_reserved,
	most_rate, most_capacity, most_reserved, may_lift, until_ns, reason, author, at_ns`

// allRows ends a statement that selects several rows, which MySQL would otherwise limit to sql_select_limit of the session.
const allRows = " LIMIT 9223372036854775807"

// The statements of the log. The last one lacks its parenthesis, and insertNone inserts no row.
const (
	nextID         = "SELECT COALESCE(MAX(id), 0) + 1 FROM {table}" + allRows
	insertRow      = "INSERT INTO {table} (" + overrideColumns + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	insertNone     = "INSERT INTO {table} (" + overrideColumns + ") SELECT " + overrideColumns + " FROM {table} WHERE id < 0"
	readSince      = "SELECT " + overrideColumns + " FROM {table} WHERE id >= ? ORDER BY id LIMIT ?"
	readHistory    = "SELECT " + overrideColumns + " FROM {table} WHERE name = ? AND {key} = ? ORDER BY name, {key}, id" + allRows
	readEnds       = "SELECT id, name, {key}, what, until_ns, at_ns FROM {table} WHERE id > ? ORDER BY id LIMIT ?"
	removeObsolete = "DELETE FROM {table} WHERE id IN ("
)

// OverrideLog is the log of overrides. It has its own table.
type OverrideLog struct {
	side
	LogSettings
	// compactAfter is when obsolete entries are looked for again, in nanoseconds since 1970 UTC.
	compactAfter atomic.Int64
	View         *override.View
	// Stop ends the goroutine of the view.
	Stop context.CancelFunc
}

// LogSettings are the settings of a log of overrides.
type LogSettings struct {
	// Every is how often new entries are read.
	Every time.Duration
	// Keep is how long entries are kept that have ended or were replaced, less than 0 for good.
	Keep time.Duration
	// AutoCreate creates the table at its first use.
	AutoCreate bool
}

func NewOverrideLog(on *Prepared, settings LogSettings) *OverrideLog {
	v := &OverrideLog{LogSettings: settings, side: newSide(on, dialect.OverridesTable(on.Server.Table))}
	v.create, v.parts, v.missing, v.lacking = on.Server.Dialect.CreateOverrides, on.Server.Dialect.OverridesParts,
		missingOverrides, lackingOverrides
	v.autoCreate = settings.AutoCreate
	ctx, stop := context.WithCancel(context.Background())
	v.Stop = stop
	v.View = override.New(override.Source{
		Since: v.EntriesSince, Now: v.server.Present, Every: v.Every,
		Background: func(f func(context.Context)) {
			if !v.server.Gate.InBackground(func() { f(ctx) }) {
				go f(ctx) // which Close has ended
			}
		},
	})
	return v
}

// EntriesSince returns a page of the entries from an id on.
func (v *OverrideLog) EntriesSince(ctx context.Context, id int64) ([]runtime.OverrideEntry, error) {
	return v.read(ctx, readSince, id, override.Page)
}

// EntriesIn is EntriesSince in a transaction of the caller.
func (v *OverrideLog) EntriesIn(ctx context.Context, tx conn.Runner, id int64) ([]runtime.OverrideEntry, error) {
	return v.scanOverrides(ctx, tx, v.reading(readSince), []any{id, override.Page})
}

// HistoryOf returns all entries of a key.
func (v *OverrideLog) HistoryOf(ctx context.Context, limit, key string) ([]runtime.OverrideEntry, error) {
	return v.read(ctx, readHistory, limit, key)
}

func (v *OverrideLog) read(ctx context.Context, query string, args ...any) ([]runtime.OverrideEntry, error) {
	if v.Err != nil {
		return nil, v.Err
	}
	return Using(ctx, v.prepared, func(ctx context.Context, x *conn.Executor) (entries []runtime.OverrideEntry, err error) {
		// Overrides end by this clock even if no request needs it otherwise.
		if _, err := v.server.Now(ctx, v.server.DB); err != nil {
			return nil, err
		}
		err = v.creating(ctx, func() (err error) {
			entries, err = v.query(ctx, x, query, args)
			return err
		})
		return entries, v.Explain(err)
	})
}

func (v *OverrideLog) query(ctx context.Context, x *conn.Executor, query string, args []any) (entries []runtime.OverrideEntry, err error) {
	err = v.server.Single(ctx, x, func(in conn.Session) (err error) {
		entries, err = v.scanOverrides(ctx, in, v.reading(query), args)
		return err
	})
	return entries, err
}

func (v *OverrideLog) scanOverrides(ctx context.Context, in conn.Runner, query string, args []any) (entries []runtime.OverrideEntry, err error) {
	rows, err := v.server.Select(ctx, in, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var e runtime.OverrideEntry
		var mayLift int
		var until, at int64
		if err := rows.Scan(&e.ID, &e.Limit, &e.Key, &e.What, &e.Plan, &e.Rate, &e.Capacity, &e.MaxReserved,
			&e.Most.Rate, &e.Most.Capacity, &e.Most.MaxReserved, &mayLift, &until, &e.Reason, &e.Author, &at); err != nil {
			return nil, err
		}
		e.Most.Unlimited, e.Until, e.At = mayLift != 0, time.Unix(0, until).UTC(), time.Unix(0, at).UTC()
		entries = append(entries, e)
	}
	return entries, rows.Err()
}

// Append adds an entry. Two transactions cannot have the same id, and the second one waits for the first: so entries are
// committed in the order of their ids.
func (v *OverrideLog) Append(ctx context.Context, e runtime.OverrideEntry) (runtime.OverrideEntry, error) {
	if v.Err != nil {
		return runtime.OverrideEntry{}, v.Err
	}
	if err := e.Validate(); err != nil {
		return runtime.OverrideEntry{}, err
	}
	return Using(ctx, v.prepared, func(ctx context.Context, x *conn.Executor) (_ runtime.OverrideEntry, err error) {
		e.ID, err = v.withNextID(ctx, x, func(in conn.Session, refused int64) (int64, error) {
			return v.insertEntry(ctx, in, e, refused)
		})
		return e, v.Explain(err)
	})
}

// withNextID runs insert in transactions until the ID of its entry is free, and returns the ID. It creates the table if the
// store may.
func (v *OverrideLog) withNextID(
	ctx context.Context, x *conn.Executor, insert func(in conn.Session, refused int64) (int64, error),
) (id int64, err error) {
	var refused int64
	once := func(ctx context.Context) error {
		err := v.server.InTx(ctx, x, runtime.DurabilityFull, func(in conn.Session) (err error) {
			id, err = insert(in, refused)
			return err
		})
		if fault.RefusedValue(err) && !errors.Is(err, errSameID) {
			refused = id
			return &fault.Again{Err: err}
		}
		return err
	}
	return id, v.creating(ctx, func() error { return conn.Retry(ctx, once) })
}

// errSameID: the table has refused a row, but not because another one has its id.
var errSameID = errors.New("a constraint of the table refuses the override")

// insertEntry inserts an entry with the next id, unless that is the one that was refused before.
func (v *OverrideLog) insertEntry(ctx context.Context, in conn.Runner, e runtime.OverrideEntry, refused int64) (id int64, err error) {
	if err := in.QueryRowContext(ctx, v.reading(nextID)).Scan(&id); err != nil {
		return 0, err
	}
	mayLift := 0
	if e.Most.Unlimited {
		mayLift = 1
	}
	_, err = in.ExecContext(ctx, v.sql(insertRow), id, e.Limit, e.Key, e.What, e.Plan, e.Rate, e.Capacity, e.MaxReserved,
		e.Most.Rate, e.Most.Capacity, e.Most.MaxReserved, mayLift, e.Until.UnixNano(), e.Reason, e.Author, e.At.UnixNano())
	if err != nil && id == refused && fault.RefusedValue(err) {
		err = fmt.Errorf("%w: %w", errSameID, err)
	}
	return id, err
}

// ReadLog returns a view of the whole log, which is nil if there is no table of overrides. Unlike the view of the store it
// creates no table, and does not follow the log, so that programs without overrides can use it.
func (v *OverrideLog) ReadLog(ctx context.Context) (*override.View, error) {
	if v.Err != nil {
		return nil, nil
	}
	view := override.New(override.Source{Now: v.server.Present, Since: func(ctx context.Context, id int64) ([]runtime.OverrideEntry, error) {
		return Using(ctx, v.prepared, func(ctx context.Context, x *conn.Executor) ([]runtime.OverrideEntry, error) {
			entries, err := v.query(ctx, x, readSince, []any{id, override.Page})
			return entries, v.Explain(err)
		})
	}})
	err := view.Refresh(ctx)
	if err != nil && fault.NoTable(err) {
		return nil, nil
	}
	return view, err
}

// EndAll ends what is in force of a limit that no longer exists.
func (v *OverrideLog) EndAll(ctx context.Context, limit string) error {
	view, err := v.ReadLog(ctx)
	if view == nil || err != nil {
		return err
	}
	for _, e := range view.Endings(limit) {
		if _, err := v.Append(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// compactionPage is how many entries are read at once to find the obsolete ones.
const compactionPage = 10_000

// Compact deletes the entries of the log that [override.Obsolete] returns.
func (v *OverrideLog) Compact(ctx context.Context) error {
	if v.Err != nil || v.Keep < 0 || v.prepared.sweepTime(v.server.Present()) < v.compactAfter.Load() {
		return nil
	}
	var before time.Time
	var log []runtime.OverrideEntry
	for recent := false; !recent; {
		page, err := Using(ctx, v.prepared, func(ctx context.Context, x *conn.Executor) (page []runtime.OverrideEntry, err error) {
			now, err := v.server.Now(ctx, v.server.DB)
			if err != nil {
				return nil, err
			}
			before = time.Unix(0, v.prepared.sweepTime(now())-int64(v.Keep))
			after := int64(0)
			if len(log) > 0 {
				after = log[len(log)-1].ID
			}
			err = v.server.Single(ctx, x, func(in conn.Session) (err error) {
				page, err = scanEnds(ctx, in, v.reading(readEnds), after)
				return err
			})
			return page, err
		})
		if err != nil {
			return err
		}
		log = append(log, page...)
		// Later entries are not old enough.
		recent = len(page) < compactionPage || !page[len(page)-1].At.Before(before)
	}
	obsolete := override.Obsolete(log, before)
	if len(obsolete) == 0 {
		// No entry has it. Without the privilege, the first sweep fails, and not one in a year.
		obsolete = []int64{0}
	}
	for ids := range slices.Chunk(obsolete, sweepPage) {
		began := time.Now()
		_, err := Using(ctx, v.prepared, func(ctx context.Context, x *conn.Executor) (any, error) { return nil, v.delete(ctx, x, ids) })
		if err != nil {
			return err
		}
		if err := conn.Sleep(ctx, time.Since(began)); err != nil {
			return err
		}
	}
	// The entries in force are read each time, and can be many.
	v.compactAfter.Store(before.UnixNano() + int64(v.Keep) + int64(v.Keep)/100)
	return nil
}

func scanEnds(ctx context.Context, in conn.Runner, query string, after int64) (page []runtime.OverrideEntry, err error) {
	rows, err := in.QueryContext(ctx, query, after, compactionPage)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var e runtime.OverrideEntry
		var until, at int64
		if err := rows.Scan(&e.ID, &e.Limit, &e.Key, &e.What, &until, &at); err != nil {
			return nil, err
		}
		e.Until, e.At = time.Unix(0, until), time.Unix(0, at)
		page = append(page, e)
	}
	return page, rows.Err()
}

func (v *OverrideLog) delete(ctx context.Context, x *conn.Executor, ids []int64) error {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatInt(id, 10)
	}
	// Numbers of our own, so that a list of any length needs no parameters.
	remove := v.sql(removeObsolete) + strings.Join(texts, ", ") + ")"
	err := v.server.WithRoom(ctx, func() error {
		return v.server.Single(ctx, x, func(in conn.Session) error {
			_, err := in.ExecContext(ctx, remove)
			return err
		})
	})
	if err != nil && fault.NoPrivilege(err) {
		return &fault.Hinted{Text: v.fillIn(keptOverrides), Err: err}
	}
	return err
}

// Check compares the table with the dialect's requirements, checks that the store can add an entry, reads the new
// entries, and returns an error that names those that this program does not understand, or the limits that neither it nor
// others have.
func (v *OverrideLog) Check(ctx context.Context, policies []*runtime.Policy, others []string) error {
	// First, because that creates a missing table if the store may do so.
	if err := v.View.Refresh(ctx); err != nil {
		return err
	}
	if err := v.checkParts(ctx); err != nil {
		return err
	}
	if err := conn.Retry(ctx, func(ctx context.Context) error {
		_, err := v.server.DB.ExecContext(ctx, v.sql(insertNone))
		return err
	}); err != nil {
		return v.Explain(err)
	}
	if problems := v.View.Problems(policies); len(problems) > 0 {
		return fmt.Errorf("end these overrides, or update the program: %w", errors.Join(problems...))
	}
	if len(policies) == 0 {
		return nil
	}
	return v.View.Unused(policies, others...)
}

// UsedBy reports whether a limit with overrides is in use.
func (v *OverrideLog) UsedBy(policies []*runtime.Policy) bool {
	return slices.ContainsFunc(policies, (*runtime.Policy).Overridable) || v.View.InUse()
}

const lackingOverrides = "the database user lacks a privilege: on table {table} it needs SELECT and INSERT, to erase keys UPDATE, and to run " +
	"Migrate also CREATE"
const keptOverrides = `the database user may not delete the old entries of table {table}, so that it only grows: grant the ` +
	`user DELETE on it, or set Options.KeepOverrides to -1`

const missingOverrides = `there is no table {table}, which limits with overrides and the log of operators need: call Migrate ` +
	`with the generated Policies, or run what "ratelimitgen sql {flags}" prints`
