package limithttp

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Limits is what a [Binder] takes tokens from: the generated *Limits, or a [*runtime.Limiter].
type Limits interface {
	All(ctx context.Context, items ...runtime.Item) (runtime.Decisions, error)
}

// Options are the settings of a [Binder]. The zero Options are a good default.
type Options struct {
	// Deny writes the response if the handler must not run. The fields of the response are already set, except
	// Content-Type. The default writes application/problem+json.
	Deny func(http.ResponseWriter, *http.Request, *Denial)
	// OnError, if not nil, is called with each error for which the status is 500 or more, before the response is written.
	// The default logs the first error that is a mistake of the program with [log/slog], and no failures of the store.
	OnError func(*http.Request, error)
	// AdvertiseShared adds the fields for limits without a key too. They show every client the load of all of them.
	AdvertiseShared bool
	// PartitionSecret, if not empty, adds the parameter pk to the fields: the start of an HMAC-SHA-256 of the key, by which
	// a client can tell its counts apart. The key cannot be found from it without the secret.
	PartitionSecret []byte
	// Legacy adds fields from before the draft.
	Legacy Legacy
}

// Binder binds limits to routes. It may be used by several goroutines.
type Binder struct {
	limits  Limits
	options Options
	mistake mistakeLog
	// now is the clock for the times in legacy fields.
	now func() time.Time
}

// New returns a Binder of limits.
func New(l Limits, o Options) *Binder { return &Binder{limits: l, options: o, now: time.Now} }

// Take takes the tokens of a request. The error is that of the limits, such as a failure of the store.
type Take func(ctx context.Context) (runtime.Decisions, error)

// Limit binds a limit: from returns the limit and the key of a request, or an error, for which the status is 400 or that of
// [Error].
func (b *Binder) Limit(from func(*http.Request) (runtime.Item, error)) *Route {
	return b.Group(func(r *http.Request) (Take, error) {
		item, err := from(r)
		return b.take(item), err
	})
}

// All binds several limits: tokens are taken from all of them or, if one denies, from none. See Limit for from.
func (b *Binder) All(from func(*http.Request) ([]runtime.Item, error)) *Route {
	return b.Group(func(r *http.Request) (Take, error) {
		items, err := from(r)
		return b.take(items...), err
	})
}

func (b *Binder) take(items ...runtime.Item) Take {
	return func(ctx context.Context) (runtime.Decisions, error) { return b.limits.All(ctx, items...) }
}

// Group binds a group of limits.yaml: from returns a function that calls the group's Allow, and returns the Decisions.
//
//	h.Group(func(r *http.Request) (limithttp.Take, error) {
//		team, err := teamOf(r)
//		return func(ctx context.Context) (limits.Decisions, error) {
//			d, err := limit.Complete(team, r.PathValue("model")).Allow(ctx, 1000)
//			return d.Decisions, err
//		}, err
//	})
func (b *Binder) Group(from func(*http.Request) (Take, error)) *Route { return &Route{b, from} }

// Route is limits that are bound to the requests of a route.
type Route struct {
	binder *Binder
	from   func(*http.Request) (Take, error)
}

// Wrap returns a handler that takes the tokens of a request, and calls next if there are enough of them. Requests of every
// method take tokens, HEAD and OPTIONS too. The context of the request that next gets is one for [Settle].
func (rt *Route) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ds, err := rt.take(r)
		if err == nil {
			quotas := rt.binder.quotas(ds)
			addFields(w.Header(), quotas)
			rt.binder.options.Legacy.set(w.Header(), quotas, rt.binder.now())
		}
		if err == nil && ds.Allowed {
			next.ServeHTTP(w, r.WithContext(withRequest(r.Context(), ds)))
			return
		}
		rt.binder.deny(w, r, denialOf(ds, err))
	})
}

// take returns the decisions on a request. The error has the status of a response.
func (rt *Route) take(r *http.Request) (runtime.Decisions, error) {
	take, err := rt.from(r)
	if err != nil {
		return runtime.Decisions{}, withStatus(http.StatusBadRequest, err)
	}
	if take == nil {
		return runtime.Decisions{}, withStatus(http.StatusInternalServerError, fmt.Errorf("%w: the Take is nil", runtime.ErrInvalidCall))
	}
	ds, err := take(r.Context())
	switch {
	case err != nil:
		return runtime.Decisions{}, withStatus(statusOf(err), err)
	case len(ds.Each) == 0:
		return runtime.Decisions{}, withStatus(http.StatusInternalServerError, fmt.Errorf("%w: there are no decisions", runtime.ErrInvalidCall))
	}
	return ds, nil
}
