package runtime

// Upsert is a Take of one row in a form that a single SQL statement can decide, for the kinds whose tokens
// accrue by one formula. With
//
//	elapsed = max(0, T-ts)
//	accrued = (elapsed DIV Period) * Rate + (elapsed MOD Period) * Rate / Period
//	avail   = min(Capacity, value + accrued)
//
// the row is written if avail - (Count - Debt) + Allowance >= 0, as value = avail - Count and ts = max(ts, T), or
// inserted as value = Fresh and ts = T. DIV and MOD are those of integers. The statement must keep the order of the
// other operations, in doubles; then it decides and stores what [Rule.Step] does, bit for bit.
type Upsert struct {
	// T is the instant to which tokens have accrued, in nanoseconds since 1970 UTC.
	T int64
	// Capacity and Rate are in tokens.
	Capacity, Rate float64
	// Period is in nanoseconds.
	Period int64
	// Allowance is how many tokens may be missing.
	Allowance float64
	// Count is how many tokens are taken, of which Debt need not be there: 0 unless reserving.
	Count, Debt float64
	// Fresh is the value of a row never seen after the Take, Capacity - Count.
	Fresh float64
}

// Take does what the statement does with a row that is there. It returns the state after it, and false if it is not
// to be written.
func (u *Upsert) Take(s State) (after State, taken bool) {
	// With T given, the kinds are alike.
	r := Rule{Kind: TokenBucket, Rate: u.Rate, Capacity: u.Capacity, Period: u.Period}
	if !r.enough(s, u.T, u.Count-u.Debt) {
		return State{}, false
	}
	return r.take(s, u.T, u.Count), true
}

// Upsert returns the Take q at the instant now as an Upsert. It returns false for what has no such form:
// other verbs, sliding windows, windows from first use, a bound on the delay, and a count that is an
// error.
func (r *Rule) Upsert(now int64, q Request) (Upsert, bool) {
	if q.Op != Take || q.MaxDelay > 0 || r.Kind == SlidingWindow || r.FirstUse || r.refuse(q) != nil {
		return Upsert{}, false
	}
	count := float64(q.Count)
	return Upsert{
		T:         r.accruedTo(State{}, now),
		Capacity:  r.Capacity,
		Rate:      r.Rate,
		Period:    r.Period,
		Allowance: allowance(r.Rate, r.Period),
		Count:     count,
		Debt:      r.debt(q),
		Fresh:     r.Capacity - count,
	}, true
}

// Taken returns the decision on a Take q at the instant now that was allowed and left its row in state s.
func (r *Rule) Taken(s State, now int64, q Request) Decision {
	d := r.decide(s, now)
	d.TakenAt = instant(now)
	if q.Reserve {
		d.Delay = r.until(s, now, 0)
	}
	return d
}
