package override

import (
	"crypto/rand"
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
)

// Erasure returns the entry that records the erasure of a key, given all entries of the key. Its Key, Reason and Author replace
// those of the entries. Without it, a process would keep a block in force whose end was erased before it was read. The error
// is [runtime.ErrOverrideInForce].
func Erasure(limit string, ofKey []runtime.OverrideEntry, now int64) (runtime.OverrideEntry, error) {
	var inForce struct{ block, override bool }
	for i := range ofKey {
		e := &ofKey[i]
		live := !e.Ends() && (e.Until.Equal(runtime.ForGood) || e.Until.UnixNano() > now)
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
	at := arith.Time(now)
	return runtime.OverrideEntry{
		// No key is stored so, because % is followed by two digits.
		Limit: limit, Key: "%erased:" + rand.Text(), What: runtime.OverrideErased, Until: at, At: at, Reason: "erased", Author: "erased",
	}, nil
}
