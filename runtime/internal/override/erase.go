package override

import (
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
)

// erasedKey begins what replaces a key. No key is stored so, because % is followed by two digits.
const erasedKey = "%erased:"

// IsErased reports whether the key of an entry was erased.
func IsErased(key string) bool { return strings.HasPrefix(key, erasedKey) }

// Blotted replaces the reason and the author of entries whose key was erased.
const Blotted = "erased"

// Erasure returns the entry that records the erasure of a key, given all entries of the key: its Key replaces theirs.
// Without it, a process would keep a block in force whose end was erased before it was read. It is zero if there is
// nothing to record. The error is [runtime.ErrOverrideInForce], or about the reason.
func Erasure(limit string, ofKey []runtime.OverrideEntry, why runtime.OverrideEnd, now int64) (runtime.OverrideEntry, error) {
	var inForce struct{ block, override bool }
	for i := range ofKey {
		e := &ofKey[i]
		live := !e.Ends() && (e.Until.Equal(runtime.ForGood()) || e.Until.UnixNano() > now)
		block, override := e.Replaces()
		if block {
			inForce.block = live
		}
		if override {
			inForce.override = live
		}
	}
	if inForce.block || inForce.override {
		return runtime.OverrideEntry{}, fmt.Errorf("erase a key of limit %q: %w", limit, runtime.ErrOverrideInForce)
	}
	switch {
	case why == (runtime.OverrideEnd{}) && len(ofKey) == 0:
		return runtime.OverrideEntry{}, nil
	case why == (runtime.OverrideEnd{}):
		why = runtime.OverrideEnd{Reason: Blotted, Author: Blotted}
	}
	at := arith.Time(now)
	e := runtime.OverrideEntry{
		Limit: limit, Key: erasedKey + rand.Text(), What: runtime.OverrideErased, Until: at, At: at, Reason: why.Reason, Author: why.Author,
	}
	return e, e.Validate()
}

// CheckErase returns nil if a key can be erased, and otherwise an error.
func CheckErase(limit, key string) error {
	if key == "" {
		return fmt.Errorf("erase a key of limit %q: %w: the limit has no key: use Reset", limit, runtime.ErrInvalidKey)
	}
	return nil
}
