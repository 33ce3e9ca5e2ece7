package limithttp

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// Deny writes the response if a limit that the handler has called itself returns err, in a transaction for example: the one
// that a [Route] writes, without the RateLimit fields. An error of something else gets the status of [Error], or 503.
//
//	err := sqlstore.RunInTx(ctx, db, func(tx *sql.Tx) error { ... return limit.WithTx(tx).SendMessage(id).Require(ctx) })
//	if err != nil {
//		h.Deny(w, r, err)
//		return
//	}
//
// [Binder.Handler] does so for a function that returns err.
//
// The error of a denied reservation is its Err; Reserve has none for it. An err of nil is a mistake of the program, with the
// status 500.
func (b *Binder) Deny(w http.ResponseWriter, r *http.Request, err error) {
	if err == nil {
		err = errNoDenial
	}
	if limited, ok := errors.AsType[*runtime.LimitedError](err); ok {
		d := limited.Decision
		b.deny(w, r, b.denialOf(limiter.Decisions{RetryAfter: d.RetryAfter, Each: []runtime.Decision{d}}, nil))
		return
	}
	b.deny(w, r, b.denialOf(limiter.Decisions{}, err))
}

var errNoDenial = Error(http.StatusInternalServerError,
	errors.New("Deny was called without an error: pass the Err of a denied reservation"))

// Handler returns a handler of a function with an error, for handlers that call limits themselves: an error is answered as
// [Binder.Deny] does. The function writes nothing before it returns one.
//
//	mux.Handle("POST /messages", h.Handler(func(w http.ResponseWriter, r *http.Request) error {
//		if err := limit.SendMessage(userOf(r)).Require(r.Context()); err != nil {
//			return err
//		}
//		return post(w, r)
//	}))
func (b *Binder) Handler(serve func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := serve(w, r); err != nil {
			b.Deny(w, r, err)
		}
	})
}

// deny reports an error, and writes the response of a denial.
func (b *Binder) deny(w http.ResponseWriter, r *http.Request, d *Denial) {
	if d.Status >= http.StatusInternalServerError {
		b.report(r, d.Err)
	}
	if d.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(seconds(d.RetryAfter), 10))
	}
	if b.options.Deny != nil {
		b.options.Deny(w, r, d)
		return
	}
	d.WriteProblem(w)
}

// report tells the program about an error that clients do not see.
func (b *Binder) report(r *http.Request, err error) {
	switch {
	case errors.Is(err, context.Canceled): // the client has gone
	case b.options.OnError != nil:
		b.options.OnError(r, err)
	case b.log.Due(b.now()):
		slog.ErrorContext(r.Context(), "limithttp: a request could not be decided, or its tokens given back", "error", err)
	}
}
