package conformance

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// outboxEnv is the environment variable that makes this program use up windows, and write a row for each threshold.
const outboxEnv = "RATELIMITGEN_TEST_OUTBOX"

// outboxCourse has the table of the rows, and how many windows there are, each of another key. Those before From are used
// up.
type outboxCourse struct {
	course
	Outbox        string
	From, Windows int
}

// reports is a quota of 20 that warns.
var reports = &runtime.Policy{
	Name: "reports", Kind: runtime.FixedWindow, Rate: 20, Capacity: 20, Period: runtime.MaxPeriod,
	Start: runtime.StartAt(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)), Warn: runtime.Thresholds{80, 100},
}

// fillOutbox is the main function of a process on an outboxCourse in JSON, in which 8 goroutines use up the windows.
func fillOutbox(text string) error {
	var c outboxCourse
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	db, err := sql.Open(c.Driver, c.DSNs[0])
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	store, err := agree.NewStore(db, c.Dialect, sqlstore.Options{Table: c.Table})
	if err == nil {
		err = store.Ready(context.Background())
	}
	if err != nil {
		return err
	}
	limit, insert := limiter.New(store), "INSERT INTO "+c.Outbox+" (name, customer, percent, ends) VALUES ($1, $2, $3, $4)"
	if c.Driver == "mysql" {
		insert = "INSERT INTO " + c.Outbox + " (name, customer, percent, ends) VALUES (?, ?, ?, ?)"
	}
	var all sync.WaitGroup
	errs := make(chan error, 8)
	for range 8 {
		all.Go(func() {
			for window := c.From; window < c.Windows; {
				denied := false
				// The recipe of example/README.md.
				err := sqlstore.RunInTx(context.Background(), db, func(tx *sql.Tx) error {
					d, err := limit.WithTx(tx).Limit(reports, live.KeyOf(window)).Allow(context.Background())
					if denied = !d.Allowed; err != nil || d.Crossed == 0 {
						return err
					}
					_, err = tx.ExecContext(context.Background(), insert, d.Limit, window, d.Crossed, d.TakenAt.Add(d.ResetAfter).UnixNano())
					return err
				})
				if err != nil {
					errs <- err
					return
				}
				if denied {
					window++
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// Processes are killed while they take tokens, and others go on: each window has one row for each threshold. A second one
// would violate the primary key, and end its process with an error.
func TestOutboxHasOneRowForEachThreshold(t *testing.T) {
	onEachServer(t, func(t *testing.T, s live.Server) {
		db, table := s.Open(t), live.NewTable()
		store := s.StoreIn(t, db, table, nil)
		require.NoError(t, store.Migrate(t.Context(), reports))
		c := outboxCourse{course: course{Driver: s.Driver, Dialect: s.Dialect, DSNs: []string{s.DSN}, Table: table}, Outbox: s.SideTable(table + "_outbox"), Windows: 10}
		if *long {
			c.Windows = 1000
		}
		live.Must(db.Exec("CREATE TABLE " + c.Outbox + " (name VARCHAR(100), customer BIGINT, percent INT, ends BIGINT, PRIMARY KEY (name, customer, percent, ends))"))(t)
		t.Cleanup(func() { live.Must(db.Exec("DROP TABLE " + c.Outbox))(t) })
		start := func() *exec.Cmd {
			// A process goes on to the next window when one is used up, so all before the last one that has a row are.
			require.NoError(t, db.QueryRow("SELECT COALESCE(MAX(customer), 0) FROM "+c.Outbox).Scan(&c.From))
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), outboxEnv+"="+string(live.Must(json.Marshal(c))(t)))
			cmd.Stderr = os.Stderr
			require.NoError(t, cmd.Start())
			return cmd
		}
		workers := []*exec.Cmd{start(), start()}
		rows := func() (n int) {
			require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM "+c.Outbox).Scan(&n))
			return n
		}
		kills := 0
		for seen := 0; seen < c.Windows; { // half of the rows
			for n, begun := seen, time.Now(); n == seen; n = rows() {
				require.Less(t, time.Since(begun), 2*time.Minute)
			}
			seen = rows()
			i := rand.IntN(len(workers))
			require.NoError(t, workers[i].Process.Kill())
			_ = workers[i].Wait()
			workers[i] = start()
			kills++
		}
		for _, w := range workers {
			require.NoError(t, w.Wait())
		}
		for window := range c.Windows {
			for _, percent := range []int{80, 100} {
				var n int
				require.NoError(t, db.QueryRow(fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE customer = %d AND percent = %d", c.Outbox, window, percent)).Scan(&n))
				assert.Equal(t, 1, n, "window %d, %d%%", window, percent)
			}
			assert.Zero(t, live.Must(limiter.New(store).Limit(reports, live.KeyOf(window)).Peek(t.Context()))(t).Remaining)
		}
		assert.Equal(t, 2*c.Windows, rows())
		t.Logf("%d windows, %d processes killed", c.Windows, kills)
	})
}
