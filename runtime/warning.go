package runtime

import (
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/internal/words"
)

// Warning is a take that has crossed a threshold of its limit: see [Thresholds].
type Warning struct {
	// Limit is the name of the limit.
	Limit string
	// Policy is the policy by which the store decided; do not change it. It has the capacity in force.
	Policy *Policy
	// Crossed is the highest threshold that the take has crossed, in percent.
	Crossed uint8
	// TakenAt is when the tokens were taken, by the clock of the store. ResetAt is when the window that was current then
	// ends, the same for all takes of the window; the zero time without windows, and for leased tokens.
	TakenAt, ResetAt time.Time
	// InTx means that the take is part of a transaction of the caller, which may still be rolled back.
	InTx bool

	key hiddenKey
}

// WarningOf returns the warning of a request for a key, of which the decision has Crossed a threshold.
func WarningOf(d *Decision, key string, inTx bool) Warning {
	w := Warning{Limit: d.Limit, Policy: d.Policy, Crossed: d.Crossed, TakenAt: d.TakenAt, InTx: inTx,
		key: func() string { return key }}
	if d.ResetAfter > 0 && !d.Receipt.Leased {
		w.ResetAt = d.TakenAt.Add(d.ResetAfter)
	}
	return w
}

// Key returns the key as it is stored: see [Key.String]. It may be personal, so that printing a Warning leaves it out.
func (w *Warning) Key() string { return w.key.text() }

// Fingerprint returns the [Fingerprint] of the key.
func (w *Warning) Fingerprint(secret []byte) string { return Fingerprint(secret, w.key.text()) }

// String returns the warning in words, without the key: `apiCalls: 80% of 10,000 used`.
func (w Warning) String() string {
	full := int64(0)
	if w.Policy != nil {
		full = w.Policy.Full()
	}
	return fmt.Sprintf("%s: %d%% of %s used", w.Limit, w.Crossed, words.Number(full))
}
