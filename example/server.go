package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
)

const usage = `  curl -X POST 'localhost:8080/sign-ups'
  curl -X POST 'localhost:8080/messages?user=42'
  curl -X POST 'localhost:8080/logins?user=ada&password=wrong'
  curl -X POST 'localhost:8080/completions?team=blue&model=large&tokens=30000'
  curl -X POST 'localhost:8080/exports?org=7'
`

// reply is what the API answers.
type reply struct {
	Allowed      bool   `json:"allowed"`
	Limit        string `json:"limit,omitempty"`
	Remaining    int64  `json:"remaining"`
	RetryAfterMS int64  `json:"retryAfterMs,omitempty"`
	DelayMS      int64  `json:"delayMs,omitempty"`
	Error        string `json:"error,omitempty"`
}

// errBadRequest is what a caller did wrong.
var errBadRequest = errors.New("bad request")

// handler serves the API. Each endpoint asks, and answer turns what came of it into a response.
func handler(l *limits.Limits) http.Handler {
	mux := http.NewServeMux()
	api := func(pattern string, ask func(r *http.Request) (limits.Decision, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			d, err := ask(r)
			answer(w, d, err)
		})
	}
	api("POST /sign-ups", func(r *http.Request) (limits.Decision, error) {
		return l.FreeTrialSignUp().Allow(r.Context())
	})
	api("POST /messages", func(r *http.Request) (limits.Decision, error) {
		user, err := strconv.ParseInt(r.FormValue("user"), 10, 64)
		if err != nil {
			return limits.Decision{}, errors.Join(errBadRequest, err)
		}
		return l.SendMessage(user).Allow(r.Context())
	})
	api("POST /logins", func(r *http.Request) (limits.Decision, error) { return login(l, r) })
	api("POST /completions", func(r *http.Request) (limits.Decision, error) { return complete(l, r) })
	api("POST /exports", func(r *http.Request) (limits.Decision, error) {
		org, err := strconv.ParseUint(r.FormValue("org"), 10, 64)
		if err != nil {
			return limits.Decision{}, errors.Join(errBadRequest, err)
		}
		reservation, err := l.ExportData(org).Reserve(r.Context())
		if err != nil {
			return limits.Decision{}, err
		}
		return reservation.Decision, nil
	})
	return mux
}

// login takes first and forgives when the password was right, so that guesses made in parallel count too.
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

// complete takes a request and its tokens, and answers with the limit that stands in the way.
func complete(l *limits.Limits, r *http.Request) (limits.Decision, error) {
	team, model := r.FormValue("team"), r.FormValue("model")
	tokens, err := strconv.ParseInt(r.FormValue("tokens"), 10, 64)
	if err != nil {
		return limits.Decision{}, errors.Join(errBadRequest, err)
	}
	all, err := l.All(r.Context(), l.LLMRequests(team, model), l.LLMTokens(team, model).N(tokens))
	if err != nil {
		return limits.Decision{}, err
	}
	worst := all.Each[0]
	for _, d := range all.Each {
		if !d.Allowed {
			worst = d
		}
	}
	return worst, nil
}

// answer writes a decision: 200 if allowed, 429 if not, with whole seconds to wait, rounded up.
func answer(w http.ResponseWriter, d limits.Decision, err error) {
	status, body := http.StatusOK, reply{
		Allowed:      d.Allowed,
		Limit:        d.Limit,
		Remaining:    d.Remaining,
		RetryAfterMS: milliseconds(d.RetryAfter),
		DelayMS:      milliseconds(d.Delay),
	}
	switch {
	case errors.Is(err, errBadRequest), errors.Is(err, limits.ErrExceedsCapacity):
		status, body = http.StatusBadRequest, reply{Error: err.Error()}
	case err != nil:
		status, body = http.StatusServiceUnavailable, reply{Error: err.Error()}
	case !d.Allowed:
		status = http.StatusTooManyRequests
		w.Header().Set("Retry-After", strconv.FormatInt(int64((d.RetryAfter+time.Second-1)/time.Second), 10))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

// milliseconds rounds up, so that a retry is not too early.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
