package limithttp

import (
	"context"
	"net/http"
)

// HandOn hands a value that the function of a route has loaded to the handler, which gets it by [Loaded], so that it is
// loaded once:
//
//	perCustomer := h.Limit(func(r *http.Request) (limits.Item, error) {
//		c, err := customerOf(r)
//		limithttp.HandOn(r, c)
//		return limit.APICalls(c.ID, c.Plan), err
//	})
//
// The request is that of the function, which calls HandOn before it returns. The handler has the value also if the request
// passes without a limit, and Options.Deny and Options.OnError have it too. There is one value of each type: the last one.
func HandOn[T any](r *http.Request, value T) {
	*r = *r.WithContext(&handed{r.Context(), loadedKey[T]{}, value})
}

// Loaded returns the value of a type that the function of a route has handed on with [HandOn], and false for another
// context.
func Loaded[T any](ctx context.Context) (T, bool) {
	value, ok := ctx.Value(loadedKey[T]{}).(T)
	return value, ok
}

type loadedKey[T any] struct{}

// handed is the context of a request for which HandOn was called.
type handed struct {
	context.Context
	key, value any
}

// Value implements [context.Context].
func (h *handed) Value(key any) any {
	if key == h.key {
		return h.value
	}
	return h.Context.Value(key)
}

// handedOn returns the request for the handler, after a function that was called with r and the context before. The
// middleware around gave r, and must not see it changed.
func handedOn(r *http.Request, before context.Context) *http.Request {
	if _, ok := r.Context().(*handed); !ok {
		return r
	}
	next := r.WithContext(r.Context())
	*r = *r.WithContext(before)
	return next
}
