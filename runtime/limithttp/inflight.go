package limithttp

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// serve calls a handler while the slots of a request are held, if it has acquired any.
func (b *Binder) serve(w http.ResponseWriter, r *http.Request, ds limiter.Decisions, next http.Handler) {
	if !slices.ContainsFunc(ds.Each, func(d runtime.Decision) bool { return d.Fence != 0 }) {
		next.ServeHTTP(w, r)
		return
	}
	begun := time.Now()
	defer func() { b.holds.Add(ds.Each, time.Since(begun)) }()
	err := ds.Do(r.Context(), func(ctx context.Context) error {
		seen, to := &response{ResponseWriter: w}, w
		if h, ok := seen.hijackable(); ok {
			to = h
		}
		next.ServeHTTP(to, r.WithContext(ctx))
		seen.wait()
		return nil
	})
	if err != nil && b.options.OnError != nil {
		b.options.OnError(r, err)
	}
}
