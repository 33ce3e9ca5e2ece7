package observe

import (
	"cmp"
	"context"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Denials is an observer that finds the keys which are denied most, and how many different keys are denied. Denials in
// shadow mode count too. It keeps fingerprints and hashes of keys under a random seed, but no keys. Make it with
// NewDenials.
type Denials struct {
	secret []byte
	seed   maphash.Seed
	limits byLimit[sketch]
}

// NewDenials returns an observer that has seen no denials. It uses only the Secret of the options.
func NewDenials(o Options) *Denials {
	return &Denials{secret: secretOr(o.Secret), seed: maphash.MakeSeed()}
}

// DeniedKey is a key that was denied.
type DeniedKey struct {
	// Fingerprint is that of [runtime.Fingerprint].
	Fingerprint string
	// Denied is how often it was denied, at most. It is too large by at most Excess, if other keys have taken turns in the
	// list.
	Denied, Excess int64
}

// sketch has the denials of one limit. It is the one of Metwally, Agrawal and El Abbadi ("Space-Saving", 2005).
type sketch struct {
	mu  sync.Mutex
	top []entry
	// at has the indexes in top, by hash.
	at   map[uint64]int
	seen distinct
}

func newSketch() *sketch { return &sketch{at: map[uint64]int{}} }

type entry struct {
	DeniedKey
	hash uint64
}

// topKeys is how many keys are kept of each limit. A key with more than a 64th of all denials is among them.
const topKeys = 64

// Decided implements [runtime.Observer].
func (d *Denials) Decided(_ context.Context, o runtime.Observation) {
	if !denied(&o) {
		return
	}
	of := d.limits.of(o.Limit, newSketch)
	hash, now := o.KeyHash(d.seed), time.Now()
	of.mu.Lock()
	defer of.mu.Unlock()
	of.seen.add(hash, now)
	i, known := of.at[hash]
	if !known {
		i = of.replaceLocked(entry{DeniedKey{Fingerprint: d.Fingerprint(&o)}, hash})
	}
	of.top[i].Denied++
}

// denied reports whether an outcome counts as a denial.
func denied(o *runtime.Observation) bool {
	return o.Outcome == runtime.OutcomeDenied || o.Outcome == runtime.OutcomeShadowDenied
}

// DeniedPriority returns the name of the priority of a request that was denied, or "" if it was not, or has none. The names
// are those of limits.yaml.
func DeniedPriority(o *runtime.Observation) string {
	if o.Policy == nil || !denied(o) {
		return ""
	}
	return o.Policy.Priority.Name
}

// replaceLocked puts a key in the place of the one that was denied least, whose count it gets, and returns its index.
func (of *sketch) replaceLocked(e entry) int {
	i := len(of.top)
	if i < topKeys {
		of.top = append(of.top, e)
	} else {
		i = 0
		for j := range of.top {
			if of.top[j].Denied < of.top[i].Denied {
				i = j
			}
		}
		delete(of.at, of.top[i].hash)
		e.Denied, e.Excess = of.top[i].Denied, of.top[i].Denied
		of.top[i] = e
	}
	of.at[e.hash] = i
	return i
}

// Fingerprint returns the fingerprint of an observation's key, as in the list of Top.
func (d *Denials) Fingerprint(o *runtime.Observation) string { return o.Fingerprint(d.secret) }

// Top returns the keys of a limit that were denied most since the process started, at most 64, the first of them most. It
// contains every key with more than a 64th of all denials of the limit.
func (d *Denials) Top(limit string) (top []DeniedKey) {
	of := d.limits.all()[limit]
	if of == nil {
		return nil
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	for _, e := range of.top {
		top = append(top, e.DeniedKey)
	}
	slices.SortFunc(top, func(a, b DeniedKey) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	return top
}

// Keys estimates how many different keys of a limit were denied in the last minute, or up to 15 s before. The standard
// error is 3.3 %.
func (d *Denials) Keys(limit string) int64 {
	of := d.limits.all()[limit]
	if of == nil {
		return 0
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	return of.seen.estimate(time.Now())
}

const (
	registerBits = 10
	registers    = 1 << registerBits
	// turn is the length of the windows that a minute is made of.
	turn  = 15 * time.Second
	turns = 5
)

// distinct counts different hashes of the last minute: a HyperLogLog for each of the last turns, the present one included.
// The zero distinct has seen none.
type distinct struct {
	windows [turns][registers]uint8
	// begins has the number of the turn of each window.
	begins [turns]int64
}

func turnOf(now time.Time) int64 { return now.UnixNano() / int64(turn) }

func (d *distinct) add(hash uint64, now time.Time) {
	n := turnOf(now)
	i := n % turns
	if d.begins[i] != n {
		d.begins[i], d.windows[i] = n, [registers]uint8{}
	}
	register := &d.windows[i][hash>>(64-registerBits)]
	// The bit after the others ends the count if all of them are 0.
	zeros := bits.LeadingZeros64(hash<<registerBits | 1<<(registerBits-1))
	*register = max(*register, uint8(zeros+1))
}

// estimate uses the formula of Flajolet et al., "HyperLogLog" (2007). Hashes of 64 bits need no correction for large counts.
func (d *distinct) estimate(now time.Time) int64 {
	n, sum, empty := turnOf(now), 0.0, 0
	for r := range registers {
		longest := uint8(0)
		for i := range d.windows {
			if d.begins[i] > n-turns {
				longest = max(longest, d.windows[i][r])
			}
		}
		if longest == 0 {
			empty++
		}
		sum += math.Exp2(-float64(longest))
	}
	const m = float64(registers)
	estimate := 0.7213 / (1 + 1.079/m) * m * m / sum
	if estimate <= 2.5*m && empty > 0 {
		estimate = m * math.Log(m/float64(empty))
	}
	return int64(math.Round(estimate))
}
