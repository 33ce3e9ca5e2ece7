package sqlstore

import (
	"context"
	"errors"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// fullCodes are the codes of SQLite for a volume without room: SQLITE_FULL, and SQLITE_IOERR_WRITE and
// SQLITE_IOERR_SHMSIZE, which a quota and the log's index end in.
var fullCodes = []int{13, 778, 4874}

// volumeFull reports whether a statement has failed, and done nothing, because there was no room for it.
func volumeFull(err error) bool {
	var coded interface{ Code() int }
	return errors.As(err, &coded) && slices.Contains(fullCodes, coded.Code())
}

// withRoom runs fn, and runs it again if the volume was full and the database could make room: a log that keeps the
// changes of thousands of transactions fills a small volume although the table would fit ten times.
func (s *Store) withRoom(ctx context.Context, fn func() error) error {
	err := fn()
	if s.dialect.Reclaim == "" || !volumeFull(err) {
		return err
	}
	if _, reclaimErr := s.db.ExecContext(ctx, s.dialect.Reclaim); reclaimErr != nil {
		return err
	}
	return fn()
}

// askWithRoom answers calls. What was answered before the volume was full is not asked again.
func (s *Store) askWithRoom(ctx context.Context, calls []runtime.Call) (answers []runtime.Answer, err error) {
	err = s.withRoom(ctx, func() error {
		if answers == nil {
			answers, err = s.ask(ctx, calls, outdatedTries)
			return err
		}
		return fill(answers, unanswered(answers), calls, func(rest []runtime.Call) ([]runtime.Answer, error) {
			return s.ask(ctx, rest, outdatedTries)
		})
	})
	return answers, err
}

// unanswered returns the places of the calls that have no answer.
func unanswered(answers []runtime.Answer) (at []int) {
	for i, a := range answers {
		if !a.Given() {
			at = append(at, i)
		}
	}
	return at
}
