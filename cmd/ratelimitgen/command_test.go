package main

import (
	"bytes"
	"errors"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestHighestExitCodeWins(t *testing.T) {
	stale, wrong, failed := checkFailed{"stale"}, usagef("wrong"), fs.ErrPermission
	for _, test := range []struct {
		err  error
		code int
		text string
	}{
		{nil, exitOK, ""},
		{stale, exitFindings, "ratelimitgen x: stale\n"},
		{errors.Join(stale, checkFailed{}), exitFindings, "ratelimitgen x: stale\n"},
		{errors.Join(stale, failed), exitFailed, "ratelimitgen x: stale\nratelimitgen x: permission denied\n"},
		{errors.Join(errors.Join(failed, stale), stale), exitFailed, "ratelimitgen x: permission denied\nratelimitgen x: stale\nratelimitgen x: stale\n"},
		{errors.Join(stale, wrong), exitUsage, "ratelimitgen x: stale\nratelimitgen x: wrong\nRun 'ratelimitgen help x' for usage.\n"},
	} {
		var printed bytes.Buffer
		assert.Equal(t, test.code, report(&printed, "x", test.err), "%v", test.err)
		assert.Equal(t, test.text, printed.String())
	}
}
