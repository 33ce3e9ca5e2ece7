package capacity

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
)

var update = flag.Bool("update", false, "write the tables into CAPACITY.md")

const page = "../../CAPACITY.md"

// The plans of the tables.
var (
	hostCounts     = []int{1, 10, 100}
	callerCounts   = []int{8, 64, 512}
	shardCounts    = []int{1, 2, 4, 8, 16, 32, 64}
	leaseSizes     = []int{10, 100, 1000}
	databaseCounts = []int{1, 2, 4, 8}
)

// spends is how many tokens a second a host spends from a block: measured by BenchmarkSpend in package lease, and
// rounded down.
const spends = 2_000_000

// plan returns a plan of the page.
func plan(c Costs, hosts, callers int, hot bool) Plan {
	return Plan{c, Cores, hosts, Lanes, Batch, callers, hot}
}

// tables are the tables of the page, by name.
var tables = map[string]func() table{
	"costs": costs, "hot key": func() table { return hosts(true) }, "many keys": func() table { return hosts(false) },
	"leases": leases, "lease size": leaseSize, "shards": shards, "databases": databases,
}

// table is rows of cells, the first of which are its head.
type table [][]string

// String returns the table in Markdown.
func (t table) String() string {
	var b strings.Builder
	for i, row := range t {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString("|---|" + strings.Repeat("---:|", len(row)-1) + "\n")
		}
	}
	return b.String()
}

func costs() table {
	t := table{{"", "processor, a statement", "and each row", "flush", "round trip"}}
	for _, c := range []struct {
		name string
		Costs
	}{{"Postgres", Postgres}, {"Postgres, relaxed", Relaxed}} {
		t = append(t, []string{c.name, micros(c.Fixed), micros(c.PerRow), micros(c.Commit), micros(c.RoundTrip)})
	}
	return t
}

// micros returns seconds in microseconds.
func micros(seconds float64) string { return fmt.Sprintf("%.0f µs", seconds*1e6) }

func hosts(hot bool) table {
	t := table{{"hosts"}}
	for _, name := range []string{"", ", relaxed"} {
		for _, callers := range callerCounts {
			t[0] = append(t[0], fmt.Sprintf("%d callers%s", callers, name))
		}
	}
	for _, hosts := range hostCounts {
		row := []string{fmt.Sprint(hosts)}
		for _, c := range []Costs{Postgres, Relaxed} {
			for _, callers := range callerCounts {
				row = append(row, rough(plan(c, hosts, callers, hot).Decisions()))
			}
		}
		t = append(t, row)
	}
	return t
}

func leases() table {
	t := table{{"hosts", "no lease"}}
	for _, tokens := range leaseSizes {
		t[0] = append(t[0], fmt.Sprintf("%d tokens", tokens))
	}
	for _, hosts := range hostCounts {
		p := plan(Postgres, hosts, 64, true)
		row := []string{fmt.Sprint(hosts), rough(p.Decisions())}
		for _, tokens := range leaseSizes {
			row = append(row, rough(p.Leased(float64(tokens), spends)))
		}
		t = append(t, row)
	}
	return t
}

// leaseSize is for ten hosts: with one, or with more, the factors are the same.
func leaseSize() table {
	t := table{{"callers on each host", "no lease", "as many with blocks of", "blocks of 4 tokens for each caller"}}
	for _, callers := range callerCounts {
		p := plan(Postgres, 10, callers, true)
		t = append(t, []string{
			fmt.Sprint(callers), rough(p.Decisions()), fmt.Sprintf("%.0f tokens", p.calls()), rough(p.Leased(float64(4*callers), spends)),
		})
	}
	return t
}

func shards() table {
	t := table{{"hosts", "1 row"}}
	for _, n := range shardCounts[1:] {
		t[0] = append(t[0], fmt.Sprintf("%d shards", n))
	}
	for _, hosts := range hostCounts {
		p := plan(Postgres, hosts, 64, true)
		row := []string{fmt.Sprint(hosts), rough(p.Decisions())}
		for _, n := range shardCounts[1:] {
			row = append(row, rough(p.Sharded(n)))
		}
		t = append(t, row)
	}
	return t
}

func databases() table {
	t := table{{"databases", "many keys", "one hot key"}}
	for _, n := range databaseCounts {
		t = append(t, []string{fmt.Sprint(n), rough(plan(Postgres, 100, 64, false).Databases(n)), rough(plan(Postgres, 100, 64, true).Databases(n))})
	}
	return t
}

// rough returns a figure with two significant digits, as "240,000". The costs are not more precise.
func rough(figure float64) string {
	unit := math.Pow(10, math.Floor(math.Log10(figure))-1)
	digits := fmt.Sprintf("%.0f", math.Round(figure/unit)*unit)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func TestRough(t *testing.T) {
	for figure, want := range map[float64]string{9: "9", 14: "14", 149: "150", 1449: "1,400", 987_654: "990,000", 1_234_567: "1,200,000"} {
		require.Equal(t, want, rough(figure))
	}
}

// TestTablesOfThePageAreUpToDate compares the tables of the page with the formulas.
func TestTablesOfThePageAreUpToDate(t *testing.T) {
	was, err := os.ReadFile(page)
	require.NoError(t, err)
	is := string(was)
	for name, make := range tables {
		begin, end := fmt.Sprintf("<!-- table: %s -->\n", name), "<!-- end -->"
		before, rest, ok := strings.Cut(is, begin)
		require.True(t, ok, "the page has no line %q", begin)
		_, after, ok := strings.Cut(rest, end)
		require.True(t, ok, "the table %q has no line %q after it", name, end)
		is = before + begin + make().String() + end + after
	}
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(is), 0o644))
		return
	}
	require.Equal(t, is, string(was), "run: go test ./runtime/sqlstore/internal/capacity -update")
}

// TestTextOfThePageFollowsFromItsTables checks the claims of the text.
func TestTextOfThePageFollowsFromItsTables(t *testing.T) {
	for _, hosts := range hostCounts {
		hot, many := plan(Postgres, hosts, 64, true), plan(Postgres, hosts, 64, false)
		row := hot.Decisions()
		require.Equal(t, 32.0, hot.calls(), "group commit takes 32 calls together")
		require.Less(t, hot.Leased(10, spends), row, "a block of 10 tokens is of no use")
		require.Greater(t, hot.Leased(100, spends), 2*row, "one of 100 is")
		require.Less(t, hot.Sharded(16), row, "a few shards are slower than none")
		require.Equal(t, hosts == 100, hot.Sharded(32) > row, "they pay from 32 on with a hundred hosts")
		require.Equal(t, hosts == 100, hot.Sharded(64) > row, "and never with ten or fewer")
		require.Less(t, row, plan(Relaxed, hosts, 64, true).Decisions(), "relaxed statements do not wait for the disk")
		require.InEpsilon(t, row, hot.Leased(hot.calls(), spends), 0.01, "a block costs as much as a statement")
		require.InEpsilon(t, 8*row, hot.Leased(4*64, spends), 0.01, "the rule for the size of a block")
		require.Less(t, many.Databases(4), 4*many.Decisions(), "smaller statements")
	}
	require.Equal(t, 2, Lanes, "the statements at once of a host")
	require.Equal(t, Lanes, sqlstore.Postgres.Lanes)
	require.Equal(t, 20, group.Enough(0, 1, 40), "half as many calls as are under way are worth a second statement")
	require.Equal(t, 8, group.Enough(0, 1, 1), "at least 8")
	for micros, enough := range map[time.Duration]int{200: 32, 500: 5, 800: 2} {
		require.Equal(t, enough, group.Enough(micros*time.Microsecond, 1, 100), "the calls that are worth a second statement")
	}
	two, most := plan(Postgres, 3, 64, true), plan(Postgres, 100, 64, true)
	require.InEpsilon(t, most.Decisions(), two.Decisions(), 0.01, "more hosts than two or three add nothing")
	default8 := plan(Postgres, 10, 8, false)
	require.Greater(t, default8.Decisions(), 10_000.0, "the defaults carry some ten thousand decisions per second")
}
