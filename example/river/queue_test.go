package river

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"os"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
)

// world is a database of its own with the tables of the limits and of River.
type world struct {
	db     *sql.DB
	limit  *limits.Limits
	queue  *Queue
	worker *Worker
	events <-chan *river.Event
}

// database creates an empty database, which is dropped after the test.
func database(t *testing.T) *sql.DB {
	t.Helper()
	const name = "ratelimitgen_river"
	dsn := cmp.Or(os.Getenv("RATELIMITGEN_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test?sslmode=disable")
	admin, err := sql.Open("pgx", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, admin.Close()) })
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + name + " WITH (FORCE)", "CREATE DATABASE " + name} {
		_, err = admin.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	db, err := sql.Open("pgx", dsn+"&database="+name)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, db.Close())
		_, err := admin.ExecContext(context.Background(), "DROP DATABASE "+name)
		require.NoError(t, err)
	})
	return db
}

// start starts a worker of jobs that complete makes.
func start(t *testing.T, complete func(context.Context, Completion) (int64, error)) *world {
	t.Helper()
	w := &world{db: database(t)}
	driver := riverdatabasesql.New(w.db)
	migrator, err := rivermigrate.New(driver, nil)
	require.NoError(t, err)
	_, err = migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
	require.NoError(t, err)

	store, err := sqlstore.New(w.db, dialect.Postgres, sqlstore.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	require.NoError(t, store.Migrate(t.Context(), limits.Policies()...))
	w.limit = limits.New(store)

	w.worker = &Worker{DB: w.db, Limits: w.limit, Complete: complete}
	workers := river.NewWorkers()
	river.AddWorker(workers, w.worker)
	client, err := river.NewClient(driver, &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}}, Workers: workers, MaxAttempts: 2,
		FetchPollInterval: 50 * time.Millisecond, FetchCooldown: 50 * time.Millisecond, RetryPolicy: atOnce{},
	})
	require.NoError(t, err)
	w.queue = &Queue{DB: w.db, Limits: w.limit, Client: client}
	events, unsubscribe := client.Subscribe(river.EventKindJobCompleted, river.EventKindJobFailed)
	t.Cleanup(unsubscribe)
	w.events = events
	require.NoError(t, client.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, client.Stop(context.Background())) })
	return w
}

// atOnce retries without a pause.
type atOnce struct{}

func (atOnce) NextRetry(*rivertype.JobRow) time.Time { return time.Now() }

// used returns how many tokens are missing.
func (w *world) used(t *testing.T) int64 {
	t.Helper()
	b, err := w.limit.LLMTokens("acme", "large").Peek(t.Context())
	require.NoError(t, err)
	return b.Used
}

// next returns the next event of a job.
func (w *world) next(t *testing.T) *river.Event {
	t.Helper()
	select {
	case e := <-w.events:
		return e
	case <-time.After(30 * time.Second):
		require.Fail(t, "no job has ended")
		return nil
	}
}

// capacity is that of the limit, of which 40,000 accrue in a minute.
const capacity = 40_000

func TestJobSettlesForWhatItHasUsed(t *testing.T) {
	w := start(t, func(context.Context, Completion) (int64, error) { return 100, nil })
	require.NoError(t, w.queue.Enqueue(t.Context(), Completion{Team: "acme", Model: "large"}, capacity))
	assert.Equal(t, rivertype.JobStateCompleted, w.next(t).Job.State)
	assert.LessOrEqual(t, w.used(t), int64(100))
}

// A job that needs tokens in advance waits for them in the queue.
func TestJobIsScheduledForItsTokens(t *testing.T) {
	w := start(t, func(context.Context, Completion) (int64, error) { return 0, nil })
	require.NoError(t, w.limit.LLMTokens("acme", "large").RequireN(t.Context(), capacity))
	before := time.Now()
	require.NoError(t, w.queue.Enqueue(t.Context(), Completion{Team: "acme", Model: "large"}, capacity/2))
	var at time.Time
	require.NoError(t, w.db.QueryRowContext(t.Context(), "SELECT scheduled_at FROM river_job").Scan(&at))
	assert.WithinDuration(t, before.Add(30*time.Second), at, 5*time.Second)
}

// Neither tokens nor a job are left of an Enqueue that is denied or fails.
func TestDeniedJobIsNotInserted(t *testing.T) {
	w := start(t, func(context.Context, Completion) (int64, error) { return 0, nil })
	handle := w.limit.LLMTokens("acme", "large")
	_, err := handle.Charge(t.Context(), 3*capacity)
	require.NoError(t, err)
	before := w.used(t)
	require.ErrorIs(t, w.queue.Enqueue(t.Context(), Completion{Team: "acme", Model: "large"}, capacity), limits.ErrLimited)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, w.queue.Enqueue(ended, Completion{Team: "acme", Model: "large"}, 1))
	var jobs int
	require.NoError(t, w.db.QueryRowContext(t.Context(), "SELECT count(*) FROM river_job").Scan(&jobs))
	assert.Zero(t, jobs)
	assert.LessOrEqual(t, w.used(t), before)
}

// A job that is tried twice settles once, and one that fails for good gives back the tokens it has not used.
func TestFailedJobSettlesOnce(t *testing.T) {
	tries := 0
	w := start(t, func(context.Context, Completion) (int64, error) {
		tries++
		return 100, errors.New("the model is overloaded")
	})
	require.NoError(t, w.queue.Enqueue(t.Context(), Completion{Team: "acme", Model: "large"}, capacity))
	assert.Equal(t, rivertype.JobStateAvailable, w.next(t).Job.State)
	assert.Equal(t, rivertype.JobStateDiscarded, w.next(t).Job.State)
	assert.Equal(t, 2, tries)
	assert.LessOrEqual(t, w.used(t), int64(100))
}
