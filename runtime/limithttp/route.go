package limithttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/middleware"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/once"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// Limit binds a limit: from returns the limit and the key of a request, nil for a request that passes without one, or an
// error, for which the status is the one of [Error], 500 if it is a mistake of the program such as [runtime.ErrInvalidPlan],
// 503 if it is one of the network or a context, as of a database that cannot be reached, or 400.
func (b *Binder) Limit(from func(*http.Request) (limiter.Item, error)) *Route {
	return b.Group(func(r *http.Request) (Take, error) {
		item, err := from(r)
		if item == nil {
			return nil, err
		}
		return b.take(item), err
	})
}

// All binds several limits: tokens are taken from all of them or, if one denies, from none. Without an item, a request
// passes. See Limit for from.
func (b *Binder) All(from func(*http.Request) ([]limiter.Item, error)) *Route {
	return b.Group(func(r *http.Request) (Take, error) {
		items, err := from(r)
		if len(items) == 0 {
			return nil, err
		}
		return b.take(items...), err
	})
}

// InFlight binds a limit in flight: a slot is held while the handler runs, and released when it returns or panics. For a
// connection that the handler has hijacked, such as a WebSocket, it is held until that is closed, and the route returns only
// then. See Limit for from.
//
//	exports := h.InFlight(func(r *http.Request) (limiter.SlotLimit, error) {
//		org, err := orgOf(r)
//		return limit.Exports(org), err
//	})
//
// The context of the request that the handler gets ends with the cause [runtime.ErrSlotLost] if the slot is lost, because
// the store has failed for longer than the hold: see [limiter.Slot.Do]. All and Group hold the slots of their items in the
// same way.
func (b *Binder) InFlight(from func(*http.Request) (limiter.SlotLimit, error)) *Route {
	return b.Limit(func(r *http.Request) (limiter.Item, error) { return from(r) })
}

func (b *Binder) take(items ...limiter.Item) Take {
	return func(ctx context.Context) (limiter.Decisions, error) { return b.limits.All(ctx, items...) }
}

// Group binds a group of limits.yaml: from returns a function that calls the group's Allow, and returns the Decisions; nil
// for a request that passes without limits.
//
//	h.Group(func(r *http.Request) (limithttp.Take, error) {
//		team, err := teamOf(r)
//		return func(ctx context.Context) (limits.Decisions, error) {
//			d, err := limit.Complete(team, r.PathValue("model")).Allow(ctx, 1000)
//			return d.Decisions, err
//		}, err
//	})
func (b *Binder) Group(from func(*http.Request) (Take, error)) *Route {
	return &Route{binder: b, from: from}
}

// Route is limits that are bound to the requests of a route.
type Route struct {
	binder *Binder
	from   func(*http.Request) (Take, error)
	// counts is that of CountWhen, or nil.
	counts func(status int) bool
}

// CountWhen returns a route with the same limits, of which a request counts only if counts returns true for the status of
// its response:
//
//	failed := h.Limit(loginsOf).CountWhen(func(status int) bool { return status == http.StatusUnauthorized })
//
// The tokens are taken before the handler runs, so that a burst of requests cannot pass together, and they are given back
// when it has returned. So the fields of the response, and requests meanwhile, count them. A handler that panics before it
// has written a status has 500, and a connection that it has hijacked 101. If the store fails, they stay taken, and
// Options.OnError gets the error. Tokens that the handler has settled stay as they are. Slots are released anyway.
func (rt *Route) CountWhen(counts func(status int) bool) *Route {
	return &Route{rt.binder, rt.from, counts}
}

// Wrap returns a handler that takes the tokens of a request, and calls next if there are enough of them. Requests of every
// method take tokens, HEAD and OPTIONS too. A limit that a route around this one has already taken for the request, from the
// same key and as many tokens at least, is not taken again. Slots are held while next runs: see [Binder.InFlight]. The
// context of the request that next gets is one for [Settle].
func (rt *Route) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, ds, err := rt.take(r)
		if err == nil && ds.Each == nil {
			next.ServeHTTP(w, r)
			return
		}
		if err == nil {
			var few [3]quota
			outer, _ := r.Context().Value(passedKey{}).(*passed)
			around := outer.quotas(few[:0])
			removeFields(w.Header(), around)
			quotas := rt.binder.quotas(around, ds)
			addFields(w.Header(), quotas)
			rt.binder.options.Legacy.set(w.Header(), quotas, rt.binder.now())
		}
		if err == nil && ds.Allowed {
			ctx := &passed{limiter.WithTaken(r.Context(), ds), rt.binder}
			rt.serve(w, r.WithContext(ctx), ds, next)
			return
		}
		rt.binder.deny(w, r, rt.binder.denialOf(ds, err))
	})
}

// serve calls a handler, and gives back the tokens of a request that does not count.
func (rt *Route) serve(w http.ResponseWriter, r *http.Request, ds limiter.Decisions, next http.Handler) {
	if rt.counts == nil {
		rt.binder.serve(w, r, ds, next)
		return
	}
	seen := &response{ResponseWriter: w}
	w = seen
	if h, ok := seen.hijackable(); ok {
		w = h
	}
	panics := true
	defer func() {
		if rt.counts(seen.statusAfter(panics)) {
			return
		}
		if err := ds.Cancel(r.Context()); err != nil && !errors.Is(err, runtime.ErrNotReserved) {
			rt.binder.report(r, err)
		}
	}()
	rt.binder.serve(w, r, ds, next)
	panics = false
}

type passedKey struct{}

// passed is the context of a request that a route of a binder has let pass.
type passed struct {
	context.Context
	binder *Binder
}

// Value returns p for passedKey, and otherwise the value of the context around it.
func (p *passed) Value(key any) any {
	if key == (passedKey{}) {
		return p
	}
	return p.Context.Value(key)
}

// quotas appends the items of the fields for the routes that a request has passed, of which p is the innermost. p may be
// nil.
func (p *passed) quotas(all []quota) []quota {
	if p == nil {
		return all
	}
	ds, _ := limiter.Taken(p.Context)
	outer, _ := p.Context.Value(passedKey{}).(*passed)
	return p.binder.quotas(outer.quotas(all), ds)
}

// take returns the decisions on a request, none if it passes without limits, and the request with the values that the
// route's function has handed on. The error has the status of a response.
func (rt *Route) take(r *http.Request) (*http.Request, limiter.Decisions, error) {
	before := r.Context()
	take, err := rt.from(r)
	r = handedOn(r, before)
	switch {
	case err != nil && runtime.OriginOf(err) == runtime.OriginProgram:
		err = withStatus(http.StatusInternalServerError, err)
	case middleware.Failed(err):
		err = withStatus(http.StatusServiceUnavailable, err)
	case err != nil:
		err = withStatus(http.StatusBadRequest, err)
	}
	if err != nil || take == nil {
		return r, limiter.Decisions{}, err
	}
	ds, err := takeIn(r.Context(), take)
	return r, ds, err
}

// takeIn returns the decisions of a function of [Binder.Group]. The error has the status of a response.
func takeIn(ctx context.Context, take Take) (limiter.Decisions, error) {
	if _, inside := limiter.Taken(ctx); inside {
		ctx = once.In(ctx)
	}
	ds, err := take(ctx)
	switch {
	case err != nil:
		return limiter.Decisions{}, withStatus(statusOf(err), err)
	case len(ds.Each) == 0:
		return limiter.Decisions{}, withStatus(http.StatusInternalServerError, fmt.Errorf("%w: there are no decisions", runtime.ErrInvalidCall))
	}
	return ds, nil
}
