package explain

import (
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// reserving says, in sentences, what comes of a reservation: of all that there is, and of a period's tokens ahead
// if so many may be reserved.
func reserving(p *runtime.Policy) []string {
	if !p.Reserves() {
		return []string{"Nothing can be reserved ahead: a call that finds too few tokens takes none."}
	}
	r := fullRow(p)
	count := p.Capacity + min(p.Rate, p.MaxReserved)
	delay := r.ask(runtime.Request{Count: count, Reserve: true}).Delay
	sentences := []string{fmt.Sprintf("%s, a call for %s that reserves waits %s.", begin(p), spec.Grouped(count), review.Length(delay))}

	next := r.ask(runtime.Request{Op: runtime.Check, Count: 1, Reserve: true})
	if next.Allowed {
		sentences = append(sentences, fmt.Sprintf("After it, a call for 1 that reserves waits %s.", review.Length(next.Delay)))
	} else {
		sentences = append(sentences, fmt.Sprintf("After it, a call for 1 that reserves is denied, and passes %s later.", review.Length(next.RetryAfter)))
	}
	if p.Capacity > 0 {
		plain := r.ask(runtime.Request{Op: runtime.Check, Count: 1})
		sentences = append(sentences, fmt.Sprintf("One that does not reserve is denied, and passes %s later.", review.Length(plain.RetryAfter)))
	}
	return sentences
}

// begin says of which moment that is told.
func begin(p *runtime.Policy) string {
	moment := "When it is full"
	if p.Capacity == 0 {
		moment = "When nothing is reserved"
	}
	if p.Kind == runtime.FixedWindow {
		moment += " and a window begins"
	}
	return moment
}
