package limithttp

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// Denial is the reason why a handler did not run.
type Denial struct {
	// Status is the status of the response: 429 if a limit denies, and otherwise that of the error.
	Status int
	// RetryAfter is what the client should wait, with jitter, as in the field Retry-After. It is 0 if the response has no
	// such field, because no retry passes or the request itself is at fault.
	RetryAfter time.Duration
	// Reason is the [runtime.Decision.Reason] of the limit that denies for the longest time; "" if Err is not nil.
	Reason string
	// Decisions are those of the limits if Err is nil.
	Decisions limiter.Decisions
	// Err is nil if a limit denies. It may have details that a client must not see.
	Err error
}

// storeRetry is the Retry-After if the store fails.
const storeRetry = time.Second

func (b *Binder) denialOf(ds limiter.Decisions, err error) *Denial {
	if err != nil {
		d := &Denial{Status: statusOf(err), Err: err}
		if d.Status == http.StatusServiceUnavailable {
			d.RetryAfter = storeRetry
		}
		return d
	}
	d := &Denial{Status: http.StatusTooManyRequests, Reason: longest(ds).Reason(), Decisions: ds,
		RetryAfter: b.holds.RetryIn(ds.Each)}
	if d.RetryAfter == runtime.Never {
		d.RetryAfter = 0
	}
	return d
}

// longest returns the decision that denies for the longest time; the zero one if none denies.
func longest(ds limiter.Decisions) (d runtime.Decision) {
	if limited, ok := errors.AsType[*runtime.LimitedError](ds.Err()); ok {
		d = limited.Decision
	}
	return d
}

// Error returns err with the status of the response to a request for which a function of [Binder.Limit] returns it. The
// status is 400 to 599; any other is 500. An err of nil is returned as nil. Any error with the method StatusCode() int
// works in the same way.
func Error(status int, err error) error {
	if err == nil {
		return nil
	}
	return &statusError{status, err}
}

// coded is an error with a status.
type coded interface {
	error
	StatusCode() int
}

type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string   { return e.err.Error() }
func (e *statusError) Unwrap() error   { return e.err }
func (e *statusError) StatusCode() int { return e.status }

// Origin is for [runtime.OriginOf].
func (e *statusError) Origin() runtime.Origin {
	switch status := statusOf(e); {
	case status == http.StatusInternalServerError:
		return runtime.OriginProgram
	case status < http.StatusInternalServerError:
		return runtime.OriginRequest
	}
	return runtime.OriginStore
}

// withStatus returns an error with a status, unless it has one already.
func withStatus(status int, err error) error {
	if _, ok := errors.AsType[coded](err); ok {
		return err
	}
	return &statusError{status, err}
}

// statusOf returns the status of an error: its own, or that for an error of the limits.
func statusOf(err error) int {
	if own, ok := errors.AsType[coded](err); ok {
		if status := own.StatusCode(); 400 <= status && status <= 599 {
			return status
		}
		return http.StatusInternalServerError
	}
	switch runtime.OriginOf(err) {
	case runtime.OriginRequest:
		return http.StatusBadRequest
	case runtime.OriginProgram:
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable
}

// WriteProblem writes the status and the body that the default of Options.Deny writes: a problem details object.
func (d *Denial) WriteProblem(w http.ResponseWriter) {
	p := problem{Type: "about:blank", Title: http.StatusText(d.Status), Status: d.Status}
	switch {
	case d.Err == nil:
		p.Type, p.Title = problemOf(longest(d.Decisions))
		p.Reason, p.ViolatedPolicies = d.Reason, violated(d.Decisions)
	case errors.Is(d.Err, runtime.ErrExceedsCapacity):
		p.Detail = "The request needs more than a limit allows at once. Waiting does not help."
	}
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // texts and a number can always be encoded
	}
	h := w.Header()
	h.Del("Content-Encoding")
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(d.Status)
	w.Write(body)
}

// violated returns the names of the limits that deny, once each.
func violated(ds limiter.Decisions) (names []string) {
	for _, name := range ds.DeniedBy() {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Legacy is a form of the fields X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Used, X-RateLimit-Resource and
// X-RateLimit-Reset. They can show one limit: the one of a route that has the least left. Used is the capacity minus
// Remaining, and Resource is the limit's name. X-RateLimit-Reset is missing if no time makes more available for certain, as
// for a block without an end and for slots.
type Legacy uint8

const (
	// LegacyNone sends no such fields.
	LegacyNone Legacy = iota
	// LegacyGitHub has the reset as a time, in seconds since 1970 UTC.
	LegacyGitHub
	// LegacySeconds has the reset in seconds from now.
	LegacySeconds
)

// set sets the fields.
func (l Legacy) set(h http.Header, all []quota, now time.Time) {
	if l == LegacyNone {
		return
	}
	var least *quota
	for i := range all {
		q := &all[i]
		if !q.leased && (least == nil || q.scarcerThan(least)) {
			least = q
		}
	}
	if least == nil {
		return
	}
	h.Set("X-RateLimit-Limit", strconv.FormatInt(least.capacity, 10))
	h.Set("X-RateLimit-Remaining", strconv.FormatInt(least.remain, 10))
	h.Set("X-RateLimit-Used", strconv.FormatInt(least.capacity-least.remain, 10))
	h.Set("X-RateLimit-Resource", least.name)
	reset := least.reset
	if reset == 0 {
		// A client would take the present for the end of a block.
		h.Del("X-RateLimit-Reset")
		return
	}
	if l == LegacyGitHub {
		reset += now.Unix()
	}
	h.Set("X-RateLimit-Reset", strconv.FormatInt(reset, 10))
}
