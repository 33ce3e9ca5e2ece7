package runtime

import "time"

// MaxPenaltySteps is how many steps a [Penalty] has at most.
const MaxPenaltySteps = 8

// Penalty denies all requests for a key for some time after one was denied for lack of tokens. The zero Penalty is none.
//
// A Take or TakeUpTo starts it, also in a call of which another limit denies, but not the retries of a Wait, a Check, a count that
// can never fit, or a request that only another limit of its call has denied. While it lasts, requests are denied without
// writing anything, whatever the tokens are, and it does not grow. A Reset ends it, and forgets those before it. In
// [ModeShadow] it is counted, and requests pass.
type Penalty struct {
	// Steps are how long the first penalty of a key lasts, the second one, and so on, up to the first 0. After the last step,
	// the last one is repeated.
	Steps [MaxPenaltySteps]time.Duration
	// Forgive is how long after the end of a penalty the next one is a first one again. 0 means 10 times the last step.
	Forgive time.Duration
}

// PenaltyOf returns a Penalty with some steps, at most [MaxPenaltySteps].
func PenaltyOf(forgive time.Duration, steps ...time.Duration) Penalty {
	p := Penalty{Forgive: forgive}
	copy(p.Steps[:], steps)
	return p
}

// Len returns the number of steps.
func (p *Penalty) Len() int {
	n := 0
	for n < MaxPenaltySteps && p.Steps[n] != 0 {
		n++
	}
	return n
}

// Step returns how long the penalty with a number lasts, counted from 1; 0 without one.
func (p *Penalty) Step(number int) time.Duration {
	n := p.Len()
	if n == 0 || number < 1 {
		return 0
	}
	return p.Steps[min(number, n)-1]
}

// Forgiveness returns how long after its end a penalty counts: Forgive, or its default.
func (p *Penalty) Forgiveness() time.Duration {
	if p.Forgive != 0 {
		return p.Forgive
	}
	return 10 * p.Step(MaxPenaltySteps)
}
