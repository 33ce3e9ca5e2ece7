package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var _ runtime.OverrideStore = (*Store)(nil)

// OverridesTable returns the name of the table of overrides of a store whose counts are in the given table: for
// [DefaultTable], which "" stands for, rate_limit_overrides, and for another one the name with _overrides.
func OverridesTable(table string) string {
	schema, name, ok := strings.Cut(table, ".")
	if !ok {
		schema, name = "", table
	} else {
		schema += "."
	}
	if name == "" || name == DefaultTable {
		name = "rate_limit"
	}
	return schema + name + "_overrides"
}

// overridesChecks keep out overrides that exceed what their limit declares, whoever writes them. MySQL has checks since
// 8.0.16, and ignores them before.
const overridesChecks = `	CHECK (id > 0),
	CHECK (rate BETWEEN 0 AND most_rate),
	CHECK (capacity BETWEEN 0 AND most_capacity),
	CHECK (max_reserved BETWEEN 0 AND most_reserved),
	CHECK (what NOT IN ('unlimited', 'off', 'shadow') OR may_lift = 1),
	CHECK (until_ns > 0),
	CHECK (reason <> ''),
	CHECK (author <> '')`

const overrideColumns = `id, name, {key}, what, plan, rate, capacity, max_reserved,
	most_rate, most_capacity, most_reserved, may_lift, until_ns, reason, author, at_ns`

// overrides is the part of a store that keeps overrides.
type overrides struct {
	table string
	// err is why there are none: the dialect lacks them, or the name of the table is too long.
	err error
	// create, describe, next, insert, insertNone, since and history are statements. insertNone inserts no row.
	create, describe, next, insert, insertNone, since, history string
	autoCreate                                                 bool
	view                                                       *runtime.OverrideView
	// stop ends the goroutine of the view.
	stop context.CancelFunc
}

// newOverrides prepares the statements. It must be called with the dialect as it is before [Dialect.forTable].
func (s *Store) newOverrides(d Dialect, o Options) *overrides {
	v := &overrides{table: OverridesTable(o.Table), autoCreate: o.AutoCreate}
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
	} {
		filled, err := d.Text(text.text, v.table)
		if err != nil && v.err == nil {
			v.err = fmt.Errorf("the table of overrides: %w", err)
		}
		*text.into = d.numbered(filled)
	}
	ctx, stop := context.WithCancel(context.Background())
	v.stop = stop
	v.view = runtime.NewOverrideView(runtime.OverrideSource{
		Since: s.OverridesSince, Now: s.present, Every: o.OverridesEvery,
		Background: func(f func(context.Context)) { s.inBackground(func() { f(ctx) }) },
	})
	return v
}

// numbered returns a statement with the dialect's parameters in place of question marks.
func (d Dialect) numbered(text string) string {
	if !d.Numbered {
		return text
	}
	parts := strings.Split(text, "?")
	for i := range parts[1:] {
		parts[i] += "$" + strconv.Itoa(i+1)
	}
	return strings.Join(parts, "")
}

// present returns the store's time without a request: the clock was measured when the store was prepared.
func (s *Store) present() int64 {
	switch {
	case s.clock != nil:
		return s.clock().UnixNano()
	case s.dialect.Now != "" && s.offset.known():
		return s.offset.now()
	}
	return time.Now().UnixNano()
}

// OverrideView implements [runtime.OverrideStore]. It reads the log every [Options.OverridesEvery].
func (s *Store) OverrideView() *runtime.OverrideView {
	if s.usable() != nil {
		// Its first read returns the error.
		return runtime.NewOverrideView(runtime.OverrideSource{Since: s.OverridesSince, Now: func() int64 { return 0 }})
	}
	return s.overrides.view
}

// OverridesSince implements [runtime.OverrideStore].
func (s *Store) OverridesSince(ctx context.Context, id int64) ([]runtime.OverrideEntry, error) {
	return s.readOverrides(ctx, func(v *overrides) string { return v.since }, id, runtime.OverridePage)
}

// OverrideHistory implements [runtime.OverrideStore].
func (s *Store) OverrideHistory(ctx context.Context, limit, key string) ([]runtime.OverrideEntry, error) {
	return s.readOverrides(ctx, func(v *overrides) string { return v.history }, limit, key)
}

func (s *Store) readOverrides(ctx context.Context, query func(*overrides) string, args ...any) ([]runtime.OverrideEntry, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	if s.overrides.err != nil {
		return nil, s.overrides.err
	}
	return maintain(ctx, s, func(ctx context.Context) ([]runtime.OverrideEntry, error) {
		x, err := s.prepare(ctx)
		if err != nil {
			return nil, err
		}
		// Overrides end by this clock even if no request needs it otherwise.
		if _, err := s.now(ctx, s.db); err != nil {
			return nil, err
		}
		entries, err := s.queryOverrides(ctx, x, query(s.overrides), args)
		if err != nil && s.overrides.autoCreate && hintFor(err) == missingTable {
			return nil, s.createOverrides(ctx)
		}
		return entries, s.explainOverrides(err)
	})
}

func (s *Store) queryOverrides(ctx context.Context, x *executor, query string, args []any) (entries []runtime.OverrideEntry, err error) {
	err = retry(ctx, func() error {
		return s.single(ctx, x, func(in session) error {
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

// AppendOverride implements [runtime.OverrideStore]. Two transactions cannot have the same id, and the second one waits for
// the first: so entries are committed in the order of their ids.
func (s *Store) AppendOverride(ctx context.Context, e runtime.OverrideEntry) (runtime.OverrideEntry, error) {
	if err := s.usable(); err != nil {
		return runtime.OverrideEntry{}, err
	}
	if s.overrides.err != nil {
		return runtime.OverrideEntry{}, s.overrides.err
	}
	if err := e.Validate(); err != nil {
		return runtime.OverrideEntry{}, err
	}
	return maintain(ctx, s, func(ctx context.Context) (runtime.OverrideEntry, error) {
		x, err := s.prepare(ctx)
		if err != nil {
			return runtime.OverrideEntry{}, err
		}
		e, err = s.appendOverride(ctx, x, e)
		if err != nil && s.overrides.autoCreate && hintFor(err) == missingTable {
			if err := s.createOverrides(ctx); err != nil {
				return runtime.OverrideEntry{}, err
			}
			e, err = s.appendOverride(ctx, x, e)
		}
		return e, s.explainOverrides(err)
	})
}

// appendOverride tries ids until one is free.
func (s *Store) appendOverride(ctx context.Context, x *executor, e runtime.OverrideEntry) (runtime.OverrideEntry, error) {
	for attempt := 1; ; attempt++ {
		taken := e.ID
		err := retry(ctx, func() error {
			return s.inTx(ctx, x, runtime.DurabilityFull, func(in session) (err error) {
				e.ID, err = s.insertOverride(ctx, textSession(in), e, taken)
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

// insertOverride inserts an entry with the next id, unless that is the one that was refused before.
func (s *Store) insertOverride(ctx context.Context, in runtime.Tx, e runtime.OverrideEntry, refused int64) (id int64, err error) {
	if err := in.QueryRowContext(ctx, s.overrides.next).Scan(&id); err != nil {
		return 0, err
	}
	mayLift := 0
	if e.Most.Unlimited {
		mayLift = 1
	}
	_, err = in.ExecContext(ctx, s.overrides.insert, id, e.Limit, e.Key, e.What, e.Plan, e.Rate, e.Capacity, e.MaxReserved,
		e.Most.Rate, e.Most.Capacity, e.Most.MaxReserved, mayLift, e.Until.UnixNano(), e.Reason, e.Author, e.At.UnixNano())
	if err != nil && id == refused && refusedValue(err) {
		err = fmt.Errorf("%w: %w", errSameID, err)
	}
	return id, err
}

// createOverrides creates the table of overrides if it does not exist.
func (s *Store) createOverrides(ctx context.Context) error {
	if s.overrides.err != nil {
		return s.overrides.err
	}
	if err := s.createTable(ctx, s.overrides.create, s.overrides.describe); err != nil {
		return fmt.Errorf("create table %q: %w", s.overrides.table, s.explainOverrides(err))
	}
	return nil
}

// checkOverrides compares the table with the dialect's requirements, checks that the store can add an entry, reads the new
// entries, and returns an error that names those that this program does not understand.
func (s *Store) checkOverrides(ctx context.Context, policies []*runtime.Policy) error {
	// First, because that creates a missing table if the store may do so.
	if err := s.overrides.view.Refresh(ctx); err != nil {
		return err
	}
	if s.overrides.describe != "" {
		found, err := describe(ctx, s.db, s.overrides.describe)
		if err != nil {
			return s.explainOverrides(err)
		}
		if all := differences(s.dialect.OverridesParts, found); len(all) > 0 {
			return &hintedError{s.fillInOverrides(wrongTable) + ": " + strings.Join(all, "; "), nil}
		}
	}
	if err := retry(ctx, func() error {
		_, err := s.db.ExecContext(ctx, s.overrides.insertNone)
		return err
	}); err != nil {
		return s.explainOverrides(err)
	}
	if problems := s.overrides.view.Problems(policies); len(problems) > 0 {
		return fmt.Errorf("end these overrides, or update the program: %w", errors.Join(problems...))
	}
	return nil
}

// usesOverrides reports whether a limit with overrides is in use.
func (s *Store) usesOverrides(policies []*runtime.Policy) bool {
	return slices.ContainsFunc(policies, (*runtime.Policy).Overridable) || s.overrides.view.InUse()
}

// explainOverrides adds the hints that name the table.
func (s *Store) explainOverrides(err error) error {
	if err == nil || errors.As(err, new(*hintedError)) {
		return err
	}
	switch hintFor(err) {
	case missingTable:
		return &hintedError{s.fillInOverrides(missingOverrides), err}
	case lackingPrivilege:
		return &hintedError{s.fillInOverrides(lackingOverrides), err}
	}
	return err
}

func (s *Store) fillInOverrides(hint string) string {
	return s.fillIn(strings.ReplaceAll(hint, "{table}", strconv.Quote(s.overrides.table)))
}

const lackingOverrides = "the database user lacks a privilege: on table {table} it needs SELECT and INSERT, and to run Migrate " +
	"also CREATE"

const missingOverrides = `there is no table {table}, which limits with overrides and the log of operators need: call Migrate ` +
	`with the generated Policies, or run what "ratelimitgen sql {flags}" prints`

// OverrideView implements [runtime.OverrideStore].
func (t *callerTxStore) OverrideView() *runtime.OverrideView { return t.store.OverrideView() }

// OverridesSince implements [runtime.OverrideStore]. It reads in the transaction, which may have the only connection.
func (t *callerTxStore) OverridesSince(ctx context.Context, id int64) ([]runtime.OverrideEntry, error) {
	s := t.store
	if err := s.usable(); err != nil {
		return nil, err
	}
	switch {
	case s.overrides.err != nil:
		return nil, s.overrides.err
	case isNil(t.tx):
		return nil, runtime.ErrNilTx
	}
	entries, err := await(ctx, func() ([]runtime.OverrideEntry, error) {
		if _, err := s.now(ctx, t.tx); err != nil {
			return nil, err
		}
		return scanOverrides(ctx, t.tx, s.overrides.since, []any{id, runtime.OverridePage})
	}, nil)
	if err != nil && retryable(err) {
		return nil, &RetryTxError{err}
	}
	return entries, s.withHint(s.explainOverrides(err))
}

// OverrideHistory implements [runtime.OverrideStore].
func (t *callerTxStore) OverrideHistory(ctx context.Context, limit, key string) ([]runtime.OverrideEntry, error) {
	return t.store.OverrideHistory(ctx, limit, key)
}

// AppendOverride implements [runtime.OverrideStore]. It returns an error: the caller's transaction could not be run again if
// another one has the same id.
func (t *callerTxStore) AppendOverride(context.Context, runtime.OverrideEntry) (runtime.OverrideEntry, error) {
	return runtime.OverrideEntry{}, fmt.Errorf("%w: overrides cannot be written in a transaction of the caller", runtime.ErrInvalidOverride)
}
