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

// Agree compares a store with the model in random worlds, for a number of requests at least, and until every pair of
// values that can occur was reached. The names of all limits begin with name, so that worlds can share a database. open is
// called for each world, in a bubble of package synctest.
func Agree(t *testing.T, name string, least int, open func(*testing.T, *Clock) Env) {
	reached := pairs{}
	done, renumbered, balances, settled, less, penalties := 0, 0, 0, 0, 0, 0
	least = max(least, *steps)
	for n := uint64(0); ; n++ {
		missing := reached.missing()
		if len(missing) == 0 && done >= least {
			break
		}
		if len(missing) > 0 && n > 8000 {
			t.Fatalf("%d pairs were not reached: %v", len(missing), missing)
		}
		r := rand.New(rand.NewPCG(*seed, n))
		want := map[string]string{}
		if len(missing) > 0 && n%8 > 0 {
			want = wanted(missing[r.IntN(len(missing))])
		}
		var err error
		synctest.Test(t, func(t *testing.T) {
			clock := &Clock{}
			w := newWorld(r, fmt.Sprintf("%s%d limit", name, n), clock, open(t, clock), reached, want)
			if w == nil {
				return
			}
			err = w.run(requestsOfWorld, want)
			done, renumbered, balances = done+w.steps, renumbered+w.renumbered, balances+w.balances
			settled, less, penalties = settled+w.settled, less+w.less, penalties+w.inPenalty
		})
		if err != nil {
			t.Fatalf("world %d of seed %d, want %v, after %d requests that agree: %v", n, *seed, want, done, err)
		}
	}
	t.Logf("%d requests agree, %d of them with other numbers of the caller than the one before, and %d balances with what was used and when windows end; "+
		"%d were settled, after %d of which less was given back than was unused; %d were about a key with a penalty", done, renumbered, balances, settled, less, penalties)
}

// wanted returns the values that a world must have for a pair to occur.
func wanted(pair [2]value) map[string]string {
	want := map[string]string{}
	for _, v := range pair {
		want[v.field] = v.value
	}
	if p, ok := want["plan"]; ok {
		want["plans"] = map[bool]string{true: "none", false: "three"}[p == "none"]
	}
	if f, ok := want["force"]; ok && want["overrides"] == "" {
		switch f {
		case "off", "shadow", "unlimited":
			want["overrides"] = "any"
		case "plan":
			want["plans"], want["overrides"] = "three", "numbers"
		case "block", "numbers":
			want["overrides"] = "numbers"
		}
	}
	return want
}
