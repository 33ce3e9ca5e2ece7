package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
)

// logCalls is after how many calls to look at the log, which costs half a microsecond: fewer than write so many pages that
// SQLite begins the log from the start, after which nothing would show that it was emptied.
const logCalls = 8

// guard detects that the file of an open database is no longer the one that other programs open by its path. Each side
// would then grant all of a limit's tokens.
type guard struct {
	// path is the absolute path, and real is the path without symbolic links, after which SQLite names the log and its
	// index.
	path, real string
	// opened are the file, the write-ahead log (-wal) and its index (-shm) that were opened.
	opened [len(suffixes)]os.FileInfo

	// connections counts the connections that the pool has opened, and statAt is the count when opened was set: the
	// log and its index are new if the only connection was closed in between.
	connections *atomic.Int64
	statAt      int64
	// log is the opened log, and logged its size at the last check. It shrinks rarely. To close it ends no lock, unlike the
	// file and the index.
	log    atomic.Pointer[os.File]
	logged int64
	// calls counts those between two looks at the log.
	calls atomic.Int64
	// lost is set when the log was found to be truncated, for good: what SQLite reads from it from then on may be anything.
	lost error
	db   *sql.DB

	start time.Time
	// due is when to check the files again, in nanoseconds since start.
	due atomic.Int64
	mu  sync.Mutex
	// problem is the result of the last check.
	problem atomic.Pointer[error]
}

// suffixes are those of the file, the log and the index. SQLite deletes the log and the index only when the last
// connection to the database is closed.
var suffixes = [...]string{"", "-wal", "-shm"}

// checkNames returns an error for a file that other programs may open by another name, with another log, and nil for a
// file that does not exist.
func checkNames(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := checkLinks(path, info); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if mounted(real) {
		return fmt.Errorf("the database file %q is mounted by itself: its write-ahead log %q stays outside of the mount, so "+
			"programs on both sides keep separate counts; mount its directory instead", path, real+"-wal")
	}
	return nil
}

func checkLinks(path string, info os.FileInfo) error {
	if n := links(info); n > 1 {
		return fmt.Errorf("the database file %q has %d names (hard links): SQLite keeps a write-ahead log (-wal) beside each, so "+
			"programs that open it by different names keep separate counts; delete the other names, and use symbolic links "+
			"instead", path, n)
	}
	return nil
}

// newGuard returns the guard of an open database. The log exists only after the first read or write.
func newGuard(path string, connections *atomic.Int64, db *sql.DB) (*guard, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	g := &guard{path: path, real: real, connections: connections, db: db, start: time.Now()}
	if g.opened[0], err = os.Stat(path); err != nil {
		return nil, err
	}
	return g, g.compareNow()
}

// statNew records the log and the index if a connection was opened since.
func (g *guard) statNew() {
	n := g.connections.Load()
	if n == g.statAt {
		return
	}
	var errs [len(suffixes)]error
	for i, suffix := range suffixes[1:] {
		g.opened[1+i], errs[i] = os.Stat(g.real + suffix)
	}
	g.close()
	g.logged = 0
	if log, err := os.Open(g.real + suffixes[1]); err == nil {
		g.log.Store(log)
	}
	// A connection that has done nothing yet may have no log: then try again at the next check.
	if errors.Join(errs[:]...) == nil {
		g.statAt = n
	}
}

// check returns the problem with the files, if there is one, and whether it has compared them just now. A nil guard
// is that of a database in memory.
func (g *guard) check() (compared bool, err error) {
	if g == nil {
		return false, nil
	}
	if now, due := int64(time.Since(g.start)), g.due.Load(); now >= due && g.due.CompareAndSwap(due, now+int64(bounds.GuardEvery)) {
		return g.compareUnlessBusy()
	}
	if err := g.known(); err != nil {
		return false, err
	}
	if log := g.log.Load(); log != nil && g.calls.Add(1)%logCalls == 0 && !hasHeader(log) {
		return g.compareUnlessBusy()
	}
	return false, nil
}

// compareUnlessBusy compares the files, unless another call does: then it returns what is known, so that calls do not wait
// for one another's comparison, which may take [bounds.GuardTimeout].
func (g *guard) compareUnlessBusy() (compared bool, err error) {
	if g.mu.TryLock() {
		defer g.mu.Unlock()
		return true, g.compareLocked()
	}
	return false, g.known()
}

// known returns the problem that the last comparison has found, or nil.
func (g *guard) known() error {
	if problem := g.problem.Load(); problem != nil {
		return *problem
	}
	return nil
}

// compareNow compares the files, and keeps the result for check.
func (g *guard) compareNow() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.compareLocked()
}

func (g *guard) compareLocked() error {
	at, err := g.compare()
	if err == nil && g.lost == nil {
		g.lost = g.truncated()
	}
	if g.lost != nil {
		g.problem.Store(&g.lost)
		return g.lost
	}
	if err != nil && at > 0 {
		// SQLite deletes the log with the last connection, and then nothing is wrong: a new connection makes another one. If
		// the file itself is gone, a connection would make an empty one, so none is opened then.
		before := g.connections.Load()
		ctx, cancel := context.WithTimeout(context.Background(), bounds.GuardTimeout)
		defer cancel()
		if g.db.PingContext(ctx) == nil && g.connections.Load() != before {
			_, err = g.compare()
		}
	}
	if err == nil {
		g.problem.Store(nil)
	} else {
		g.problem.Store(&err)
	}
	return err
}

// compare compares the files with those that were opened, and returns the index in suffixes of one that differs.
func (g *guard) compare() (at int, err error) {
	g.statNew()
	for i, suffix := range suffixes {
		path := g.real + suffix
		if i == 0 {
			path = g.path
		}
		if g.opened[i] == nil {
			// The connection has not made it yet: see statNew.
			continue
		}
		there, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return i, fmt.Errorf("the file %q was deleted or moved while the database was open, so that other programs would keep "+
				"separate counts: put it back, or restart every program that uses the database", path)
		case err != nil:
			return i, fmt.Errorf("cannot find the database file %q: check its directory and permissions: %w", path, err)
		case !os.SameFile(there, g.opened[i]):
			return i, fmt.Errorf("the file %q was replaced while the database was open, so that other programs keep separate "+
				"counts: restart every program that uses the database, and stop them before its file is replaced", path)
		case i == 0:
			if err := checkLinks(path, there); err != nil {
				return i, err
			}
		}
	}
	return 0, nil
}

// truncated returns an error if another program has truncated the log, and changes that only the log has are lost with it.
// SQLite goes on writing behind the end that it remembers, so that the log begins with zeros then.
//
// SQLite truncates the log too, as far as it does not need it any more, and so may any program that asks SQLite to.
func (g *guard) truncated() error {
	log := g.log.Load()
	if log == nil {
		return nil
	}
	size := sizeOf(log)
	shrunk := size < g.logged
	if g.logged = size; !shrunk && hasHeader(log) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), bounds.GuardTimeout)
	defer cancel()
	// Twice, because another process may have SQLite truncate the log between two statements.
	before := int64(0)
	for range 2 {
		used, err := g.logUsed(ctx)
		if err != nil || used == 0 || before > 0 && used != before || hasHeader(log) && sizeOf(log) >= used {
			return nil
		}
		before = used
	}
	return fmt.Errorf("the file %q was truncated by another program while the database was open, so that the counts of the last moments are "+
		"lost: restart every program that uses the database, and leave the log to SQLite", log.Name())
}

// isLost reports whether the log was truncated.
func (g *guard) isLost() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lost != nil
}

// logUsed returns how many bytes of the log SQLite uses, by its index.
func (g *guard) logUsed(ctx context.Context) (bytes int64, err error) {
	var busy, frames, copied, page int64
	if err := g.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(NOOP)").Scan(&busy, &frames, &copied); err != nil || frames <= 0 {
		return 0, err
	}
	err = g.db.QueryRowContext(ctx, "PRAGMA page_size").Scan(&page)
	const header, frameHeader = 32, 24
	return header + frames*(frameHeader+page), err
}

func sizeOf(log *os.File) int64 {
	if info, err := log.Stat(); err == nil {
		return info.Size()
	}
	return 0
}

// hasHeader reports whether a log begins as all logs of SQLite do.
func hasHeader(log *os.File) bool {
	const magic = 0x377f0682 // or one more
	var first [4]byte
	_, err := log.ReadAt(first[:], 0)
	return err == nil && binary.BigEndian.Uint32(first[:])&^1 == magic
}

// close closes the log.
func (g *guard) close() {
	if log := g.log.Swap(nil); log != nil {
		log.Close()
	}
}

// mounted reports whether a file is a mount point by itself, as with "docker run -v /data/limits.db:/limits.db".
func mounted(path string) bool {
	// Other systems than Linux do not have the file: there, no mount is detected.
	table, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 && mountPoint.Replace(fields[4]) == path {
			return true
		}
	}
	return false
}

// mountPoint decodes the kernel's escapes of spaces, tabs, newlines and backslashes.
var mountPoint = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// logSize keeps the log small enough for its volume. SQLite copies the log into the file when it has a number of pages, and
// then restarts it; copying needs room for the pages by which the file grows.
type logSize struct {
	folder string
	// pages is the setting of the connection, or 0 if it has none yet.
	pages atomic.Int64
}

const (
	pageSize = 4096
	// maxPages is 8 MB. With half of it, decisions wait for the disk twice as often; with twice as much, they are no
	// faster.
	maxPages = 2048
	// minPages keeps a volume that is nearly full from copying after every few decisions.
	minPages = 64
	// logShare is how often the log should fit into the free space of the volume.
	logShare = 8
)

// fit sets after how many pages SQLite copies the log, if that has changed. If it fails, the old setting stays.
func (l *logSize) fit(ctx context.Context, db *sql.DB) {
	pages := int64(maxPages)
	for bytes, known := free(l.folder); known && pages > minPages && uint64(pages)*pageSize*logShare > bytes; {
		pages /= 2
	}
	if l.pages.Load() == pages {
		return
	}
	// A call without a deadline must not wait for the only connection for ever.
	ctx, cancel := context.WithTimeout(ctx, bounds.GuardTimeout)
	defer cancel()
	if _, err := db.ExecContext(ctx, fmt.Sprintf("PRAGMA wal_autocheckpoint(%d)", pages)); err == nil {
		l.pages.Store(pages)
	}
}
