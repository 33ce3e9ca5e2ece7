package conn

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
)

// killer ends statements of MySQL that take too long, by other connections.
type killer struct {
	db               *sql.DB
	statements, kill string
}

// run runs a statement on a session that nothing else uses until run has returned, because a late KILL would end the next
// statement.
func (k *killer) run(ctx context.Context, text string, run func(text string) error) error {
	tag := fmt.Sprintf("/* ratelimitgen %016x%016x */", rand.Uint64(), rand.Uint64())
	finding, found := context.WithCancel(context.WithoutCancel(ctx))
	defer found()
	ended := make(chan struct{})
	timer := time.AfterFunc(bounds.LockWait, func() {
		defer close(ended)
		k.end(finding, tag)
	})
	err := run(tag + " " + text)
	if !timer.Stop() {
		found()
		<-ended
	}
	return err
}

// end ends the statement with a tag. The context is that of finding it.
func (k *killer) end(ctx context.Context, tag string) {
	ctx, cancel := context.WithTimeout(ctx, bounds.KillTimeout)
	defer cancel()
	id, err := k.find(ctx, tag)
	if err != nil || id == "" || ctx.Err() != nil {
		return
	}
	// The statement may have ended meanwhile; its session is idle then, which MySQL ignores.
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), bounds.KillTimeout)
	defer cancel()
	_, _ = k.db.ExecContext(ctx, k.kill+id)
}

// find returns the number of the session that executes the statement with a tag, or "".
func (k *killer) find(ctx context.Context, tag string) (id string, err error) {
	rows, err := k.db.QueryContext(ctx, k.statements)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return "", err
	}
	columns := make([]any, len(names))
	var session, text sql.RawBytes
	for i, name := range names {
		switch name {
		case "Id":
			columns[i] = &session
		case "Info":
			columns[i] = &text
		default:
			columns[i] = new(sql.RawBytes)
		}
	}
	for rows.Next() {
		if err := rows.Scan(columns...); err != nil {
			return "", err
		}
		if strings.HasPrefix(string(text), tag) {
			return string(session), nil
		}
	}
	return "", rows.Err()
}
