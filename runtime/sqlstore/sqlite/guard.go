package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// guardEvery is how often the files are looked at, at most: three calls of stat take some microseconds, as much as a
// fifth of a decision.
const guardEvery = 100 * time.Millisecond

// connectTimeout is how long a connection is waited for when the log is missing.
const connectTimeout = time.Second

// guard notices that the file of an open database is no longer the one that others open by its path. Each side would
// then grant all of a limit's tokens.
type guard struct {
	// path is the one given, made absolute, and real is the same without symbolic links: SQLite names the log and its
	// index after that.
	path, real string
	// opened are the file, the log and the index that were opened.
	opened [len(suffixes)]os.FileInfo

	// connections counts those that the pool has opened, and learnt is how many there were when opened was filled: the
	// log and its index are new if the only connection was closed in between.
	connections *atomic.Int64
	learnt      int64
	// connect has the pool open a connection if it has none.
	connect func(context.Context) error

	start time.Time
	// due is when the files are to be looked at again, in nanoseconds since start.
	due atomic.Int64
	mu  sync.Mutex
	// problem is what was found last.
	problem atomic.Pointer[error]
}

// suffixes are those of the file, the log and the index. While the database is open, nobody but a person deletes them:
// SQLite does so when the last connection to it is closed.
var suffixes = [...]string{"", "-wal", "-shm"}

// checkNames returns an error for a file that others may open by another name, with another log. It is nil for a
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
		return fmt.Errorf("the database file %q is mounted by itself: its log %q stays outside of the mount, so programs on both "+
			"sides count apart; mount its folder instead", path, real+"-wal")
	}
	return nil
}

func checkLinks(path string, info os.FileInfo) error {
	if n := links(info); n > 1 {
		return fmt.Errorf("the database file %q has %d names (hard links): SQLite keeps a log beside each, so programs that open "+
			"it by different names count apart; delete the other names, and use symbolic links instead", path, n)
	}
	return nil
}

// newGuard returns the guard of a database that has been opened, and has been written to or read.
func newGuard(path string, connections *atomic.Int64, connect func(context.Context) error) (*guard, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	g := &guard{path: path, real: real, connections: connections, connect: connect, start: time.Now()}
	if g.opened[0], err = os.Stat(path); err != nil {
		return nil, err
	}
	return g, g.look()
}

// learn notes which log and index there are, if a connection was opened since. A connection that has done nothing yet may
// have none.
func (g *guard) learn() {
	n := g.connections.Load()
	if n == g.learnt {
		return
	}
	var errs [len(suffixes)]error
	for i, suffix := range suffixes[1:] {
		g.opened[1+i], errs[i] = os.Stat(g.real + suffix)
	}
	if errors.Join(errs[:]...) == nil {
		g.learnt = n
	}
}

// check returns what is wrong with the files, if anything is, and whether it has looked at them just now. A nil guard
// is that of a database in memory.
func (g *guard) check() (looked bool, err error) {
	if g == nil {
		return false, nil
	}
	if now, due := int64(time.Since(g.start)), g.due.Load(); now >= due && g.due.CompareAndSwap(due, now+int64(guardEvery)) {
		return true, g.look()
	}
	if problem := g.problem.Load(); problem != nil {
		return false, *problem
	}
	return false, nil
}

// look looks at the files, and keeps what it has found for check.
func (g *guard) look() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, err := g.compare()
	if err != nil && at > 0 {
		// With the last connection the log goes too, and then nothing is wrong. If the file is gone, a new connection
		// would begin another.
		before := g.connections.Load()
		ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
		defer cancel()
		if g.connect(ctx) == nil && g.connections.Load() != before {
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

// compare compares the files with those that were opened, and returns the place in suffixes of one that differs.
func (g *guard) compare() (at int, err error) {
	g.learn()
	for i, suffix := range suffixes {
		path := g.real + suffix
		if i == 0 {
			path = g.path
		}
		if g.opened[i] == nil {
			continue
		}
		there, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return i, fmt.Errorf("the file %q was deleted or moved while the database was open, so that other programs would count "+
				"apart: put it back, or restart every program that uses the database", path)
		case err != nil:
			return i, fmt.Errorf("the database is open, but its file cannot be found any more: %w", err)
		case !os.SameFile(there, g.opened[i]):
			return i, fmt.Errorf("the file %q was replaced while the database was open, so that other programs count apart: restart "+
				"every program that uses the database, and stop them before its file is replaced", path)
		case i == 0:
			if err := checkLinks(path, there); err != nil {
				return i, err
			}
		}
	}
	return 0, nil
}

// mounted reports whether a file is a mount point by itself, as with "docker run -v /data/limits.db:/limits.db".
func mounted(path string) bool {
	// Without /proc nothing can be known.
	table, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 && mountPoint.Replace(fields[4]) == path {
			return true
		}
	}
	return false
}

// mountPoint decodes what the kernel writes in place of spaces, tabs, newlines and backslashes.
var mountPoint = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// logSize keeps the log small enough for its volume. SQLite copies the log into the file when it has so many pages, and
// then begins it again; to copy it, there must be room for the pages by which the file has grown.
type logSize struct {
	folder string
	// pages is what the connection was last told, 0 for one that was told nothing.
	pages atomic.Int64
}

const (
	pageSize = 4096
	// mostPages is 8 MB. With half of it, decisions wait for the disk twice as often; with twice as much, they are no
	// faster.
	mostPages = 2048
	// leastPages keeps a volume that is nearly full from copying after every few decisions.
	leastPages = 64
	// logShare is how often the log should fit into what is free on the volume.
	logShare = 8
)

// fit tells SQLite after how many pages to copy the log, if that has changed. If it cannot, the log stays as it was.
func (l *logSize) fit(ctx context.Context, db *sql.DB) {
	pages := int64(mostPages)
	for bytes, known := free(l.folder); known && pages > leastPages && uint64(pages)*pageSize*logShare > bytes; {
		pages /= 2
	}
	if l.pages.Load() == pages {
		return
	}
	if _, err := db.ExecContext(ctx, fmt.Sprintf("PRAGMA wal_autocheckpoint(%d)", pages)); err == nil {
		l.pages.Store(pages)
	}
}
