package model

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func TestModelHasEveryVerbThatDecides(t *testing.T) {
	has := map[runtime.Op]bool{}
	for name, verb := range deciding {
		has[verb.op] = true
		assert.True(t, slices.Contains(requestFields["verb"], name), "no world has the verb %q: add it to requestFields in runtime/storetest/model/pairs.go", name)
	}
	for _, op := range runtime.Ops() {
		if q := (runtime.Request{Op: op}); q.Decides() {
			assert.True(t, has[op], "%v: add its verb to deciding in runtime/storetest/model/verbs.go", op)
		}
	}
}
