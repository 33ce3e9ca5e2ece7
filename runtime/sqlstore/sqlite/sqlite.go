// Package sqlite keeps the counts of rate limits in an embedded SQLite database, a file that any number of
// processes on one machine may share. It is pure Go, and the only package of this module that imports the
// driver modernc.org/sqlite.
//
// # Durability
//
// If a process is killed, the tokens that it has reported as taken stay taken. The database is in WAL mode with
// synchronous NORMAL: if the machine itself loses power, the counts of the last moments may be lost, so that
// limits repeat these moments. In exchange a decision costs some tens of microseconds, not a disk flush. That is
// the default because a machine without power admits no requests, and after it restarts the limits apply again; for
// counts that must survive even that, set the limit's durability to full.
//
// # The file
//
// SQLite keeps a write-ahead log (-wal) and its index (-shm) beside the file, named after its path. So every program must
// open the file by the same path, or by symbolic links to it, and the directory must hold all three. A file with several
// hard links is refused, and on Linux one that is mounted without its directory. If the file, the log or the index is
// deleted, replaced or linked while it is open, the store detects that within a tenth of a second, and calls fail until it
// is undone, or the file is opened again; tokens that a lease has taken before can still be spent.
//
// If another program truncates the log, the counts that only the log has are lost. An empty log is detected within eight
// calls, and one that is shorter than before within a tenth of a second, unless it has grown to its old size meanwhile.
// Calls fail then until every program that uses the file has been restarted. Close leaves the connection open, because
// SQLite would copy what is left of the log into the file.
//
// Only the owner of a new file may read and write it, its log and its index (mode 0600). An existing file keeps its mode,
// which new logs get too.
//
// The connection keeps the rows that it has used last in memory, at most 65,536, and reads a row again once anyone else has
// written to the file. So a trigger on the table of counts must not change other counts.
//
// Rows have numbers, by which they are updated. In a file of an earlier version, Open replaces the table by one with
// numbers, in one transaction: some 2 seconds for 1,000,000 rows, in which other programs wait, and room on the volume for
// twice the table. Programs of that version may use the file before and after that.
//
// The log takes up to 8 MB on the volume, or an eighth of the free space there if that is less, and more as long as a
// reader keeps a transaction open.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/decide"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/inside"
)

// Store is an [sqlstore.Store] with a database of its own.
type Store struct {
	*sqlstore.Store
	db *sql.DB
	// guard is nil for a database in memory.
	guard *guard
	log   logSize
	// connections counts the connections that the pool has opened, one in most programs.
	connections atomic.Int64
}

// connector opens the connections of a store.
type connector struct {
	driver.Connector
	store *Store
	table string
}

// Connect implements [driver.Connector]. Settings and files of an earlier connection do not apply to the new one.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	c.store.connections.Add(1)
	c.store.log.pages.Store(0)
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &connection{sqliteConn: conn.(sqliteConn), table: c.table}, nil
}

// Open opens the database file at path, and creates it and its table if they do not exist. The directory must exist. The
// table of overrides is created when a limit with overrides is first used, or an operator first changes a count. The path
// is never parsed as a URI. The path ":memory:" is a database in memory, which is lost when it is closed.
func Open(path string) (*Store, error) { return OpenWith(path, sqlstore.Options{}) }

// OpenWith is Open with options.
func OpenWith(path string, o sqlstore.Options) (*Store, error) {
	return openDecidedBy(path, o, nil)
}

// openDecidedBy is OpenWith for tests with a decider of their own.
func openDecidedBy(path string, o sqlstore.Options, by decide.Decider) (*Store, error) {
	s, err := open(path, o, by)
	if err != nil {
		return nil, fmt.Errorf("open rate limits in %q: %w", path, err)
	}
	return s, nil
}

func open(path string, o sqlstore.Options, by decide.Decider) (*Store, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	if path != memory {
		// A connection may be opened again when the program has changed its working directory.
		var err error
		if path, err = filepath.Abs(path); err != nil {
			return nil, err
		}
	}
	base, err := sqlite.NewConnector(dsn(path))
	if err != nil {
		return nil, err
	}
	s := &Store{}
	db := sql.OpenDB(connector{base, s, o.Table})
	// SQLite has one writer at a time. With one connection, goroutines wait for it in their order,
	// and not in SQLite's busy loop.
	db.SetMaxOpenConns(1)
	s.db = db
	if by == nil {
		by = decider{db}
	}
	if err := s.prepare(path, o, by); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// prepare creates the table and checks it.
func (s *Store) prepare(path string, o sqlstore.Options, by decide.Decider) (err error) {
	ctx := context.Background()
	if s.Store, err = sqlstore.NewInside(s.db, o, inside.Options{Dialect: dialect.SQLite, AutoCreate: true, Decider: by, Pages: decider{s.db}, Guard: s.check}); err != nil {
		return err
	}
	if path != memory {
		create(path)
		// Before the first write, because the log's volume may be nearly full.
		s.log.folder = filepath.Dir(path)
		s.log.fit(ctx, s.db)
	}
	if err := s.Migrate(ctx); err != nil {
		return err
	}
	if err := s.Store.Ready(ctx); err != nil {
		return err
	}
	if err := convert(ctx, s.db, cmp.Or(o.Table, dialect.DefaultTable)); err != nil {
		return err
	}
	if path == memory {
		return nil
	}
	// Ready has used the connection, so that the log and its index exist.
	s.guard, err = newGuard(path, &s.connections, s.db)
	return err
}

var creating sync.Mutex

// create creates a missing file so that only its owner may read the keys; SQLite would let all users read it, and gives the
// log and its index the mode of the file. An error is left to SQLite, which says more. To close a file ends all locks of
// this process on it, so no other Open may use the file by then.
func create(path string) {
	creating.Lock()
	defer creating.Unlock()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err == nil {
		file.Close()
	}
}

// check compares the files, before each operation of the store.
func (s *Store) check(ctx context.Context) error {
	compared, err := s.guard.check()
	if compared && err == nil {
		// Only together with the comparison, so that most calls make no system call.
		s.log.fit(ctx, s.db)
	}
	return err
}

// Ready is [sqlstore.Store.Ready], and compares the file at once, which other calls do every tenth of a second.
func (s *Store) Ready(ctx context.Context, policies ...*runtime.Policy) error {
	s.compareNow()
	return s.Store.Ready(ctx, policies...)
}

// Start is [sqlstore.Store.Start], and compares the file at once, as Ready does.
func (s *Store) Start(ctx context.Context, policies ...*runtime.Policy) error {
	s.compareNow()
	return s.Store.Start(ctx, policies...)
}

// compareNow makes the next operation compare the file.
func (s *Store) compareNow() {
	if s.guard != nil {
		s.guard.due.Store(0)
	}
}

// Close closes the database. Its counts stay in the file.
func (s *Store) Close() error {
	err := s.Store.Close()
	if s.db == nil {
		// A zero Store.
		return err
	}
	if s.guard == nil {
		return errors.Join(err, s.db.Close())
	}
	s.guard.close()
	if s.guard.isLost() {
		// The last connection copies the log into the file when it is closed, with zeros where it was truncated.
		return errors.Join(err, *s.guard.problem.Load())
	}
	return errors.Join(err, s.db.Close())
}

const memory = ":memory:"

// checkPath returns a clearer error than SQLite for a path that cannot be a file.
func checkPath(path string) error {
	if path == "" {
		return errors.New("the path is empty")
	}
	if strings.ContainsRune(path, 0) {
		return errors.New("the path has a NUL byte in it, at which SQLite would cut it")
	}
	if os.IsPathSeparator(path[len(path)-1]) {
		return errors.New("the path ends in a slash, so it names a directory and not a file")
	}
	if path == memory {
		return nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return errors.New("it is not a regular file")
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("its directory must exist and be accessible: %w", err)
	}
	return checkNames(path)
}

// dsn returns the data source name for a path with any characters in it.
//
// Transactions lock the database when they begin (_txlock=immediate). SQLite waits only 10 ms for another process's lock,
// because it ignores contexts; the store retries. A log that a long reader has made larger than 16 MB is truncated to that
// when it restarts. See logSize for its usual size. At most 16 MB of the file are kept in memory: with 2 MB, which is
// SQLite's default, 10,000 keys of 200,000 in use cost 1.2 times as much. A statement that writes several rows in a
// transaction keeps what they were until it ends: in memory, where that costs new keys a quarter less.
func dsn(path string) string {
	options := url.Values{
		"_pragma": {"busy_timeout(10)", "journal_mode(WAL)", "synchronous(NORMAL)", "journal_size_limit(16777216)",
			"temp_store(MEMORY)", "cache_size(-16384)"},
		"_txlock": {"immediate"},
	}
	if path != memory {
		path = (&url.URL{Path: filepath.ToSlash(filepath.Clean(path))}).EscapedPath()
	}
	return "file:" + path + "?" + options.Encode()
}
