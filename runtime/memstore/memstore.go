// Package memstore keeps counts in the memory of this process. Its [Store] is the reference for all other stores.
package memstore

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/batch"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/registry"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/sweep"
)

// Store is a [runtime.Store] in the memory of this process: for tests, and for limits whose counts may be lost when the
// process ends. The zero Store is ready to use. It is the reference for all other stores.
type Store struct {
	// Clock returns the time, of the years 1700 to 2240; nil means time.Now.
	Clock func() time.Time
	// KeepOverrides is how long the log keeps entries that have ended or were replaced; 0 means 365 days,
	// and less than 0 for good. Sweep deletes those that are older.
	KeepOverrides time.Duration
	// Fail, if not nil, is asked before each call of the store, whose error is then that of Fail: for tests of what happens
	// when a store fails. One that waits for the end of ctx is a store that hangs.
	Fail func(ctx context.Context) error

	mu   sync.Mutex
	rows map[runtime.Row]runtime.State
	// rule is the memory of the rule of the current call.
	rule meter.Rule
	// registered has the limits that were used.
	registered registry.InMemory
	// log has the overrides, and view those in force.
	log  []runtime.OverrideEntry
	view *override.View
}

// Do implements [runtime.Store]. Its only errors are ctx.Err, that of Fail, and [runtime.ErrInvalidCall] for a Clock that
// shows an instant before the year 1700 or after 2240.
func (m *Store) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if err := m.ready(ctx); err != nil {
		return nil, err
	}
	refused := m.registered.Refuse(calls)
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.present()
	if err != nil {
		return nil, err
	}
	admitted := refused.Admitted(calls)
	if row, ok := batch.One(admitted); ok {
		before := m.rows[row]
		after, answers := batch.DecideOne(&m.rule, admitted, now, before)
		if after != before {
			m.writeLocked([]runtime.StoredRow{{Row: row, State: after}})
		}
		return refused.Answers(answers), nil
	}
	b := batch.New(admitted)
	// All rows are locked by mu, so that the batch can go on with more rows at once.
	for !b.Run(now, m.readLocked(b.Rows())) {
	}
	m.writeLocked(b.Changes())
	return refused.Answers(b.Answers()), nil
}

// ready returns the error of a call that does not begin: that of its context, or of Fail.
func (m *Store) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil || m.Fail == nil {
		return err
	}
	return m.Fail(ctx)
}

// Len returns the number of stored rows.
func (m *Store) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.rows)
}

// Sweep deletes the rows of the policies that have been full for an hour, so that they are not needed, and returns
// their number. Rows of other policies are kept. If several policies have the same name, such as a limit before and
// after an edit, a row is deleted only if all of them allow it: see meter.Sweepable. It also deletes old entries of the
// log of overrides; see KeepOverrides. The error is that of ctx, or [runtime.ErrInvalidPolicy]; then nothing is
// deleted.
func (m *Store) Sweep(ctx context.Context, policies ...*runtime.Policy) (int, error) {
	if err := m.ready(ctx); err != nil {
		return 0, err
	}
	byName := map[string][]*runtime.Policy{}
	for _, p := range policies {
		if err := p.Validate(); err != nil {
			return 0, err
		}
		byName[p.Name] = append(byName[p.Name], p)
	}
	view := m.OverrideView()
	if slices.ContainsFunc(policies, (*runtime.Policy).Overridable) {
		if err := view.Refresh(ctx); err != nil {
			return 0, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before, now := len(m.rows), m.now()
	for row, s := range m.rows {
		if view.Sweepable(byName[row.Name], row, s, now) {
			delete(m.rows, row)
		}
	}
	keep := cmp.Or(m.KeepOverrides, override.DefaultKeep)
	if keep > 0 {
		obsolete := override.Obsolete(m.log, arith.Time(now-int64(keep)))
		m.log = slices.DeleteFunc(m.log, func(e runtime.OverrideEntry) bool {
			_, found := slices.BinarySearch(obsolete, e.ID)
			return found
		})
	}
	return before - len(m.rows), nil
}

// present is now, for a decision.
func (m *Store) present() (int64, error) {
	if m.Clock == nil {
		return time.Now().UnixNano(), nil
	}
	return meter.ReadClock(m.Clock)
}

func (m *Store) now() int64 {
	if m.Clock == nil {
		return time.Now().UnixNano()
	}
	return m.Clock().UnixNano()
}

func (m *Store) readLocked(rows []runtime.Row) []runtime.State {
	states := make([]runtime.State, len(rows))
	for i, row := range rows {
		states[i] = m.rows[row]
	}
	return states
}

func (m *Store) writeLocked(changes []runtime.StoredRow) {
	if m.rows == nil {
		m.rows = map[runtime.Row]runtime.State{}
	}
	for _, c := range changes {
		if c.State.Exists {
			m.rows[c.Row] = c.State
		} else {
			delete(m.rows, c.Row)
		}
	}
}

// SweepEvery sweeps the store once per interval, until ctx ends. After each sweep, report, which may be nil, gets the number
// of rows deleted and the error, upon which the loop goes on. The error of SweepEvery is the cause of ctx, or at once
// [runtime.ErrInvalidPolicy] or about an interval that is not positive.
func (m *Store) SweepEvery(ctx context.Context, interval time.Duration, report func(deleted int, err error), policies ...*runtime.Policy) error {
	return sweep.Every(ctx, m, interval, report, policies...)
}

// AppendOverride appends an entry to the log, and returns it with its id and time.
func (m *Store) AppendOverride(ctx context.Context, e runtime.OverrideEntry) (runtime.OverrideEntry, error) {
	if err := m.ready(ctx); err != nil {
		return runtime.OverrideEntry{}, err
	}
	if err := e.Validate(); err != nil {
		return runtime.OverrideEntry{}, err
	}
	m.mu.Lock()
	e = m.appendLocked(e)
	m.mu.Unlock()
	return e, m.OverrideView().Refresh(ctx)
}

func (m *Store) appendLocked(e runtime.OverrideEntry) runtime.OverrideEntry {
	e.ID = 1
	if n := len(m.log); n > 0 {
		e.ID = m.log[n-1].ID + 1
	}
	m.log = append(m.log, e)
	return e
}

// OverridesSince returns the entries after an id, in order, up to a page of them.
func (m *Store) OverridesSince(ctx context.Context, id int64) ([]runtime.OverrideEntry, error) {
	if err := m.ready(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	from, _ := slices.BinarySearchFunc(m.log, id, func(e runtime.OverrideEntry, id int64) int { return cmp.Compare(e.ID, id) })
	return slices.Clone(m.log[from:min(from+override.Page, len(m.log))]), nil
}

// OverrideHistory returns the entries of a key, or of a whole limit, in order.
func (m *Store) OverrideHistory(ctx context.Context, limit, key string) (entries []runtime.OverrideEntry, err error) {
	if err := m.ready(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.log {
		if e.Limit == limit && e.Key == key {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// OverrideView returns the overrides in force. All entries are written by this process, so that each is in force at once.
func (m *Store) OverrideView() *override.View {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.view == nil {
		m.view = override.New(override.Source{Since: m.OverridesSince, Now: m.now})
	}
	return m.view
}

// Forget deletes all rows of a limit that no longer exists, and returns how many. It also ends the limit's blocks and
// overrides, whose entries stay in the log. If one of the policies, which are those in use, has that name, the error is
// [runtime.ErrInUse], and nothing is deleted.
func (m *Store) Forget(ctx context.Context, name string, policies ...*runtime.Policy) (deleted int, err error) {
	if err := m.ready(ctx); err != nil {
		return 0, err
	}
	if err := registry.CheckForget(name, policies); err != nil {
		return 0, err
	}
	m.mu.Lock()
	before := len(m.rows)
	for row := range m.rows {
		if row.Name == name {
			delete(m.rows, row)
		}
	}
	deleted = before - len(m.rows)
	m.mu.Unlock()
	m.registered.Forget(name)
	view := m.OverrideView()
	if err := view.Refresh(ctx); err != nil {
		return deleted, err
	}
	for _, e := range view.Endings(name) {
		if _, err := m.AppendOverride(ctx, e); err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

// Erase implements [runtime.Eraser].
func (m *Store) Erase(ctx context.Context, limit, key string, why runtime.OverrideEnd) (done runtime.Erased, err error) {
	if err := m.ready(ctx); err != nil {
		return done, err
	}
	if err := override.CheckErase(limit, key); err != nil {
		return done, err
	}
	m.mu.Lock()
	if done, err = m.eraseLogLocked(erasure{limit, key, why}); err == nil {
		before := len(m.rows)
		maps.DeleteFunc(m.rows, func(row runtime.Row, _ runtime.State) bool { return row.Name == limit && row.Key == key })
		done.Rows = before - len(m.rows)
	}
	m.mu.Unlock()
	if err == nil && done.Entry.ID > 0 {
		err = m.OverrideView().Refresh(ctx)
	}
	return done, err
}

// erasureLocked returns the entry that records an erasure, and the indexes of the entries of the key.
func (m *Store) erasureLocked(of erasure) (entry runtime.OverrideEntry, at []int, err error) {
	var entries []runtime.OverrideEntry
	for i, e := range m.log {
		if e.Limit == of.limit && e.Key == of.key {
			at, entries = append(at, i), append(entries, e)
		}
	}
	entry, err = override.Erasure(of.limit, entries, of.why, m.now())
	return entry, at, err
}

// eraseLogLocked erases a key from the log.
func (m *Store) eraseLogLocked(of erasure) (done runtime.Erased, err error) {
	entry, at, err := m.erasureLocked(of)
	if err != nil || entry.What == "" {
		return done, err
	}
	for _, i := range at {
		e := &m.log[i]
		e.Key, e.Reason, e.Author = entry.Key, override.Blotted, override.Blotted
	}
	return runtime.Erased{Entries: len(at), Entry: m.appendLocked(entry)}, nil
}

// ErrTxConflict is the error of [Tx.Commit] if a key that was used in the transaction has changed outside of it:
// nothing was taken, and the transaction must be run again from its beginning.
var ErrTxConflict = errors.New("the transaction has conflicted with another request: run it again")

// errNoSQL is the error of every statement in a [Tx].
var errNoSQL = errors.New("a memstore.Tx has no database: run SQL statements in a transaction of one")

// Tx is a transaction of a [Store]. With it, code that takes tokens in its own transaction can be tested without a
// database, if it takes a [runtime.Tx] and not an [sql.Tx]:
//
//	tx := store.Begin()
//	err := limits.WithTx(tx).SendMessage(42).Require(ctx)
//	err = tx.Commit() // or tx.Rollback()
//
// Tokens are taken if and only if Commit returns nil; until then only the transaction counts them. A Tx locks nothing,
// where a database makes other requests for the same keys wait: such requests make Commit return [ErrTxConflict]. SQL
// statements in it are errors. It may be used by many goroutines at once.
type Tx struct {
	store *Store

	mu               sync.Mutex
	ended, committed bool
	// read has the rows that were used, as they were in the store, and written those that have changed.
	read, written map[runtime.Row]runtime.State
	// erased are the keys to be erased from the log.
	erased []erasure
}

// erasure is a key to be erased, and why.
type erasure struct {
	limit, key string
	why        runtime.OverrideEnd
}

// Begin returns a transaction, which ends with Commit or Rollback.
func (m *Store) Begin() *Tx {
	return &Tx{store: m, read: map[runtime.Row]runtime.State{}, written: map[runtime.Row]runtime.State{}}
}

// WithTx implements [runtime.TxStore]. The transaction must be one of Begin, of this store: otherwise the error of all
// calls is [runtime.ErrNoTx], or [runtime.ErrNilTx] for nil.
func (m *Store) WithTx(tx runtime.Tx) runtime.Store { return memTxStore{m, tx} }

// WithConn implements [runtime.TxStore]. There is no database, so that the error of all calls is [runtime.ErrNoTx], or
// [runtime.ErrNilTx] for nil.
func (m *Store) WithConn(conn *sql.Conn) runtime.Store { return memTxStore{m, conn} }

// memTxStore is a [Store] in a transaction.
type memTxStore struct {
	store *Store
	tx    any
}

// Do implements [runtime.Store].
func (s memTxStore) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	t, err := s.begun(ctx)
	if err != nil {
		return nil, err
	}
	return t.do(calls)
}

// Erase implements [runtime.Eraser].
func (s memTxStore) Erase(ctx context.Context, limit, key string, why runtime.OverrideEnd) (runtime.Erased, error) {
	t, err := s.begun(ctx)
	if err == nil {
		err = override.CheckErase(limit, key)
	}
	if err != nil {
		return runtime.Erased{}, err
	}
	return t.erase(erasure{limit, key, why})
}

// begun returns the transaction.
func (s memTxStore) begun(ctx context.Context) (*Tx, error) {
	t, ok := s.tx.(*Tx)
	switch v := reflect.ValueOf(s.tx); {
	case s.tx == nil || v.Kind() == reflect.Pointer && v.IsNil():
		return nil, runtime.ErrNilTx
	case !ok || t.store != s.store:
		return nil, fmt.Errorf("%w of a %T: pass one that the Begin of this memstore.Store has returned", runtime.ErrNoTx, s.tx)
	}
	return t, s.store.ready(ctx)
}

// OverridesSince implements [override.Reader].
func (s memTxStore) OverridesSince(ctx context.Context, id int64) ([]runtime.OverrideEntry, error) {
	return s.store.OverridesSince(ctx, id)
}

// OverrideView implements [override.Reader].
func (s memTxStore) OverrideView() *override.View { return s.store.OverrideView() }

// openLocked returns nil if the transaction has not ended.
func (t *Tx) openLocked() error {
	switch {
	case t.committed:
		return sql.ErrTxDone
	case t.ended:
		return fmt.Errorf("%w: %w", runtime.ErrRolledBack, sql.ErrTxDone)
	}
	return nil
}

// erase deletes the rows of a key, and has Commit erase it from the log.
func (t *Tx) erase(e erasure) (done runtime.Erased, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.openLocked(); err != nil {
		return done, err
	}
	t.store.mu.Lock()
	entry, entries, err := t.store.erasureLocked(e)
	rows := slices.Collect(maps.Keys(t.store.rows))
	t.store.mu.Unlock()
	if err != nil {
		return done, err
	}
	for _, row := range slices.AppendSeq(rows, maps.Keys(t.written)) {
		if row.Name != e.limit || row.Key != e.key {
			continue
		}
		// Read, so that Commit finds a change of it.
		if t.readLocked([]runtime.Row{row})[0].Exists {
			done.Rows++
		}
		t.written[row] = runtime.State{}
	}
	t.erased, done.Entries, done.Entry = append(t.erased, e), len(entries), entry
	return done, nil
}

func (t *Tx) do(calls []runtime.Call) ([]runtime.Answer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.openLocked(); err != nil {
		return nil, err
	}
	now, err := t.store.present()
	if err != nil {
		return nil, err
	}
	refused := t.store.registered.Refuse(calls)
	b := batch.New(refused.Admitted(calls))
	for !b.Run(now, t.readLocked(b.Rows())) {
	}
	for _, c := range b.Changes() {
		t.written[c.Row] = c.State
	}
	return refused.Answers(b.Answers()), nil
}

// readLocked returns rows as the transaction has left them.
func (t *Tx) readLocked(rows []runtime.Row) []runtime.State {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	states := make([]runtime.State, len(rows))
	for i, row := range rows {
		if _, ok := t.read[row]; !ok {
			t.read[row] = t.store.rows[row]
		}
		states[i] = t.read[row]
		if s, ok := t.written[row]; ok {
			states[i] = s
		}
	}
	return states
}

// Commit takes the tokens. The error is [ErrTxConflict], or [sql.ErrTxDone] if the transaction has ended already; then
// nothing is taken.
func (t *Tx) Commit() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return sql.ErrTxDone
	}
	t.ended = true
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	for row, s := range t.read {
		if t.store.rows[row] != s {
			return ErrTxConflict
		}
	}
	for _, e := range t.erased {
		if _, _, err := t.store.erasureLocked(e); err != nil {
			return ErrTxConflict // with an operator
		}
	}
	for _, e := range t.erased {
		t.store.eraseLogLocked(e)
	}
	for row, s := range t.written {
		t.store.writeLocked([]runtime.StoredRow{{Row: row, State: s}})
	}
	t.committed = true
	return nil
}

// Rollback ends the transaction and takes nothing. The error is [sql.ErrTxDone] if it has ended already.
func (t *Tx) Rollback() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return sql.ErrTxDone
	}
	t.ended = true
	return nil
}

// ExecContext implements [runtime.Tx]. It returns an error, because there is no database.
func (t *Tx) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	return nil, errNoSQL
}

// QueryContext implements [runtime.Tx]. It returns an error, because there is no database.
func (t *Tx) QueryContext(context.Context, string, ...any) (*sql.Rows, error) {
	return nil, errNoSQL
}

// QueryRowContext implements [runtime.Tx]. The Scan of its result returns an error, because there is no database.
func (t *Tx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	// Only a database can make an sql.Row.
	db := sql.OpenDB(noDatabase{})
	defer db.Close()
	return db.QueryRowContext(ctx, query, args...)
}

// noDatabase is a database that cannot be reached.
type noDatabase struct{}

func (noDatabase) Connect(context.Context) (driver.Conn, error) { return nil, errNoSQL }
func (noDatabase) Driver() driver.Driver                        { return nil }

// Rows implements [runtime.RowLister]. It sorts all rows of the limit.
func (m *Store) Rows(ctx context.Context, after runtime.Row, limit int) ([]runtime.StoredRow, int64, error) {
	if err := m.ready(ctx); err != nil {
		return nil, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var rows []runtime.StoredRow
	for row, state := range m.rows {
		if row.Name == after.Name && row.Compare(after) > 0 {
			rows = append(rows, runtime.StoredRow{Row: row, State: state})
		}
	}
	slices.SortFunc(rows, func(a, b runtime.StoredRow) int { return a.Row.Compare(b.Row) })
	return rows[:max(0, min(limit, runtime.RowPage, len(rows)))], m.now(), nil
}
