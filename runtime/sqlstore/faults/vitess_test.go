package faults

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/agree"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/dialect"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/live"
)

// vitess is a Vitess cluster with two vtgates. The first test that needs it starts it.
var (
	vitess      = own{script: "./vitess.sh"}
	startVitess = sync.OnceValue(vitess.start)
)

// vitessGates returns the vtgates, with the settings that Ready requires.
func vitessGates(t *testing.T) (gates []live.Server) {
	t.Helper()
	if !*long {
		t.Skip("the programs of Vitess take minutes to build: run vitess.sh get, and then the test with -long")
	}
	needOwn(t, startVitess())
	for n := 1; n <= 2; n++ {
		s := live.Server{Name: fmt.Sprint("vtgate ", n), Driver: "mysql", DSN: fmt.Sprintf("root@tcp(127.0.0.1:%d)/test", vitess.port(n)), Dialect: dialect.Vitess}
		gates = append(gates, s.With("transaction_mode='single'").With("transaction_timeout=5000").With("innodb_lock_wait_timeout=1"))
	}
	return gates
}

// vitessTests are the tests of one database that use both vtgates.
var vitessTests = []string{
	"TestStore", "TestStatementsAgreeWithTheGoStep", "TestServersAgreeWithModel", "TestProcessesGetExactlyTheCapacity", "TestHistoriesAreLinearizable",
	"TestGroupHistoriesAreLinearizable", "TestRegistered", "TestSweepDeletesOnlyFullRows", "TestProcessesNeverHoldMoreThanTheSlots",
}

func TestVitessConforms(t *testing.T) {
	conforms(t, vitessGates(t), vitessTests...)
}

// A driver that writes arguments into the text of a statement sends it by the other protocol.
func TestVitessConformsWithInterpolatedArguments(t *testing.T) {
	conforms(t, interpolated(vitessGates(t)), vitessTests...)
}

// Tablets and vtgates are killed, and the primary moves, while stores take tokens through both vtgates.
func TestVitessFaults(t *testing.T) {
	gates := vitessGates(t)
	table, stores := live.Shared(t, gates, nil)
	l := live.StartLoad(live.Once("limit", 1_000_000), stores)
	for _, fault := range [][2]string{
		{"primary", "2"}, {"primary", "1"}, {"kill", "tablet1"}, {"rejoin", "tablet1"}, {"kill", "gate1"}, {"rejoin", "gate1"}, {"kill", "gate2"}, {"rejoin", "gate2"},
	} {
		_, _, before := l.Sums()
		require.NoError(t, vitess.run(fault[0], fault[1]))
		for i := range l.PerNode {
			if down := fmt.Sprint("gate", i+1); fault == [2]string{"kill", down} || fault == [2]string{"kill", "tablet1"} {
				continue
			}
			answers := l.PerNode[i].Answers()
			l.Await(t, fmt.Sprint("service after ", fault), func() bool { return l.PerNode[i].Answers() > answers+10 })
		}
		_, _, after := l.Sums()
		t.Logf("%v: %d errors, longest call %v", fault, after-before, l.Slowest().Round(time.Millisecond))
	}
	l.Finish(t, gates[0].Visit(t, table))
}

// A vtgate accepts connections of clients of MySQL.
func TestVitessIsRefusedByOtherDialects(t *testing.T) {
	gate := vitessGates(t)[0]
	for _, other := range []dialect.Dialect{dialect.MySQL, dialect.MariaDB} {
		store := live.Must(agree.NewStore(gate.Open(t), other, sqlstore.Options{Table: live.NewTable()}))(t)
		defer store.Close()
		for _, err := range []error{store.Migrate(t.Context()), store.Ready(t.Context())} {
			assert.ErrorContains(t, err, "pass the database's own dialect to sqlstore.New")
			assert.ErrorContains(t, err, `server is "Vitess"`)
		}
	}
}
