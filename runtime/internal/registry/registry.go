// Package registry remembers which limits a store has compared with their registrations.
package registry

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Known has the limits that were compared. The zero Known has none. It may be used by many goroutines at once.
type Known struct {
	mu sync.Mutex
	// limits is replaced and never changed, so that decisions need no lock.
	limits atomic.Pointer[map[string]verdict]
}

// verdict is the error of a limit, or nil, and what the policy that was compared had.
type verdict struct {
	owner, key string
	err        error
	// until is when a limit that is refused is compared again.
	until time.Time
}

// Again is how long a limit stays refused before it is compared again: an operator may have adopted it meanwhile.
const Again = 30 * time.Second

// Of returns the error of a policy, or nil, and whether it was compared.
func (k *Known) Of(p *runtime.Policy) (err error, known bool) {
	limits := k.limits.Load()
	if limits == nil {
		return nil, false
	}
	v, ok := (*limits)[p.Name]
	if owner, key := p.Inside().Identity(); !ok || v.owner != owner || v.key != key || v.err != nil && !time.Now().Before(v.until) {
		return nil, false
	}
	return v.err, true
}

// Set stores the error of a policy, or nil.
func (k *Known) Set(p *runtime.Policy, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	limits := map[string]verdict{}
	if old := k.limits.Load(); old != nil {
		limits = maps.Clone(*old)
	}
	owner, key := p.Inside().Identity()
	limits[p.Name] = verdict{owner, key, err, time.Now().Add(Again)}
	k.limits.Store(&limits)
}

// Clear forgets all.
func (k *Known) Clear() {
	// A Set that has begun must not bring the old ones back.
	k.mu.Lock()
	defer k.mu.Unlock()
	k.limits.Store(nil)
}

// Admits reports whether no policy of the calls is refused, or has to be compared.
func (k *Known) Admits(calls []runtime.Call) bool {
	for i := range calls {
		for j := range calls[i].Requests {
			if p := calls[i].Requests[j].Policy; p != nil {
				if err, known := k.Of(p); err != nil || !known && valid(p) {
					return false
				}
			}
		}
	}
	return true
}

// Compared reports whether no policy of the calls has to be compared.
func (k *Known) Compared(calls []runtime.Call) bool {
	return !slices.ContainsFunc(calls, func(c runtime.Call) bool {
		return slices.ContainsFunc(c.Requests, func(q runtime.Request) bool {
			if q.Policy == nil {
				return false
			}
			_, known := k.Of(q.Policy)
			return !known && valid(q.Policy)
		})
	})
}

// valid reports whether a policy can be compared. The call of an invalid one has an error of its own.
func valid(p *runtime.Policy) bool { return p.Validate() == nil }

// Compare returns the error of a policy that was not compared yet, or nil, and whether that is to be remembered.
type Compare func(*runtime.Policy) (err error, remember bool)

// Refuse returns the errors of the calls with a policy that is refused, or nil if there is none.
func (k *Known) Refuse(calls []runtime.Call, compare Compare) (refused Refusals) {
	for i, c := range calls {
		if err := k.refusal(c, compare); err != nil {
			if refused == nil {
				refused = make(Refusals, len(calls))
			}
			refused[i] = err
		}
	}
	return refused
}

func (k *Known) refusal(c runtime.Call, compare Compare) error {
	for _, q := range c.Requests {
		if q.Policy == nil {
			continue
		}
		err, known := k.Of(q.Policy)
		if !known && valid(q.Policy) {
			var remember bool
			if err, remember = compare(q.Policy); remember {
				k.Set(q.Policy, err)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Refusals are the errors of calls, nil for those that are admitted. No Refusals admit all.
type Refusals []error

// Admitted returns the calls that are not refused.
func (r Refusals) Admitted(calls []runtime.Call) []runtime.Call {
	if r == nil {
		return calls
	}
	var admitted []runtime.Call
	for i, err := range r {
		if err == nil {
			admitted = append(admitted, calls[i])
		}
	}
	return admitted
}

// Answers returns the answers of all calls, from those of the admitted ones, of which some may be missing after an error.
func (r Refusals) Answers(admitted []runtime.Answer) []runtime.Answer {
	if r == nil {
		return admitted
	}
	all := make([]runtime.Answer, len(r))
	for i, err := range r {
		switch {
		case err != nil:
			all[i].Err = err
		case len(admitted) > 0:
			all[i], admitted = admitted[0], admitted[1:]
		}
	}
	return all
}
