package limithttp

import (
	"context"
	"net/http"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/internal/middleware"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// Limits is what a [Binder] takes tokens from: the generated *Limits, or a [*limiter.Limiter].
type Limits interface {
	All(ctx context.Context, items ...limiter.Item) (limiter.Decisions, error)
}

// Options are the settings of a [Binder]. The zero Options are a good default.
type Options struct {
	// Deny writes the response if the handler must not run. The fields of the response are already set, except
	// Content-Type. The default writes application/problem+json.
	Deny func(http.ResponseWriter, *http.Request, *Denial)
	// OnError, if not nil, is called with each error for which the status is 500 or more, before the response is written.
	// The default logs it with [log/slog], at most one each second.
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
	log     middleware.Pace
	holds   middleware.Times
	// now is the clock for the log, and for the times in legacy fields.
	now func() time.Time
}

// New returns a Binder of limits.
func New(l Limits, o Options) *Binder { return &Binder{limits: l, options: o, now: time.Now} }

// Take takes the tokens of a request. The error is that of the limits, such as a failure of the store.
type Take func(ctx context.Context) (limiter.Decisions, error)

// problem is the body of a response, a problem details object of RFC 9457.
type problem struct {
	Type             string   `json:"type"`
	Title            string   `json:"title"`
	Status           int      `json:"status"`
	Detail           string   `json:"detail,omitempty"`
	Reason           string   `json:"reason,omitempty"`
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
}
