package sqlstore

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
	"github.com/ratelimitgen/ratelimitgen/runtime/override"
)

const overrideColumns = `id, name, {key}, what, plan, rate, capacity, max_reserved,
	most_rate, most_capacity, most_reserved, may_lift, until_ns, reason, author, at_ns`

// overrides is the log of overrides. It has its own table.
type overrides struct {
	*prepared
	// log is the name of the table.
	log string
	// err is why there are none: the dialect lacks them, or the name of the table is too long.
	err error
	// create, describe, next, insert, insertNone, since, history and ends are statements, and remove is one without its last
	// parenthesis. insertNone inserts no row.
	create, describe, next, insert, insertNone, since, history, ends, remove string
	logSettings
	// compactAfter is when obsolete entries are looked for again, in nanoseconds since 1970 UTC.
	compactAfter atomic.Int64
	view         *override.View
	// stop ends the goroutine of the view.
	stop context.CancelFunc
}

// logSettings are those of a log of overrides.
type logSettings struct {
	// every is how often new entries are read.
	every time.Duration
	// keep is how long entries are kept that have ended or were replaced, less than 0 for good.
	keep time.Duration
	// autoCreate creates the table at its first use.
	autoCreate bool
}

// newOverrides prepares the statements. It must be called with the dialect as it is before [Dialect.forTable].
func newOverrides(on *prepared, d Dialect, settings logSettings) *overrides {
	v := &overrides{prepared: on, log: OverridesTable(on.table), logSettings: settings}
	if d.CreateOverrides == "" {
		v.err = fmt.Errorf("%w: dialect %q has no table for them", runtime.ErrNoOverrides, d.Name)
	}
	placeholders := strings.TrimSuffix(strings.Repeat("?, ", 16), ", ")
	for _, text := range []struct {
		into *string
		text string
	}{
		{&v.create, d.CreateOverrides},
		{&v.describe, d.Describe},
		{&v.next, "SELECT COALESCE(MAX(id), 0) + 1 FROM {table}"},
		{&v.insert, "INSERT INTO {table} (" + overrideColumns + ") VALUES (" + placeholders + ")"},
		{&v.insertNone, "INSERT INTO {table} (" + overrideColumns + ") SELECT " + overrideColumns + " FROM {table} WHERE id < 0"},
		{&v.since, "SELECT " + overrideColumns + " FROM {table} WHERE id >= ? ORDER BY id LIMIT ?"},
		{&v.history, "SELECT " + overrideColumns + " FROM {table} WHERE name = ? AND {key} = ? ORDER BY name, {key}, id"},
		{&v.ends, "SELECT id, name, {key}, what, until_ns, at_ns FROM {table} WHERE id > ? ORDER BY id LIMIT ?"},
		{&v.remove, "DELETE FROM {table} WHERE id IN ("},
	} {
		filled, err := d.Text(text.text, v.log)
		if err != nil && v.err == nil {
			v.err = fmt.Errorf("the table of overrides: %w", err)
		}
		*text.into = d.numbered(filled)
	}
	ctx, stop := context.WithCancel(context.Background())
	v.stop = stop
	v.view = override.New(override.Source{
		Since: v.entriesSince, Now: v.present, Every: v.every,
		Background: func(f func(context.Context)) {
			if !v.inBackground(func() { f(ctx) }) {
				go f(ctx) // which Close has ended
			}
		},
	})
	return v
}

// entriesSince returns a page of the entries from an id on.
func (v *overrides) entriesSince(ctx context.Context, id int64) ([]runtime.OverrideEntry, error) {
	return v.read(ctx, v.since, id, override.Page)
}

// historyOf returns all entries of a key.
func (v *overrides) historyOf(ctx context.Context, limit, key string) ([]runtime.OverrideEntry, error) {
	return v.read(ctx, v.history, limit, key)
}

func (v *overrides) read(ctx context.Context, query string, args ...any) ([]runtime.OverrideEntry, error) {
	if v.err != nil {
		return nil, v.err
	}
	return using(ctx, v.prepared, func(ctx context.Context, x *executor) ([]runtime.OverrideEntry, error) {
		// Overrides end by this clock even if no request needs it otherwise.
		if _, err := v.now(ctx, v.db); err != nil {
			return nil, err
		}
		entries, err := v.query(ctx, x, query, args)
		if v.mayCreate(err) {
			return nil, v.createTable(ctx)
		}
		return entries, v.explain(err)
	})
}

// mayCreate reports whether an error is that of a missing table, which the store may create.
func (v *overrides) mayCreate(err error) bool { return v.autoCreate && hintFor(err) == missingTable }

func (v *overrides) query(ctx context.Context, x *executor, query string, args []any) (entries []runtime.OverrideEntry, err error) {
	err = retry(ctx, func() error {
		return v.single(ctx, x, func(in session) error {
			var err error
			entries, err = scanOverrides(ctx, textSession(in), query, args)
			return err
		})
	})
	return entries, err
}

// textSession returns what runs texts in a session of the store.
func textSession(in session) runtime.Tx {
	if t, ok := in.(storeTx); ok {
		return t.tx
	}
	return in.(*executor).db
}

func scanOverrides(ctx context.Context, in runtime.Tx, query string, args []any) (entries []runtime.OverrideEntry, err error) {
	rows, err := in.QueryContext(ctx, query, args...)
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

// append adds an entry. Two transactions cannot have the same id, and the second one waits for the first: so entries are
// committed in the order of their ids.
func (v *overrides) append(ctx context.Context, e runtime.OverrideEntry) (runtime.OverrideEntry, error) {
	if v.err != nil {
		return runtime.OverrideEntry{}, v.err
	}
	if err := e.Validate(); err != nil {
		return runtime.OverrideEntry{}, err
	}
	return using(ctx, v.prepared, func(ctx context.Context, x *executor) (_ runtime.OverrideEntry, err error) {
		e, err = v.insertNext(ctx, x, e)
		if v.mayCreate(err) {
			if err := v.createTable(ctx); err != nil {
				return runtime.OverrideEntry{}, err
			}
			e, err = v.insertNext(ctx, x, e)
		}
		return e, v.explain(err)
	})
}

// insertNext tries ids until one is free.
func (v *overrides) insertNext(ctx context.Context, x *executor, e runtime.OverrideEntry) (runtime.OverrideEntry, error) {
	for attempt := 1; ; attempt++ {
		taken := e.ID
		err := retry(ctx, func() error {
			return v.inTx(ctx, x, runtime.DurabilityFull, func(in session) (err error) {
				e.ID, err = v.insertEntry(ctx, textSession(in), e, taken)
				return err
			})
		})
		if err == nil || !refusedValue(err) || errors.Is(err, errSameID) || attempt == maxAttempts {
			return e, err
		}
		if ended := pause(ctx, attempt); ended != nil {
			return e, fmt.Errorf("%w: %w", ended, err)
		}
	}
}

// errSameID: the table has refused a row, but not because another one has its id.
var errSameID = errors.New("a constraint of the table refuses the override")

// insertEntry inserts an entry with the next id, unless that is the one that was refused before.
func (v *overrides) insertEntry(ctx context.Context, in runtime.Tx, e runtime.OverrideEntry, refused int64) (id int64, err error) {
	if err := in.QueryRowContext(ctx, v.next).Scan(&id); err != nil {
		return 0, err
	}
	mayLift := 0
	if e.Most.Unlimited {
		mayLift = 1
	}
	_, err = in.ExecContext(ctx, v.insert, id, e.Limit, e.Key, e.What, e.Plan, e.Rate, e.Capacity, e.MaxReserved,
		e.Most.Rate, e.Most.Capacity, e.Most.MaxReserved, mayLift, e.Until.UnixNano(), e.Reason, e.Author, e.At.UnixNano())
	if err != nil && id == refused && refusedValue(err) {
		err = fmt.Errorf("%w: %w", errSameID, err)
	}
	return id, err
}

// readLog returns a view of the whole log, which is nil if there is no table of overrides. Unlike the view of the store it
// creates no table, and does not follow the log, so that programs without overrides can use it.
func (v *overrides) readLog(ctx context.Context) (*override.View, error) {
	if v.err != nil {
		return nil, nil
	}
	view := override.New(override.Source{Now: v.present, Since: func(ctx context.Context, id int64) ([]runtime.OverrideEntry, error) {
		return using(ctx, v.prepared, func(ctx context.Context, x *executor) ([]runtime.OverrideEntry, error) {
			return v.query(ctx, x, v.since, []any{id, override.Page})
		})
	}})
	err := view.Refresh(ctx)
	if err != nil && hintFor(err) == missingTable {
		return nil, nil
	}
	return view, err
}

// endAll ends what is in force of a limit that no longer exists.
func (v *overrides) endAll(ctx context.Context, limit string) error {
	view, err := v.readLog(ctx)
	if view == nil || err != nil {
		return err
	}
	for _, e := range view.Endings(limit) {
		if _, err := v.append(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// compactionPage is how many entries are read at once to find the obsolete ones.
const compactionPage = 10_000

// compact deletes the entries of the log that [override.Obsolete] returns.
func (v *overrides) compact(ctx context.Context) error {
	if v.err != nil || v.keep < 0 || v.present() < v.compactAfter.Load() {
		return nil
	}
	var before time.Time
	var log []runtime.OverrideEntry
	for recent := false; !recent; {
		page, err := using(ctx, v.prepared, func(ctx context.Context, x *executor) (page []runtime.OverrideEntry, err error) {
			now, err := v.now(ctx, v.db)
			if err != nil {
				return nil, err
			}
			before = time.Unix(0, now()-int64(v.keep))
			after := int64(0)
			if len(log) > 0 {
				after = log[len(log)-1].ID
			}
			return page, retry(ctx, func() error {
				return v.single(ctx, x, func(in session) (err error) {
					page, err = scanEnds(ctx, textSession(in), v.ends, after)
					return err
				})
			})
		})
		if err != nil {
			return err
		}
		log = append(log, page...)
		// Later entries are not old enough.
		recent = len(page) < compactionPage || !page[len(page)-1].At.Before(before)
	}
	for ids := range slices.Chunk(override.Obsolete(log, before), sweepPage) {
		began := time.Now()
		_, err := using(ctx, v.prepared, func(ctx context.Context, x *executor) (any, error) { return nil, v.delete(ctx, x, ids) })
		if err != nil {
			return err
		}
		if err := sleep(ctx, time.Since(began)); err != nil {
			return err
		}
	}
	// The entries in force are read each time, and can be many.
	v.compactAfter.Store(before.UnixNano() + int64(v.keep) + int64(v.keep)/100)
	return nil
}

func scanEnds(ctx context.Context, in runtime.Tx, query string, after int64) (page []runtime.OverrideEntry, err error) {
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

func (v *overrides) delete(ctx context.Context, x *executor, ids []int64) error {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatInt(id, 10)
	}
	// Numbers of our own, so that a list of any length needs no parameters.
	remove := v.remove + strings.Join(texts, ", ") + ")"
	err := v.withRoom(ctx, func() error {
		return retry(ctx, func() error {
			return v.single(ctx, x, func(in session) error {
				_, err := textSession(in).ExecContext(ctx, remove)
				return err
			})
		})
	})
	if err != nil && hintFor(err) == lackingPrivilege {
		return &hintedError{v.fillIn(keptOverrides), err}
	}
	return err
}

// createTable creates the table if it does not exist.
func (v *overrides) createTable(ctx context.Context) error {
	if v.err != nil {
		return v.err
	}
	if err := v.server.createTable(ctx, v.create, v.describe); err != nil {
		return fmt.Errorf("create table %q: %w", v.log, v.explain(err))
	}
	return nil
}

// check compares the table with the dialect's requirements, checks that the store can add an entry, reads the new
// entries, and returns an error that names those that this program does not understand, or the limits that it does not have.
func (v *overrides) check(ctx context.Context, policies []*runtime.Policy) error {
	// First, because that creates a missing table if the store may do so.
	if err := v.view.Refresh(ctx); err != nil {
		return err
	}
	if v.describe != "" {
		found, err := describe(ctx, v.db, v.describe)
		if err != nil {
			return v.explain(err)
		}
		if all := differences(v.dialect.OverridesParts, found); len(all) > 0 {
			return &hintedError{v.fillIn(wrongTable) + ": " + strings.Join(all, "; "), nil}
		}
	}
	if err := retry(ctx, func() error {
		_, err := v.db.ExecContext(ctx, v.insertNone)
		return err
	}); err != nil {
		return v.explain(err)
	}
	if problems := v.view.Problems(policies); len(problems) > 0 {
		return fmt.Errorf("end these overrides, or update the program: %w", errors.Join(problems...))
	}
	if len(policies) == 0 {
		return nil
	}
	return v.view.Unused(policies)
}

// usedBy reports whether a limit with overrides is in use.
func (v *overrides) usedBy(policies []*runtime.Policy) bool {
	return slices.ContainsFunc(policies, (*runtime.Policy).Overridable) || v.view.InUse()
}

// explain adds the hints that name the table.
func (v *overrides) explain(err error) error {
	if err == nil || errors.As(err, new(*hintedError)) {
		return err
	}
	switch hintFor(err) {
	case missingTable:
		return &hintedError{v.fillIn(missingOverrides), err}
	case lackingPrivilege:
		return &hintedError{v.fillIn(lackingOverrides), err}
	}
	return err
}

func (v *overrides) fillIn(hint string) string {
	return v.server.fillIn(strings.ReplaceAll(hint, "{table}", strconv.Quote(v.log)))
}

const lackingOverrides = "the database user lacks a privilege: on table {table} it needs SELECT and INSERT, and to run Migrate " +
	"also CREATE"
const keptOverrides = `the database user may not delete the old entries of table {table}, so that it only grows: grant the ` +
	`user DELETE on it, or set Options.KeepOverrides to -1`

const missingOverrides = `there is no table {table}, which limits with overrides and the log of operators need: call Migrate ` +
	`with the generated Policies, or run what "ratelimitgen sql {flags}" prints`
