package sim

import (
	"net/netip"
	"strconv"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// key encodes the parts of a key as a store has it.
func (r *replayed) key(l *Line) (string, error) {
	parts := l.Key
	if len(parts) != len(r.parts) {
		return "", faultf("the key of %s has %s, not %d", r.Policy.Name, plural(int64(len(r.parts)), "part"), len(parts))
	}
	if len(parts) == 0 {
		return "", nil
	}
	var encoded [8]runtime.Part
	all := encoded[:0]
	for i, text := range parts {
		if i < len(l.forms) && !takes(r.Key[i], l.forms[i]) {
			return "", faultf("part %d of the key of %s, of type %s, must be written as %s", i+1, r.Policy.Name, r.Key[i], writtenAs(r.Key[i]))
		}
		part, ok := r.parts[i](text)
		if !ok {
			return "", faultf("part %d of the key of %s is not of type %s", i+1, r.Policy.Name, r.Key[i])
		}
		all = append(all, part)
	}
	return runtime.KeyOf(all...).String(), nil
}

// takes reports whether a part of a type can be written in a form. As text all of them can.
func takes(typ string, f form) bool {
	switch f {
	case asNumber:
		return typ == "int" || typ == "int64" || typ == "uint64"
	case asBool:
		return typ == "bool"
	}
	return true
}

// writtenAs says how a part of a type is written.
func writtenAs(typ string) string {
	switch {
	case takes(typ, asNumber):
		return "a number or a string"
	case takes(typ, asBool):
		return "true or false, or a string"
	}
	return "a string, in quotes"
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
