// Package river schedules work by a limit: a job waits in a queue until the tokens that it needs can be used. The tokens are
// reserved, and the job is inserted, in one transaction, with River as the queue; the worker settles for the tokens it has
// used in the transaction that completes the job. It is a module of its own, so that programs with limits do not depend on
// River.
package river

import (
	"context"
	"database/sql"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// Completion is a job that sends a prompt to a model.
type Completion struct {
	Team   string `json:"team"`
	Model  string `json:"model"`
	Prompt string `json:"prompt"`
	// Reservation is the tokens of the job, as text.
	Reservation string `json:"reservation"`
}

// Kind implements [river.JobArgs].
func (Completion) Kind() string { return "completion" }

// Queue inserts jobs.
type Queue struct {
	DB     *sql.DB
	Limits *limits.Limits
	Client *river.Client[*sql.Tx]
}

// Enqueue reserves tokens, and inserts the job for the instant at which they can be used. If too many are reserved already,
// the error is a [*limits.LimitedError], and neither has happened.
func (q *Queue) Enqueue(ctx context.Context, job Completion, tokens int64) error {
	return sqlstore.RunInTx(ctx, q.DB, func(tx *sql.Tx) error {
		r, err := q.Limits.WithTx(tx).LLMTokens(job.Team, job.Model).ReserveN(ctx, tokens)
		if err != nil {
			return err
		}
		if err := r.Err(); err != nil {
			return err
		}
		text, err := r.MarshalText()
		if err != nil {
			return err
		}
		job.Reservation = string(text)
		_, err = q.Client.InsertTx(ctx, tx, job, &river.InsertOpts{ScheduledAt: r.At()})
		return err
	})
}

// Worker works the jobs.
type Worker struct {
	river.WorkerDefaults[Completion]
	DB     *sql.DB
	Limits *limits.Limits
	// Complete sends the prompt, and returns how many tokens it has used, also with an error.
	Complete func(context.Context, Completion) (used int64, err error)
}

// Work completes a job. It settles in the transaction that completes the job, so that it settles once, however often the job
// is tried. A job that fails for good gives its tokens back; River records that failure later, so that a crash in between
// may give them back twice.
func (w *Worker) Work(ctx context.Context, job *river.Job[Completion]) error {
	used, failed := w.Complete(ctx, job.Args)
	if failed != nil && job.Attempt < job.MaxAttempts {
		return failed // River tries again, with the same reservation
	}
	err := sqlstore.RunInTx(ctx, w.DB, func(tx *sql.Tx) error {
		r, err := w.Limits.WithTx(tx).LLMTokens(job.Args.Team, job.Args.Model).Resume([]byte(job.Args.Reservation))
		if err != nil {
			return err
		}
		if err := r.Settle(ctx, used); err != nil || failed != nil {
			return err
		}
		_, err = river.JobCompleteTx[*riverdatabasesql.Driver](ctx, tx, job)
		return err
	})
	if err != nil {
		return err
	}
	return failed
}
