package batch

import (
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// RequestError is the error of a call that one of its requests has.
type RequestError struct {
	// Index is the position of the request.
	Index int
	Err   error
}

// Error returns the text of Err.
func (e *RequestError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *RequestError) Unwrap() error { return e.Err }

// errorOf returns the error of one of the requests of a call as that of the call.
func errorOf(requests []runtime.Request, i int, err error) error {
	return &RequestError{i, fmt.Errorf("%v: %w", runtime.Call{Requests: requests[i : i+1]}, err)}
}
