package limiter

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ErrNotTaken: the context has no tokens taken from the limit that is to be settled.
var ErrNotTaken = errors.New("the request has not taken tokens from the limit")

// WithTaken returns a context with the decisions on a request, for [Settle] in what handles the request. It is for middleware:
// packages limithttp and limitgrpc call it.
func WithTaken(ctx context.Context, ds Decisions) context.Context {
	outer, _ := ctx.Value(takenKey{}).(*taken)
	return context.WithValue(ctx, takenKey{}, &taken{decisions: ds, outer: outer})
}

// Taken returns the decisions of the innermost [WithTaken], and false for another context.
func Taken(ctx context.Context) (Decisions, bool) {
	t, ok := ctx.Value(takenKey{}).(*taken)
	if !ok {
		return Decisions{}, false
	}
	return t.decisions, true
}

// Settle corrects the count of a request's tokens to the number really used, for costs that are known only afterwards. The
// context is one of [WithTaken]. Tokens that were not used are refunded, and those used beyond the tokens taken are charged:
// see [Reservation.Settle], also for how large the refund of a token bucket is.
//
// Settle works even if ctx has ended, and once for each limit: later the error is [runtime.ErrNotReserved]. If the request
// has taken from several limits, or from none, it is [ErrNotTaken]: use SettleLimit. Of contexts inside of each other, the
// innermost counts.
func Settle(ctx context.Context, used int64) error {
	t, _ := ctx.Value(takenKey{}).(*taken)
	switch names := t.names(); len(names) {
	case 0:
		return ErrNotTaken
	case 1:
		return t.settle(ctx, names[0], used)
	default:
		return fmt.Errorf("%w: it has taken from %s: name one with SettleLimit", ErrNotTaken, strings.Join(names, ", "))
	}
}

// SettleLimit is Settle for the limit with a name as in limits.yaml, such as "llmTokens". Of contexts inside of each other,
// the innermost with that limit counts. If the request has taken from several keys of the limit, the error is [ErrNotTaken].
func SettleLimit(ctx context.Context, name string, used int64) error {
	t, _ := ctx.Value(takenKey{}).(*taken)
	for ; t != nil; t = t.outer {
		for _, taken := range t.names() {
			if taken == name {
				return t.settle(ctx, name, used)
			}
		}
	}
	return fmt.Errorf("%w %q", ErrNotTaken, name)
}

type takenKey struct{}

// taken is what a request has taken.
type taken struct {
	decisions Decisions
	// outer is that of the middleware around this one.
	outer *taken
}

// names returns the names of the limits that the request has taken from, one for each item.
func (t *taken) names() (names []string) {
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

func (t *taken) settle(ctx context.Context, name string, used int64) error {
	r, err := t.settlement(name)
	if err != nil {
		return err
	}
	return r.Settle(ctx, used)
}

// settlement returns the only settlement of a limit.
func (t *taken) settlement(name string) (found *Reservation, err error) {
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
