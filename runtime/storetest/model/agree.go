package model

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
)

var (
	steps = flag.Int("model.steps", 0, "how many requests at least a store is compared with the model for")
	seed  = flag.Uint64("model.seed", 1, "the seed of the worlds of the model")
)

// requestsOfWorld is how many requests a world gets.
const requestsOfWorld = 30

// worldsForPairs is how many worlds are enough to meet every pair of values.
const worldsForPairs = 2000

// Agree compares a store with the model in random worlds, for a number of requests at least, and until every pair of
// values that can occur was met. The names of all limits begin with name, so that worlds can share a database. open is
// called for each world, in a bubble of package synctest.
func Agree(t *testing.T, name string, least int, open func(*testing.T, *Clock) Env) {
	unmet, all, met := possiblePairs(), counts{}, false
	least = max(least, *steps)
	for n := 0; len(unmet) > 0 || all.requests < least; n++ {
		if len(unmet) > 0 && n > worldsForPairs {
			t.Fatalf("%d pairs were not met: %v", len(unmet), unmet)
		}
		var err error
		synctest.Test(t, func(t *testing.T) {
			clock := &Clock{}
			w := newWorld(rand.New(rand.NewPCG(*seed, uint64(n))), fmt.Sprintf("%s%d limit", name, n), clock, open(t, clock), unmet)
			err = w.run(requestsOfWorld)
			all.add(w.counts)
		})
		if err != nil {
			t.Fatalf("world %d of seed %d, after %d requests that agree: %v", n, *seed, all.requests, err)
		}
		if len(unmet) == 0 && !met {
			t.Logf("%d requests in %d worlds have met all pairs of values", all.requests, n+1)
			met = true
		}
	}
	t.Log(all)
}
