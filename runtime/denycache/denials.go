package denycache

import (
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// denials are what is remembered. There are two generations: when the young one is full, the old one is
// forgotten, and the young one is old. The zero denials are empty.
type denials struct {
	young, old map[runtime.Row]denial
}

// generation is how many keys one generation holds.
const generation = 8192

// denial is the smallest count that a key was denied, and the decision on it.
type denial struct {
	count    int64
	decision runtime.Decision
	// at is when it was decided, and until how long it is answered.
	at, until time.Time
}

func row(q runtime.Request) runtime.Row { return runtime.Row{Name: q.Policy.Name, Key: q.Key} }

// find returns the decision on a request that is known to be denied.
func (d *denials) find(q runtime.Request, now time.Time) (runtime.Decision, bool) {
	if q.Policy == nil || d.young == nil {
		return runtime.Decision{}, false
	}
	known, ok := d.young[row(q)]
	if !ok {
		known, ok = d.old[row(q)]
	}
	if !ok || known.count != q.Count || now.Before(known.at) || !now.Before(known.until) {
		return runtime.Decision{}, false
	}
	return known.after(now.Sub(known.at)), true
}

// after returns the decision as it is when time has passed.
func (d denial) after(passed time.Duration) runtime.Decision {
	decision := d.decision
	decision.RetryAfter -= passed
	decision.FullAfter = max(0, decision.FullAfter-passed)
	return decision
}

// remember keeps a denial. One of a smaller count says more, and stays.
func (d *denials) remember(q runtime.Request, decision runtime.Decision, now time.Time) {
	until := now.Add(min(decision.RetryAfter, q.Policy.DenyCache))
	known, ok := d.young[row(q)]
	if ok && known.count < q.Count && now.Before(known.until) {
		return
	}
	if len(d.young) >= generation || d.young == nil {
		d.old, d.young = d.young, make(map[runtime.Row]denial)
	}
	d.young[row(q)] = denial{q.Count, decision, now, until}
}

// forget is for a key that may have been given something back.
func (d *denials) forget(q runtime.Request) {
	delete(d.young, row(q))
	delete(d.old, row(q))
}
