package limithttp

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// Hint is the state of a limit for the key of a client, from which the client can calculate when its next request passes:
// to disable a button, or to show the tokens left. Times are in seconds.
//
// Between two hints, a token bucket has min(capacity, value + seconds since * rate / period) tokens. A fixed window has
// value until resetAfter. A blocked key has no tokens: ask again after retryAfter. The store decides in any case.
type Hint struct {
	Limit   string `json:"limit"`
	Kind    string `json:"kind"`
	Precise bool   `json:"precise,omitempty"`
	// Unlimited means that the limit denies nothing, and counts the tokens Used in the window: Rate, Capacity, Value and
	// Remaining have no meaning then.
	Unlimited bool    `json:"unlimited,omitempty"`
	Rate      int64   `json:"rate"`
	Period    float64 `json:"period"`
	// Capacity is the most tokens that can accumulate. For a limit in flight it is the number of slots, and Rate and Period
	// are 0.
	Capacity int64 `json:"capacity"`
	// Value is the number of tokens left with the fraction, negative if the key is in debt, and Remaining the whole ones.
	Value     float64 `json:"value"`
	Remaining int64   `json:"remaining"`
	// Used is the capacity less the tokens left. For a window whose capacity is its rate, that is how many were taken in it.
	// It is 0 for a limit or a key with a block, whose tokens are not read.
	Used int64 `json:"used"`
	// FullAfter is how long it takes until the whole capacity is available, and ResetAfter until the current window ends, 0
	// without a window.
	FullAfter  float64 `json:"fullAfter"`
	ResetAfter float64 `json:"resetAfter"`
	// ResetAt is when the current window ends, to the second by the clock of the store; it is missing without a window. It is
	// in the time zone of a calendar, or of the key, which is Zone, by its name in the IANA database, and otherwise in UTC.
	ResetAt time.Time `json:"resetAt,omitzero"`
	Zone    string    `json:"zone,omitempty"`
	// Blocked means that all requests are denied, because of a block or a penalty, and RetryAfter is how long: it is missing
	// for a block without an end.
	Blocked    bool    `json:"blocked,omitempty"`
	RetryAfter float64 `json:"retryAfter,omitempty"`
}

// Hints returns a handler of GET requests for the tokens left of limits. It takes none, and is not observed. The function
// from returns the limits with the key of the client that asks: take it from the session or the address, and not from a
// parameter of the request, which would show the counts of others. The items may be those of a route: how many tokens they
// take does not matter.
//
// The response is {"limits": [...]}, with a [Hint] for each limit that has a RateLimit field or only counts: those without a
// key, and those with a lease, are left out.
func (b *Binder) Hints(from func(*http.Request) ([]limiter.Item, error)) http.Handler {
	route := b.All(func(r *http.Request) ([]limiter.Item, error) {
		items, err := from(r)
		if err != nil {
			return nil, err
		}
		checks := make([]limiter.Item, len(items))
		for i, item := range items {
			if of, ok := item.(interface{ CheckedN(n int64) limiter.Item }); ok { // else it is nil, and the call has the error
				checks[i] = of.CheckedN(0)
			}
		}
		return checks, nil
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "hints are read with GET", http.StatusMethodNotAllowed)
			return
		}
		r, ds, err := route.take(r)
		if err != nil {
			b.deny(w, r, b.denialOf(ds, err))
			return
		}
		b.writeHints(w, ds)
	})
}

func (b *Binder) writeHints(w http.ResponseWriter, ds limiter.Decisions) {
	response := struct {
		Limits []Hint `json:"limits"`
	}{Limits: []Hint{}}
	for i := range ds.Each {
		if b.advertises(ds, i) && !leased(&ds.Each[i]) {
			response.Limits = append(response.Limits, hintOf(&ds.Each[i], ds.ResetAt(i)))
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(response)
}

func hintOf(d *runtime.Decision, resetAt time.Time) Hint {
	p := d.Policy
	h := Hint{
		Limit: d.Limit, Kind: p.Kind.String(), Precise: p.Precise, Unlimited: unlimited(p), Rate: p.Rate, Period: p.Period.Seconds(), Capacity: p.Full(),
		Value: d.Value, Remaining: d.Remaining,
		FullAfter: d.FullAfter.Seconds(), ResetAfter: d.ResetAfter.Seconds(), Zone: p.Calendar.Zone,
	}
	if d.BlockedFor == 0 {
		h.Used = p.Inside().Used(d.Value)
	}
	if h.ResetAt = resetAt.Round(time.Second); p.Calendar.ZonePerKey && !resetAt.IsZero() {
		h.Zone = resetAt.Location().String()
	}
	if wait := deniedFor(d); wait > 0 || p.Inside().Zero() {
		if h.Blocked = true; wait != runtime.Never {
			h.RetryAfter = wait.Seconds()
		}
	}
	return h
}
