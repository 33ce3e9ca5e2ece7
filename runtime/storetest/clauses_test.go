package storetest

import (
	"testing"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Each operation is in a clause about what it does. Random requests are not enough,
// because they compare the operation with itself.
func TestEveryOperationHasAClause(t *testing.T) {
	seen := map[runtime.Op]bool{}
	var note func(steps []step)
	note = func(steps []step) {
		for _, s := range steps {
			seen[s.q.Op] = seen[s.q.Op] || s.call == nil && s.batch == nil
			note(s.call)
			note(s.batch)
		}
	}
	for _, clauses := range [][]clause{limits(), operations(), slots(), calls()} {
		for _, c := range clauses {
			note(c.script)
		}
	}
	for _, op := range runtime.Ops() {
		if !seen[op] {
			t.Errorf("no script of a clause has the operation %v: add a clause in runtime/storetest/limits.go, or slots.go", op)
		}
	}
}
