package denycache

import (
	"strings"
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
	policy   *runtime.Policy
	count    int64
	decision runtime.Decision
	// at is when it was learnt, and until how long it is answered.
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
	if !ok || !known.of(q) || now.Before(known.at) || !now.Before(known.until) {
		return runtime.Decision{}, false
	}
	return known.after(now.Sub(known.at)), true
}

// of reports whether the denial is one of a request. That of an edited policy would be another.
func (d denial) of(q runtime.Request) bool {
	return d.count == q.Count && (d.policy == q.Policy || *d.policy == *q.Policy)
}

// after returns the decision as it is when time has passed.
func (d denial) after(passed time.Duration) runtime.Decision {
	decision := d.decision
	decision.RetryAfter -= passed
	decision.FullAfter = max(0, decision.FullAfter-passed)
	return decision
}

// remember keeps a denial that was asked for and has been learnt now. One of a smaller count says more, and
// stays. The tokens may have come back as soon as it was decided, so the policy's time begins with the question;
// they are due that long after it was decided, so RetryAfter is not over before the answer's is.
func (d *denials) remember(q runtime.Request, decision runtime.Decision, asked, now time.Time) {
	until := now.Add(decision.RetryAfter)
	if end := asked.Add(q.Policy.DenyCache); end.Before(until) {
		until = end
	}
	if !now.Before(until) {
		return
	}
	known, ok := d.young[row(q)]
	if ok && known.count < q.Count && now.Before(known.until) {
		return
	}
	if len(d.young) >= generation || d.young == nil {
		d.old, d.young = d.young, make(map[runtime.Row]denial)
	}
	// The caller's key may be a few bytes of a whole request, which it would keep in memory.
	kept := runtime.Row{Name: q.Policy.Name, Key: strings.Clone(q.Key)}
	d.young[kept] = denial{q.Policy, q.Count, decision, now, until}
}

// forget is for a key that may have been given something back.
func (d *denials) forget(q runtime.Request) {
	delete(d.young, row(q))
	delete(d.old, row(q))
}
