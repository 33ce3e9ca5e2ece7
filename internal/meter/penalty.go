package meter

import (
	"encoding/binary"

	"github.com/ratelimitgen/ratelimitgen/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// penalty is the last one of a key: until when all requests are denied, and which step of the policy it is, counted
// from 1. The zero penalty is none.
type penalty struct {
	until int64
	step  byte
}

// A penalty is stored before the log of a state: penaltyTag, until in 8 bytes, and the step. The numbers of the row do
// not change with it.
const (
	penaltyTag = 'p'
	// PenaltyLength is how many bytes of a log are its penalty, if it has one: two states are the same if their numbers
	// and these are.
	PenaltyLength = 1 + 8 + 1
)

// cutPenalty returns the penalty of a state, and the state as its kind reads it.
func cutPenalty(s runtime.State) (penalty, runtime.State) {
	if len(s.Log) < PenaltyLength || s.Log[0] != penaltyTag {
		return penalty{}, s
	}
	p := penalty{until: int64(binary.BigEndian.Uint64([]byte(s.Log[1:9]))), step: s.Log[9]}
	s.Log = s.Log[PenaltyLength:]
	return p, s
}

// on returns a state of a kind with the penalty.
func (p penalty) on(s runtime.State) runtime.State {
	if p != (penalty{}) && s.Exists {
		b := binary.BigEndian.AppendUint64(append(make([]byte, 0, PenaltyLength+len(s.Log)), penaltyTag), uint64(p.until))
		s.Log = string(append(append(b, p.step), s.Log...))
	}
	return s
}

// inForce sets what a decision says of a penalty that is in force.
func (p penalty) inForce(d *runtime.Decision, now int64) {
	d.PenaltyFor, d.Remaining = arith.Between(now, p.until), 0
	if !d.Allowed {
		// Later than the end of the penalty if the tokens are due later: a request at its end would start the next one.
		d.RetryAfter = max(d.RetryAfter, d.PenaltyFor)
	}
}

// next returns the penalty of a policy that a denial starts after p.
func (p penalty) next(of *runtime.Penalty, now int64) penalty {
	step := byte(1)
	if !p.forgiven(of, now) {
		step = min(p.step+1, byte(of.Len()))
	}
	return penalty{arith.Add(now, int64(of.Step(int(step)))), step}
}

// forgiven reports whether the penalty ended so long ago that it no longer counts.
func (p penalty) forgiven(of *runtime.Penalty, now int64) bool {
	return p.step == 0 || now >= arith.Add(p.until, int64(of.Forgiveness()))
}

// KeepPenalty returns the state was with the penalty of the state is, which a request has left that is undone.
func KeepPenalty(was, is runtime.State) runtime.State {
	p, _ := cutPenalty(is)
	_, was = cutPenalty(was)
	return p.on(was)
}

// Penalized returns a state with a first penalty until an instant, unless it has one that lasts as long.
func (r *Rule) Penalized(s runtime.State, until int64) runtime.State {
	p, bare := cutPenalty(s)
	if r.penalty == nil || p.until >= until {
		return s
	}
	if !bare.Exists {
		bare = runtime.State{TS: until - int64(r.penalty.Step(1)), Exists: true}
	}
	return penalty{until, max(1, p.step)}.on(bare)
}
