package sim

import (
	"net/netip"
	"strconv"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// key encodes the parts of a key as a store has it.
func (r *replayed) key(parts []string) (string, error) {
	if len(parts) != len(r.parts) {
		return "", faultf("the key of %s has %s, not %d", r.Policy.Name, plural(int64(len(r.parts)), "part"), len(parts))
	}
	if len(parts) == 0 {
		return "", nil
	}
	var encoded [8]runtime.Part
	all := encoded[:0]
	for i, text := range parts {
		part, ok := r.parts[i](text)
		if !ok {
			return "", faultf("part %d of the key of %s is not of type %s", i+1, r.Policy.Name, r.Key[i])
		}
		all = append(all, part)
	}
	return runtime.KeyOf(all...).String(), nil
}

// partOf returns what makes a part of a type from its text, and reports whether the text can be one. Parts of
// the same value are the same, however it is written. A type of the user's own is the text it marshals to.
func partOf(typ string) func(string) (runtime.Part, bool) {
	switch typ {
	case "bool":
		return func(text string) (runtime.Part, bool) {
			return runtime.Bool(text == "true"), text == "true" || text == "false"
		}
	case "int", "int64":
		return func(text string) (runtime.Part, bool) {
			n, err := strconv.ParseInt(text, 10, 64)
			return runtime.Int64(n), err == nil
		}
	case "uint64":
		return func(text string) (runtime.Part, bool) {
			n, err := strconv.ParseUint(text, 10, 64)
			return runtime.Uint64(n), err == nil
		}
	case "netip.Addr":
		return func(text string) (runtime.Part, bool) {
			a, err := netip.ParseAddr(text)
			return runtime.Addr(a), err == nil
		}
	}
	return func(text string) (runtime.Part, bool) { return runtime.String(text), true }
}
