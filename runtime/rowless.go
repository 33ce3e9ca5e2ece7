package runtime

// usesRows reports whether a request needs the rows of its key, and so the store. The policy must be valid.
func (q *Request) usesRows() bool {
	switch m := modes[q.Policy.Mode]; {
	case m.counts:
		return true
	case m.allows:
		// A row may be left from another mode or plan.
		return q.Op == Reset
	}
	return !q.decides()
}

// withoutRows decides a request that does not use rows at the instant now.
func (q *Request) withoutRows(now int64) (Decision, error) {
	r := Rule{Kind: q.Policy.Kind, Capacity: endless}
	if err := r.refuse(q); err != nil {
		return Decision{}, err
	}
	switch {
	case modes[q.Policy.Mode].allows:
	case q.empty():
		return Decision{Allowed: true}, nil
	default:
		return Decision{RetryAfter: q.Policy.blockedFor(now)}, nil
	}
	d := Decision{Allowed: true, Remaining: MaxTokens, Value: MaxTokens}
	if q.Op == Take || q.Op == TakeUpTo {
		d.Taken = q.Count
	}
	return d, nil
}
