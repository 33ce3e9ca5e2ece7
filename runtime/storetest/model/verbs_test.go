package model

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func TestModelHasEveryVerbThatDecides(t *testing.T) {
	has := map[runtime.Op]bool{}
	for _, verb := range deciding {
		has[verb.op] = true
	}
	for _, op := range runtime.Ops() {
		if q := (runtime.Request{Op: op}); q.Decides() {
			assert.True(t, has[op], "%v: add its verb to deciding in runtime/storetest/model/verbs.go", op)
		}
	}
}
