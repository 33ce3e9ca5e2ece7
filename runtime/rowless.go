package runtime

// withoutRows decides a request that does not use rows at the instant now.
func (q *Request) withoutRows(now int64) (Decision, error) {
	r := Boundless(q.Policy.Kind)
	if err := r.refuse(q); err != nil {
		return Decision{}, err
	}
	switch {
	case q.Policy.Mode.Passes():
	case q.Empty():
		return Decision{Allowed: true}, nil
	default:
		return Decision{RetryAfter: q.Policy.BlockedFor(now)}, nil
	}
	d := Decision{Allowed: true, Remaining: MaxTokens, Value: MaxTokens}
	if q.Op == Take || q.Op == TakeUpTo {
		d.Taken = q.Count
	}
	return d, nil
}
