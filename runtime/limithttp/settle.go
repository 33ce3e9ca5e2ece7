package limithttp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// ErrNotTaken: the request has not taken tokens from the limit that is to be settled.
var ErrNotTaken = errors.New("the request has not taken tokens from the limit")

// Settle corrects the count of a request's tokens to the number really used, for costs that are known only afterwards. The
// context is that of the request that the handler of a [Route] got. Tokens that were not used are refunded, and those used
// beyond the tokens taken are charged: see [limiter.Reservation.Settle], also for how large the refund of a token bucket is.
//
// Settle works even if ctx has ended, and once for each limit: later the error is [runtime.ErrNotReserved]. If the request
// has taken from several limits, or from none, it is [ErrNotTaken]: use SettleLimit. Of routes inside of each other, the
// innermost counts.
func Settle(ctx context.Context, used int64) error {
	t, _ := ctx.Value(requestKey{}).(*request)
	switch names := t.names(); len(names) {
	case 0:
		return ErrNotTaken
	case 1:
		return t.settle(ctx, names[0], used)
	default:
		return fmt.Errorf("%w: it has taken from %s: name one with SettleLimit", ErrNotTaken, strings.Join(names, ", "))
	}
}

// SettleLimit is Settle for the limit with a name as in limits.yaml, such as "llmTokens". Of routes inside of each other,
// the innermost with that limit counts. If the request has taken from several keys of the limit, the error is [ErrNotTaken].
func SettleLimit(ctx context.Context, name string, used int64) error {
	t, _ := ctx.Value(requestKey{}).(*request)
	for ; t != nil; t = t.outer {
		for _, taken := range t.names() {
			if taken == name {
				return t.settle(ctx, name, used)
			}
		}
	}
	return fmt.Errorf("%w %q", ErrNotTaken, name)
}

// Decisions returns the decisions of the innermost [Route] that has let a request pass, and false for another context.
func Decisions(ctx context.Context) (limiter.Decisions, bool) {
	t, ok := ctx.Value(requestKey{}).(*request)
	if !ok {
		return limiter.Decisions{}, false
	}
	return t.decisions, true
}

type requestKey struct{}

// request is one that a [Route] has let pass.
type request struct {
	decisions limiter.Decisions
	// outer is that of the route around this one.
	outer *request
}

func withRequest(ctx context.Context, ds limiter.Decisions) context.Context {
	outer, _ := ctx.Value(requestKey{}).(*request)
	return context.WithValue(ctx, requestKey{}, &request{decisions: ds, outer: outer})
}

// names returns the names of the limits that the request has taken from, one for each item.
func (t *request) names() (names []string) {
	if t == nil {
		return nil
	}
	for i := range t.decisions.Each {
		if _, ok := t.decisions.Settlement(i); ok {
			names = append(names, t.decisions.Each[i].Limit)
		}
	}
	return names
}

func (t *request) settle(ctx context.Context, name string, used int64) error {
	r, err := t.settlement(name)
	if err != nil {
		return err
	}
	return r.Settle(ctx, used)
}

// settlement returns the only settlement of a limit.
func (t *request) settlement(name string) (found *limiter.Reservation, err error) {
	for i := range t.decisions.Each {
		r, ok := t.decisions.Settlement(i)
		if !ok || t.decisions.Each[i].Limit != name {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%w %q only: it has taken from several of its keys", ErrNotTaken, name)
		}
		found = r
	}
	return found, nil
}
