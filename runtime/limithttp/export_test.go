package limithttp

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// SetClock replaces the clock of the log and of legacy fields.
func (b *Binder) SetClock(now func() time.Time) { b.now = now }

// Quota has the numbers of the field RateLimit, of a response with one limit.
type Quota struct{ Remaining, Reset int64 }

// QuotaIn reads the field.
func QuotaIn(h http.Header) (q Quota) {
	_, numbers, _ := strings.Cut(h.Get(limitField), ";")
	fmt.Sscanf(numbers, "r=%d;t=%d", &q.Remaining, &q.Reset)
	return q
}

// SecondsFor is secondsFor.
var SecondsFor = secondsFor
