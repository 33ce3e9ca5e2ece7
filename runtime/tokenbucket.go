package runtime

import "math"

// tokenBucket is the algorithm of [TokenBucket]: tokens accrue continuously, up to the present.
type tokenBucket struct{}

func (tokenBucket) problem(p *Policy) string {
	if (p.Start != Start{}) {
		return "a token bucket has no windows: leave Start out"
	}
	return ""
}

func (tokenBucket) available(r *Rule, s State, now int64) (float64, float64) {
	return r.tokens(r.accrueTo(s, now)), allowance(r.Rate, r.Period)
}

func (tokenBucket) accrue(r *Rule, s State, now int64) State { return r.accrueTo(s, now) }

func (tokenBucket) take(r *Rule, s State, now int64, count float64) State {
	s = r.accrueTo(s, now)
	s.Value -= count
	return s
}

func (tokenBucket) refund(r *Rule, s State, now int64, count float64) State {
	s = r.accrueTo(s, now)
	s.Value = min(0, s.Value+count)
	return s
}

// refundable is less than count by the tokens that a full bucket would have lost since.
func (tokenBucket) refundable(r *Rule, _ State, now, takenAt int64, count, missing float64) float64 {
	return r.unaccrued(takenAt, now, count, missing)
}

func (tokenBucket) due(r *Rule, s State, now int64, need float64) (at, interval int64) {
	accrued := r.accrueTo(s, now)
	at = addSaturating(accrued.TS, r.timeFor(need-r.tokens(accrued)))
	// timeFor rounds a fraction of a token up, which may be a nanosecond too much. Whole tokens are exact.
	if fraction := accrued.Value != math.Trunc(accrued.Value); fraction && at-1 > now && r.tokens(r.accrueTo(s, at-1)) >= need {
		at--
	}
	return at, 1
}

func (tokenBucket) full(r *Rule, s State, now int64) bool {
	return r.accrueTo(s, now).Value == 0
}

func (tokenBucket) windowEnd(*Rule, int64) int64 { return math.MaxInt64 }

func (tokenBucket) accruesTo(_ *Rule, now int64) (int64, float64, bool) { return now, -endless, true }
