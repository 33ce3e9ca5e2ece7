package capacity

import (
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

var long = flag.Bool("long", false, "simulate all plans, not every seventh")

// tolerance is how far the formulas may be from the simulation.
const tolerance = 0.20

// rounds is how many decisions every caller gets in a simulation. In fewer, the statements of a host would still have
// sizes that are due to its start.
const rounds = 120

// play simulates a plan for as long as every caller needs for its rounds, if decisions per second is right.
func play(p Plan, shards int, decisions float64) (statements, decided float64) {
	return simulate(p, shards, rounds*float64(p.Hosts*p.Callers)/decisions)
}

// grid returns plans of all sizes, a few of which are in CAPACITY.md, or without -long every seventh: seven divides none of
// the numbers of costs, cores, hosts, callers and hot keys, so that all of them occur.
func grid() (all []Plan) {
	n := 0
	for _, costs := range []Costs{
		Postgres, Relaxed,
		{Fixed: 60e-6, PerRow: 12e-6, Commit: 2e-3, RoundTrip: 200e-6},   // a slow disk
		{Fixed: 30e-6, PerRow: 5e-6, Commit: 50e-6, RoundTrip: 100e-6},   // a fast machine near by
		{Fixed: 140e-6, PerRow: 18e-6, Commit: 500e-6, RoundTrip: 20e-3}, // another continent
	} {
		for _, cores := range []int{2, Cores, 32} {
			for _, hosts := range []int{1, 10, 100} {
				for _, callers := range []int{1, 16, 64, 512} {
					for _, hot := range []bool{true, false} {
						if n++; *long || n%7 == 0 {
							all = append(all, Plan{costs, cores, hosts, Lanes, Batch, callers, hot})
						}
					}
				}
			}
		}
	}
	return all
}

func TestFormulasAgreeWithTheSimulation(t *testing.T) {
	furthest := 0.0
	for _, p := range grid() {
		_, decisions := play(p, 1, p.Decisions())
		assert.InEpsilon(t, decisions, p.Decisions(), tolerance, "%+v", p)
		furthest = max(furthest, apart(decisions, p.Decisions()))
	}
	t.Logf("%d plans, at most %.0f%% apart", len(grid()), 100*furthest)
}

// apart returns by how much a figure is off, as a part of the right one.
func apart(right, figure float64) float64 { return max(figure/right-1, 1-figure/right) }

func TestShardsAgreeWithTheSimulation(t *testing.T) {
	furthest := 0.0
	for _, hosts := range []int{1, 10, 100} {
		for _, shards := range shardCounts[1:] {
			p := plan(Postgres, hosts, 64, true)
			_, decisions := simulate(p, shards, 3)
			assert.InEpsilon(t, decisions, p.Sharded(shards), tolerance, "%d hosts, %d shards", hosts, shards)
			furthest = max(furthest, apart(decisions, p.Sharded(shards)))
		}
	}
	t.Logf("at most %.0f%% apart", 100*furthest)
}

func TestLeasesAgreeWithTheSimulation(t *testing.T) {
	for _, hosts := range []int{1, 10, 100} {
		p := plan(Postgres, hosts, 1, true) // one call at a time takes a block
		blocks, _ := play(p, 1, p.Decisions())
		for _, tokens := range leaseSizes {
			p.Callers = 512
			want := min(blocks*float64(tokens), float64(hosts)*spends)
			assert.InEpsilon(t, want, p.Leased(float64(tokens), spends), tolerance, "%d hosts, %d tokens", hosts, tokens)
		}
	}
}

func TestDatabasesAgreeWithTheSimulation(t *testing.T) {
	for _, n := range databaseCounts {
		p := plan(Postgres, 100, 64, false)
		each := p
		each.Callers = p.Callers / n
		_, decisions := play(each, 1, each.Decisions())
		assert.InEpsilon(t, decisions*float64(n), p.Databases(n), tolerance, "%d databases", n)
	}
	hot := plan(Postgres, 100, 64, true)
	assert.Equal(t, hot.Decisions(), hot.Databases(8), "a key is in one of them")
}

func TestSimulationIsReproducible(t *testing.T) {
	p := plan(Postgres, 3, 16, false)
	statements, decisions := play(p, 1, p.Decisions())
	again, decided := play(p, 1, p.Decisions())
	assert.Equal(t, fmt.Sprint(statements, decisions), fmt.Sprint(again, decided))
}

func TestSimulationOfOneCallerAddsUpTheCosts(t *testing.T) {
	p := Plan{Costs{0.1, 0.15, 0.25, 0.5}, 1, 1, 4, 1000, 1, false}
	statements, decisions := simulate(p, 1, 1000)
	assert.InDelta(t, 1.0, statements, 0.01, "0.1 + 0.15 + 0.25 + 0.5 seconds each")
	assert.InDelta(t, statements, decisions, 1e-9)
}

func TestSimulatedRowIsLockedUntilTheCommit(t *testing.T) {
	p := Plan{Costs{0.1, 0.15, 0.25, 0.5}, 8, 100, 4, 1000, 1, true}
	statements, _ := simulate(p, 1, 1000)
	assert.InDelta(t, 2.0, statements, 0.02, "0.1 + 0.15 + 0.25 seconds each, one at a time")
}
