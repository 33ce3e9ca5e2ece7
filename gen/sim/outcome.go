package sim

import (
	"errors"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// outcome is what becomes of a request.
type outcome int

const (
	passes outcome = iota
	waits
	isDenied
	neverFits
	outcomes
)

// outcomeOf returns what became of a request. It is false if the request was wrong.
func outcomeOf(a Answer, err error) (outcome, bool) {
	switch {
	case errors.Is(err, runtime.ErrExceedsCapacity):
		return neverFits, true
	case err != nil:
		return 0, false
	case !a.Allowed:
		return isDenied, true
	case a.Delay > 0:
		return waits, true
	}
	return passes, true
}
