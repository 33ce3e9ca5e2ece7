package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
)

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
