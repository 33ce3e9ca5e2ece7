package decide

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
)

// state is an error of Postgres.
type state string

func (s state) Error() string { return "state " + string(s) }

func (s state) SQLState() string { return string(s) }

// Slots of a write that has certainly not happened must not be released: the call is decided again, and may get the same
// fence.
func TestSlotsAreReleasedOnlyIfTheyMayHaveBeenWritten(t *testing.T) {
	p := &runtime.Policy{Name: "limit", Kind: runtime.InFlight, Slots: 2, Hold: time.Minute}
	calls := []runtime.Call{{Requests: []runtime.Request{{Policy: p, Key: "k", Count: 1}}}}
	answers := []runtime.Answer{{Decisions: []runtime.Decision{{Allowed: true}}}}
	for name, row := range map[string]struct {
		err     error
		unknown int
	}{
		"written":               {nil, 0},
		"deadlock":              {state("40P01"), 0},
		"locked for too long":   {state("55P03"), 0},
		"killed while it waits": {errors.New("Error 1317 (70100): Query execution was interrupted"), 0},
		"ended by MariaDB":      {errors.New("Error 1969 (70100): Query execution was interrupted (max_statement_time exceeded)"), 0},
		"connection lost":       {driver.ErrBadConn, 1},
		"session ended":         {state("57P01"), 1},
		"commit without answer": {fault.OutcomeUnknown(driver.ErrBadConn), 1},
	} {
		t.Run(name, func(t *testing.T) {
			unknown := 0
			var w write
			w.begin(context.Background(), &Engine{Unknown: func([]runtime.Call, []runtime.Answer) { unknown++ }}, calls, answers)
			require.Equal(t, row.err, w.end(t.Context(), row.err == nil, row.err))
			require.Equal(t, row.unknown, unknown)
		})
	}
}
