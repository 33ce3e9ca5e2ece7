package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
)

// usage returns example calls of the API.
func usage(url string) string {
	return fmt.Sprintf(`Listening on %[1]s

  curl -X POST '%[1]s/sign-ups'
  curl -X POST '%[1]s/messages?user=42'
  curl -X POST '%[1]s/logins?user=ada&password=wrong'
  curl -X POST '%[1]s/completions?team=blue&model=large&tokens=30000'
  curl -X POST '%[1]s/exports?org=7'
`, url)
}

// reply is the body of a response.
type reply struct {
	Allowed      bool   `json:"allowed"`
	Limit        string `json:"limit,omitempty"`
	Remaining    int64  `json:"remaining"`
	RetryAfterMS int64  `json:"retryAfterMs,omitempty"`
	DelayMS      int64  `json:"delayMs,omitempty"`
	Error        string `json:"error,omitempty"`
}

// errBadRequest is an error in a parameter of the request.
var errBadRequest = errors.New("bad request")

// number parses a parameter of a request as a number.
func number(r *http.Request, name string) (int64, error) {
	n, err := strconv.ParseInt(r.FormValue(name), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s must be a number, not %q", errBadRequest, name, r.FormValue(name))
	}
	return n, nil
}

// handler serves the API. Each endpoint returns a decision, and respond writes it.
func handler(l *limits.Limits) http.Handler {
	mux := http.NewServeMux()
	api := func(pattern string, decide func(r *http.Request) (limits.Decision, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			d, err := decide(r)
			respond(w, d, err)
		})
	}
	api("POST /sign-ups", func(r *http.Request) (limits.Decision, error) {
		return l.FreeTrialSignUp().Allow(r.Context())
	})
	api("POST /messages", func(r *http.Request) (limits.Decision, error) {
		user, err := number(r, "user")
		if err != nil {
			return limits.Decision{}, err
		}
		return l.SendMessage(user).Allow(r.Context())
	})
	api("POST /logins", func(r *http.Request) (limits.Decision, error) { return login(l, r) })
	api("POST /completions", func(r *http.Request) (limits.Decision, error) { return complete(l, r) })
	api("POST /exports", func(r *http.Request) (limits.Decision, error) {
		org, err := number(r, "org")
		if err != nil {
			return limits.Decision{}, err
		}
		reservation, err := l.ExportData(uint64(org)).Reserve(r.Context())
		if err != nil {
			return limits.Decision{}, err
		}
		return reservation.Decision, nil
	})
	return mux
}

// login takes a token before it compares the password, and resets the limit if the password is right. In the other
// order, parallel guesses would not count.
func login(l *limits.Limits, r *http.Request) (limits.Decision, error) {
	failed := l.FailedLogins(r.FormValue("user"))
	d, err := failed.Allow(r.Context())
	if err != nil || !d.Allowed {
		return d, err
	}
	if r.FormValue("password") == "right" {
		return d, failed.Reset(r.Context())
	}
	return d, nil
}

// complete takes a request and its tokens, both or neither, by a group of limits. It returns the decision with the longest
// RetryAfter.
func complete(l *limits.Limits, r *http.Request) (limits.Decision, error) {
	team, model := r.FormValue("team"), r.FormValue("model")
	tokens, err := number(r, "tokens")
	if err != nil {
		return limits.Decision{}, err
	}
	all, err := l.Complete(team, model).Allow(r.Context(), tokens)
	if err != nil {
		return limits.Decision{}, err
	}
	return slices.MaxFunc(all.Each, func(a, b limits.Decision) int {
		return cmp.Compare(a.RetryAfter, b.RetryAfter) // 0 if allowed
	}), nil
}

// respond writes a decision with the status 200 if it is allowed, and otherwise 429 with Retry-After.
func respond(w http.ResponseWriter, d limits.Decision, err error) {
	status, body := http.StatusOK, reply{
		Allowed:      d.Allowed,
		Limit:        d.Limit,
		Remaining:    d.Remaining,
		RetryAfterMS: milliseconds(d.RetryAfter),
		DelayMS:      milliseconds(d.Delay),
	}
	switch {
	// A count above the capacity never passes, so 429 would be wrong: it invites a retry.
	case errors.Is(err, errBadRequest), errors.Is(err, limits.ErrExceedsCapacity), errors.Is(err, limits.ErrInvalidCount):
		status, body = http.StatusBadRequest, reply{Error: err.Error()}
	case err != nil: // the store could not decide, so the request is not served
		status, body = http.StatusServiceUnavailable, reply{Error: err.Error()}
	case !d.Allowed:
		status = http.StatusTooManyRequests
		// In whole seconds, rounded up: a retry before RetryAfter would be denied.
		w.Header().Set("Retry-After", strconv.FormatInt(int64((d.RetryAfter+time.Second-1)/time.Second), 10))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

// milliseconds rounds up, so that a retry is not denied for being early.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
