package sim

import (
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// tally counts what became of requests. Delayed are those of the allowed that must wait for their tokens.
type tally struct {
	asked, allowed, denied, delayed int64
	longest                         time.Duration
}

func (t *tally) add(d runtime.Decision) {
	t.asked++
	switch {
	case !d.Allowed:
		t.denied++
	case d.Delay > 0:
		t.delayed++
		fallthrough
	default:
		t.allowed++
	}
	t.longest = max(t.longest, wait(d))
}

// wait is how long a decision tells the caller to wait: after a denial for the retry, after a reservation
// for its tokens.
func wait(d runtime.Decision) time.Duration {
	if d.Allowed {
		return d.Delay
	}
	return d.RetryAfter
}

// tallyHead names the columns of tally.row.
var tallyHead = []string{"asked", "allowed", "denied", "", "delayed", "keys", "max wait"}

// row is a tally as a row of a table, with the number of keys.
func (t *tally) row(keys int) []string {
	return []string{
		grouped(t.asked), grouped(t.allowed), grouped(t.denied), percent(t.denied, t.asked), grouped(t.delayed),
		grouped(int64(keys)), length(t.longest),
	}
}
