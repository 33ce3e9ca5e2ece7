// Package replay decides requests as stores do, by states that its caller keeps: for programs that replay requests.
package replay

import (
	"errors"

	"github.com/ratelimitgen/ratelimitgen/internal/batch"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Decide decides the requests of one call at an instant, in nanoseconds since 1970 UTC, and changes the states of its rows,
// which state returns. The seed chooses the shards. If the call is refused, nothing is changed, and the error is about the
// request with the index.
func Decide(requests []runtime.Request, now int64, seed uint64, state func(runtime.Row) *runtime.State) (ds []runtime.Decision, index int, err error) {
	b := batch.NewSeeded([]runtime.Call{{Requests: requests}}, seed)
	for done := false; !done; {
		states := make([]runtime.State, len(b.Rows()))
		for i, row := range b.Rows() {
			states[i] = *state(row)
		}
		done = b.Run(now, states)
	}
	for _, change := range b.Changes() {
		*state(change.Row) = change.State
	}
	answer := b.Answers()[0]
	if refused, ok := errors.AsType[*batch.RequestError](answer.Err); ok {
		// Its error has the key before the cause.
		return nil, refused.Index, errors.Unwrap(refused.Err)
	}
	return answer.Decisions, 0, answer.Err
}
