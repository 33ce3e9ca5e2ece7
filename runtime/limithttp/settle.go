package limithttp

import (
	"context"

	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// ErrNotTaken: the request has not taken tokens from the limit that is to be settled.
var ErrNotTaken = limiter.ErrNotTaken

// Settle corrects the count of a request's tokens to the number really used, for costs that are known only afterwards. The
// context is that of the request that the handler of a [Route] got. It is [limiter.Settle], which has the details.
func Settle(ctx context.Context, used int64) error { return limiter.Settle(ctx, used) }

// SettleLimit is Settle for the limit with a name as in limits.yaml, such as "llmTokens". It is [limiter.SettleLimit].
func SettleLimit(ctx context.Context, name string, used int64) error {
	return limiter.SettleLimit(ctx, name, used)
}

// SettleUsage is SettleLimit for a limit with prices, and what the request has really used. It is [limiter.SettleUsage].
func SettleUsage(ctx context.Context, name string, used limiter.Usage) error {
	return limiter.SettleUsage(ctx, name, used)
}

// Decisions returns the decisions of the innermost [Route] that has let a request pass, and false for another context.
func Decisions(ctx context.Context) (limiter.Decisions, bool) { return limiter.Taken(ctx) }
