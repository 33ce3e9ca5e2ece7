package decide

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
)

// The refund of a block needs the total of the row, whatever is taken beside it.
func TestTakesInAdvanceAreNotByStatementsWithoutTotals(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 10, Capacity: 10, Period: time.Minute}
	take := func(leased, reserve bool) runtime.Call {
		return runtime.Call{Requests: []runtime.Request{{Policy: p, Key: "k", Count: 3, Leased: leased, Reserve: reserve}}}
	}
	plain, block, reservation := take(false, false), take(true, false), take(false, true)
	for _, row := range []struct {
		calls           []runtime.Call
		mysql, postgres int
	}{
		{[]runtime.Call{plain}, 1, 1},
		{[]runtime.Call{plain, plain}, 1, 1},
		{[]runtime.Call{block}, 0, 1},
		{[]runtime.Call{block, plain}, 0, 1},
		{[]runtime.Call{plain, block}, 0, 1},
		{[]runtime.Call{reservation}, 0, 1},
		{[]runtime.Call{plain, reservation}, 0, 0}, // the debt of each has its own bound
	} {
		rows := func(d dialect.Dialect) int {
			return len(newTakes(row.calls, 1, known{dialect: &d, hints: newDenialHints()}).rows)
		}
		require.Equal(t, row.mysql, rows(dialect.MySQL), "%+v", row.calls)
		require.Equal(t, row.postgres, rows(dialect.Postgres), "%+v", row.calls)
	}
}

// A row is larger than all that a call has besides, so that growing the list of rows would double the memory of a batch.
func TestTakesOfABatchAreFewAllocations(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 10, Capacity: 10, Period: time.Minute}
	calls := make([]runtime.Call, 64)
	for i := range calls {
		calls[i].Requests = []runtime.Request{{Policy: p, Key: strconv.Itoa(i), Count: 1}}
	}
	k := known{dialect: &dialect.Postgres, hints: newDenialHints()}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { newTakes(calls, 1, k) }), 4.0, "the calls, their rows and decisions, and which are left out")
}

// Keys with numbers of their own are of one statement, in the order in which all statements lock rows.
func TestNumbersOfKeysAreOfOneStatement(t *testing.T) {
	calls := make([]runtime.Call, 64)
	for i := range calls {
		p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 10, Capacity: int64(100 - i%7), Period: time.Minute * time.Duration(1+i%3)}
		calls[i].Requests = []runtime.Request{{Policy: p, Key: strconv.Itoa(i), Count: 1, Reserve: i%5 == 0}}
	}
	of := func(d dialect.Dialect) takes { return newTakes(calls, 1, known{dialect: &d, hints: newDenialHints()}) }
	each := of(dialect.Postgres)
	require.Len(t, each.part(0), 64)
	require.True(t, slices.IsSortedFunc(each.rows, func(a, b takeRow) int { return a.Row.Compare(b.Row) }))
	require.Equal(t, conn.TakeEach, each.part(0).statement())
	for i := range calls {
		p := &runtime.Policy{Name: "limit", Kind: runtime.TokenBucket, Rate: 10, Capacity: 100, Period: time.Minute * time.Duration(1+i%2)}
		calls[i].Requests = []runtime.Request{{Policy: p, Key: strconv.Itoa(i), Count: int64(1 + i%3)}}
	}
	other := of(dialect.Postgres)
	require.Equal(t, conn.TakeEach, other.part(0).statement(), "their periods differ")
	for i := range calls {
		calls[i].Requests[0].Policy = calls[0].Requests[0].Policy
	}
	same := of(dialect.Postgres)
	require.Equal(t, conn.TakeRows, same.part(0).statement(), "their counts may differ")
	for i := range calls {
		p := *calls[0].Requests[0].Policy
		p.Capacity += int64(i % 7)
		calls[i].Requests[0].Policy = &p
	}
	without := dialect.Postgres
	without.TakeEach = ""
	apart := of(without)
	require.Equal(t, conn.TakeRows, apart.part(0).statement())
	require.Less(t, len(apart.part(0)), 11, "seven capacities")
}

// Limits are not of one statement. Taking from 64 of them by as many statements, each with a commit, costs
// ten times as much as by a transaction.
func TestManyStatementsDoNotTake(t *testing.T) {
	for policies, takes := range map[int]bool{1: true, mostParts: true, mostParts + 1: false, 64: false} {
		calls := make([]runtime.Call, 64)
		for i := range calls {
			p := &runtime.Policy{Name: "limit" + strconv.Itoa(i%policies), Kind: runtime.TokenBucket, Rate: 10, Capacity: 10, Period: time.Minute}
			calls[i].Requests = []runtime.Request{{Policy: p, Key: strconv.Itoa(i), Count: 1}}
		}
		p := &plan{takes: newTakes(calls, 1, known{dialect: &dialect.Postgres, hints: newDenialHints()})}
		require.Len(t, p.rows, 64)
		require.Equal(t, takes, p.takesMany(), policies)
		p.sent = len(p.rows) - 1
		require.True(t, p.takesMany(), "the last row")
	}
}
