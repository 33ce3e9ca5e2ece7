package override

import (
	"context"
	"errors"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// CheckCounts returns [runtime.ErrForeignCounts] if a store has the counts of another program under the name of a policy.
// What is written for a name and not for a policy, such as an override, needs this check.
func CheckCounts(ctx context.Context, store runtime.Store, p *runtime.Policy) error {
	// Only the name matters, so that any key will do.
	answers, err := store.Do(ctx, []runtime.Call{{Requests: []runtime.Request{{Op: runtime.Peek, Policy: p, Key: "%"}}}})
	if err == nil && errors.Is(answers[0].Err, runtime.ErrForeignCounts) {
		return answers[0].Err
	}
	// Another error does not concern the name.
	return nil
}
