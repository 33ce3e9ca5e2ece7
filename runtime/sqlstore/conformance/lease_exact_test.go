package conformance

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// leasedHeat is a heat of a leased limit.
type leasedHeat struct {
	heat
	// batch is the store's option.
	batch int
}

// leasedHeats returns heats of limits of all kinds, with blocks that last longer than the race and shorter ones, with
// group commit, with small batches, and without.
func leasedHeats() (all []leasedHeat) {
	leases := []runtime.Lease{{Tokens: 7, For: time.Hour}, {Tokens: 15, For: 3 * time.Millisecond}}
	batches := []int{0, 1, 3}
	for _, h := range []struct {
		capacity    int64
		keys, calls int
	}{{100, 1, 3}, {20, 8, 8}} {
		for i, p := range live.Granting(h.capacity) {
			if p.Start.FirstUse() || h.keys > 1 && i%3 > 0 {
				continue
			}
			leased := *p
			leased.Name, leased.Lease = "leased "+p.Name, leases[(i+i/2)%2]
			all = append(all, leasedHeat{heat{policy: &leased, keys: h.keys, calls: h.calls}, batches[i%3]})
		}
	}
	return all
}

// run opens a host, takes, and closes it, which refunds its blocks.
func (l leasedHeat) run(at address) (result, error) {
	h, err := at.open(sqlstore.Options{Batch: l.batch})
	if err != nil {
		return result{}, err
	}
	total := l.heat.run([]*limiter.Limiter{limiter.New(h)})
	return total, h.Close()
}

// peek returns how many tokens of a key are left.
func (l leasedHeat) peek(ctx context.Context, t *testing.T, store runtime.Store, key int) float64 {
	t.Helper()
	b := live.Must(limiter.New(store).Limit(l.policy, live.KeyOf(key)).Peek(ctx))(t)
	return b.Value
}

// Several processes take tokens of leased limits, each with blocks of its own. When all have refunded their blocks, the
// granted tokens and those left add up to the capacity.
func TestLeasesAddUpToTheCapacity(t *testing.T) {
	onHosts(t, func(t *testing.T, at []address) {
		processes := make([]racer, racers)
		for i := range processes {
			text := live.Must(json.Marshal(at[i%len(at)]))(t)
			processes[i] = startRacer(t, leaseEnv, string(text))
		}
		granted, kept := int64(0), 0.0
		for i, l := range leasedHeats() {
			total := raceAll(t, processes, i, l.keys)
			assert.Empty(t, total.Errors, l.policy.Name)
			left := at[0].left(t, l, nil)
			for key, admitted := range total.Admitted {
				assert.Positive(t, admitted)
				assert.InDelta(t, float64(l.policy.Capacity-admitted), left[key], 1e-3, "%s, key %d: admitted %d, left", l.policy.Name, key, admitted)
				granted, kept = granted+admitted, kept+left[key]
			}
		}
		t.Logf("%d tokens granted and %.0f left", granted, kept)
	})
}

// leaseEnv is the environment variable that makes this program a racer with leases. Its value is the address of the
// table.
const leaseEnv = "RATELIMITGEN_TEST_LEASE"

// raceLeased is the main function of a racer with leases at an address in JSON. It runs each heat whose number it
// reads. The number killed makes it take tokens without an end.
func raceLeased(text string) error {
	var at address
	if err := json.Unmarshal([]byte(text), &at); err != nil {
		return err
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var number int
		if err := in.Decode(&number); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if number == killed {
			return spendUntilKilled(at)
		}
		total, err := leasedHeats()[number].run(at)
		if err != nil {
			total.Errors = append(total.Errors, err.Error())
		}
		if err := out.Encode(total); err != nil {
			return err
		}
	}
}

const killed = -1

// spent is the limit of processes that are killed.
var spent = &runtime.Policy{
	Name: "spent", Kind: runtime.TokenBucket, Rate: 1, Period: runtime.MaxPeriod, Capacity: 1_000_000,
	Lease: runtime.Lease{Tokens: 25, For: time.Hour},
}

// spendUntilKilled takes one token after the other, and prints a line for each.
func spendUntilKilled(at address) error {
	h, err := at.open(sqlstore.Options{})
	if err != nil {
		return err
	}
	l := limiter.New(h).Limit(spent, runtime.Key{})
	for {
		d, err := l.Allow(context.Background())
		if err != nil || !d.Allowed {
			return fmt.Errorf("%v, %w", d, err)
		}
		if _, err := os.Stdout.WriteString("spent\n"); err != nil {
			return err
		}
	}
}

// Processes are killed while they spend blocks. At most a block of each is lost, and no more is left than they have not
// spent.
func TestKilledProcessLosesAtMostABlock(t *testing.T) {
	onHosts(t, func(t *testing.T, at []address) {
		text := live.Must(json.Marshal(at[0]))(t)
		const lives = 5
		printed := make([]int, lives)
		var all sync.WaitGroup
		for life := range lives {
			all.Go(func() { printed[life] = spendAndBeKilled(t, string(text), 1+17*life) })
		}
		all.Wait()
		sum := int64(0)
		for _, n := range printed {
			sum += int64(n)
		}

		h := live.Must(at[len(at)-1].open(sqlstore.Options{}))(t)
		b := live.Must(limiter.New(h).Limit(spent, runtime.Key{}).Peek(t.Context()))(t)
		require.NoError(t, h.Close())
		rest := b.Remaining
		assert.LessOrEqual(t, sum+rest, spent.Capacity)
		// A process may be killed between spending the last token of a block and printing it.
		assert.GreaterOrEqual(t, sum+rest, spent.Capacity-lives*(spent.Lease.Tokens+1))
		t.Logf("%d tokens spent by %d processes until they were killed, %d left, %d lost", sum, lives, rest, spent.Capacity-sum-rest)
	})
}

// spendAndBeKilled starts a process, kills it when it has printed the given number of tokens, and returns how many it
// has printed in all.
func spendAndBeKilled(t *testing.T, at string, tokens int) (printed int) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), leaseEnv+"="+at)
	cmd.Stdin = strings.NewReader(fmt.Sprint(killed))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if !assert.NoError(t, err) || !assert.NoError(t, cmd.Start()) {
		return 0
	}
	lines := bufio.NewReader(out)
	for range tokens {
		_, err := lines.ReadString('\n')
		assert.NoError(t, err)
		printed++
	}
	assert.NoError(t, cmd.Process.Kill())
	rest, err := io.ReadAll(lines)
	assert.NoError(t, err)
	assert.Error(t, cmd.Wait())
	return printed + strings.Count(string(rest), "\n")
}

// address is a table on a database. It can be passed to another process as JSON.
type address struct {
	Driver, DSN, Dialect, Table string
}

// host is a store with its own database handle, blocks and denials.
type host struct {
	*sqlstore.Store
	close func() error
}

// Close refunds the blocks of the host, and closes its database handle.
func (h host) Close() error { return h.close() }

const onFile = "sqlite"

// open opens a host.
func (a address) open(o sqlstore.Options) (host, error) {
	o.Table = a.Table
	if a.Driver == onFile {
		s, err := sqlite.OpenWith(a.DSN, o)
		if err != nil {
			return host{}, err
		}
		return host{s.Store, s.Close}, nil
	}
	db, err := sql.Open(a.Driver, a.DSN)
	if err != nil {
		return host{}, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	s, err := agree.NewStore(db, a.dialect(), o)
	if err != nil {
		return host{}, errors.Join(err, db.Close())
	}
	return host{s, func() error { return errors.Join(s.Close(), db.Close()) }}, nil
}

func (a address) dialect() dialect.Dialect {
	for _, d := range dialect.All() {
		if d.Name == a.Dialect {
			return d
		}
	}
	return dialect.SQLite
}

// hosts opens n hosts, at the addresses in turn.
func hosts(t *testing.T, at []address, n int, o sqlstore.Options) []host {
	t.Helper()
	all := make([]host, n)
	for i := range all {
		h := live.Must(at[i%len(at)].open(o))(t)
		all[i] = h
	}
	return all
}

func closeAll(t *testing.T, all []host) {
	t.Helper()
	for _, h := range all {
		require.NoError(t, h.Close())
	}
}

// onHosts runs a test on each database that processes can share: a file of SQLite, and the servers.
// The table is new, and dropped when the test ends.
func onHosts(t *testing.T, test func(t *testing.T, at []address)) {
	onSQLite(t, func(t *testing.T) {
		test(t, []address{{Driver: onFile, DSN: filepath.Join(t.TempDir(), "limits.db"), Table: live.NewTable()}})
	})
	onNodes := func(t *testing.T, nodes []live.Server) {
		nodes = upToDate(nodes)
		table, _ := live.Shared(t, nodes, nil)
		test(t, addresses(nodes, table))
	}
	onEachServer(t, func(t *testing.T, s live.Server) { onNodes(t, nodesOf(s)) })
}

// addresses returns the address of a table on each node.
func addresses(nodes []live.Server, table string) (all []address) {
	for _, s := range nodes {
		all = append(all, address{s.Driver, s.DSN, s.Dialect.Name, table})
	}
	return all
}

// left returns how many tokens of each key are left, as seen by a host without blocks.
func (a address) left(t *testing.T, l leasedHeat, clock func() time.Time) []float64 {
	t.Helper()
	h := live.Must(a.open(sqlstore.Options{Clock: clock}))(t)
	defer func() { require.NoError(t, h.Close()) }()
	all := make([]float64, l.keys)
	for key := range all {
		all[key] = l.peek(context.Background(), t, h, key)
	}
	return all
}
