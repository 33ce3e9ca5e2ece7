// Package limitgrpc puts limits in front of gRPC services.
//
//	b := limitgrpc.New(limit, limitgrpc.Options{})
//	perUser := b.Limit(func(ctx context.Context, c limitgrpc.Call) (limits.Item, error) {
//		user, err := userOf(ctx)
//		return limit.SendMessage(user), err
//	})
//	server := grpc.NewServer(grpc.UnaryInterceptor(perUser.Unary), grpc.StreamInterceptor(perUser.Stream))
//
// Interceptors see the calls of all services. A function that returns a nil Item, or no items, lets a call pass without a
// limit:
//
//	if !strings.HasPrefix(c.Method, "/chat.v1.Chat/") {
//		return nil, nil
//	}
//
// A limit that an interceptor before has already taken for a call, from the same key and as many tokens at least, is not
// taken again.
//
// With [Binder.InFlight], a slot of a limit in flight is held while the handler of a call or of a stream runs.
//
// # What clients see
//
//	a limit denies                                RESOURCE_EXHAUSTED  RetryInfo with the wait and the limit's jitter, unless
//	                                                                  no retry passes, and for slots how long calls have held
//	                                                                  theirs lately; QuotaFailure with the limits' names
//	more than the capacity, an empty key          INVALID_ARGUMENT    do not retry
//	an error of the function                      that of the error's GRPCStatus, or INVALID_ARGUMENT
//	the call was cancelled, its deadline passed   CANCELLED, DEADLINE_EXCEEDED
//	the store failed                              UNAVAILABLE         RetryInfo with a second
//	a mistake of the program                      INTERNAL
//
// The text of an error stays on the server: see Options.OnError. Clients of grpc-go find the wait with
// [google.golang.org/grpc/status.Status.Details]. If the store fails and all limits of a call have onError: open or local,
// the handler runs; the end of a call's own deadline opens no limit.
package limitgrpc

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/middleware"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/once"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// Limits is what a [Binder] takes tokens from: the generated *Limits, or a [*limiter.Limiter].
type Limits interface {
	All(ctx context.Context, items ...limiter.Item) (limiter.Decisions, error)
}

// Options are the settings of a [Binder]. The zero Options are a good default.
type Options struct {
	// OnError, if not nil, is called with each error whose code is Unavailable or Internal, before the client gets it. The
	// error is the one of the limits, with its text. The default logs it with [log/slog], at most one each second.
	OnError func(ctx context.Context, c Call, err error)
}

// Call is a call of a method.
type Call struct {
	// Method is the full name, such as "/chat.v1.Chat/Send".
	Method string
	// Request is the message of a unary call. It is nil for a stream, whose messages come later.
	Request any
}

// Take takes the tokens of a call. The error is that of the limits, such as a failure of the store.
type Take func(ctx context.Context) (limiter.Decisions, error)

// Binder binds limits to calls. It may be used by several goroutines.
type Binder struct {
	limits  Limits
	options Options
	log     middleware.Pace
	holds   middleware.Times
}

// New returns a Binder of limits.
func New(l Limits, o Options) *Binder { return &Binder{limits: l, options: o} }

// Limit binds a limit: from returns the limit and the key of a call, nil for a call without a limit, or an error.
func (b *Binder) Limit(from func(context.Context, Call) (limiter.Item, error)) *Interceptor {
	return b.All(func(ctx context.Context, c Call) ([]limiter.Item, error) {
		item, err := from(ctx, c)
		if item == nil {
			return nil, err
		}
		return []limiter.Item{item}, err
	})
}

// All binds several limits: tokens are taken from all of them or, if one denies, from none. See Limit for from.
func (b *Binder) All(from func(context.Context, Call) ([]limiter.Item, error)) *Interceptor {
	return b.Group(func(ctx context.Context, c Call) (Take, error) {
		items, err := from(ctx, c)
		if len(items) == 0 {
			return nil, err
		}
		return func(ctx context.Context) (limiter.Decisions, error) { return b.limits.All(ctx, items...) }, err
	})
}

// InFlight binds a limit in flight: a slot is held while the handler of a unary call or of a stream runs, and released when
// it returns or panics. The context of the handler ends with the cause
// [github.com/ratelimitgen/ratelimitgen/runtime.ErrSlotLost] if the slot is lost: see [limiter.Slot.Do]. All and Group hold
// the slots of their items in the same way. from also returns false for a call without a limit.
func (b *Binder) InFlight(from func(context.Context, Call) (l limiter.SlotLimit, ok bool, err error)) *Interceptor {
	return b.Limit(func(ctx context.Context, c Call) (limiter.Item, error) {
		l, ok, err := from(ctx, c)
		if !ok {
			return nil, err
		}
		return l, err
	})
}

// Group binds a group of limits.yaml: from returns a function that calls the group's Allow, and returns the Decisions; nil
// for a call without a limit.
//
//	b.Group(func(ctx context.Context, c limitgrpc.Call) (limitgrpc.Take, error) {
//		team, err := teamOf(ctx)
//		return func(ctx context.Context) (limits.Decisions, error) {
//			d, err := limit.Complete(team, "large").Allow(ctx, 1000)
//			return d.Decisions, err
//		}, err
//	})
func (b *Binder) Group(from func(context.Context, Call) (Take, error)) *Interceptor {
	return &Interceptor{b, from}
}

// Interceptor is limits that are bound to calls. Its methods are interceptors of grpc-go.
type Interceptor struct {
	binder *Binder
	from   func(context.Context, Call) (Take, error)
}

// Unary takes the tokens of a call, and runs its handler if there are enough of them. The context of the handler is one
// for [limiter.Settle].
func (i *Interceptor) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
	err = i.run(ctx, Call{Method: info.FullMethod, Request: request}, func(ctx context.Context) (failed error) {
		response, failed = handler(ctx, request)
		return failed
	})
	return response, err
}

// Stream takes the tokens of a stream when it begins: its messages take none. A handler that limits those too calls the
// limit for each, and returns [Binder.Deny] of its error. The context of the stream is one for [limiter.Settle].
func (i *Interceptor) Stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) error {
	return i.run(stream.Context(), Call{Method: info.FullMethod}, func(ctx context.Context) error {
		return handler(service, &streamWithContext{stream, ctx})
	})
}

type streamWithContext struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *streamWithContext) Context() context.Context { return s.ctx }

// run takes the tokens of a call, and runs its handler while the slots are held, if it has acquired any. The error is the
// one for the client.
func (i *Interceptor) run(ctx context.Context, c Call, handler func(ctx context.Context) error) (err error) {
	take, err := i.from(ctx, c)
	if err != nil {
		return i.binder.refuse(ctx, c, ofFunction(err))
	}
	if take == nil {
		return handler(ctx)
	}
	within := ctx
	if _, inside := limiter.Taken(ctx); inside {
		within = once.In(ctx)
	}
	ds, err := take(within)
	switch {
	case err == nil && len(ds.Each) == 0:
		err = fmt.Errorf("%w: there are no decisions", runtime.ErrInvalidCall)
	case err == nil && !ds.Allowed:
		return i.binder.denial(ds).Err()
	}
	if err != nil {
		return i.binder.refuse(ctx, c, err)
	}
	begun := time.Now()
	held := ds.Do(limiter.WithTaken(ctx, ds), func(ctx context.Context) error {
		err = handler(ctx)
		return nil
	})
	i.binder.holds.Add(ds.Each, time.Since(begun))
	if held != nil {
		i.binder.report(ctx, c, held)
	}
	return err
}
