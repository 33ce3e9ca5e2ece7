package runtime

import (
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxKey is the longest key that is stored, in bytes.
const MaxKey = 255

// Key says which user, team or other party a limit is applied to. The zero Key is that of a limit with
// one shared counter.
type Key struct {
	text string
	err  error
}

// Part is one part of a [Key].
type Part struct {
	text string
	err  error
}

// String returns a part that is a text; any bytes do, and each of them counts.
func String(s string) Part { return Part{text: s} }

// Bool returns a part that is true or false.
func Bool(b bool) Part { return Part{text: strconv.FormatBool(b)} }

// Int returns a part that is a number.
func Int(n int) Part { return Int64(int64(n)) }

// Int64 returns a part that is a number.
func Int64(n int64) Part { return Part{text: strconv.FormatInt(n, 10)} }

// Uint64 returns a part that is a number.
func Uint64(n uint64) Part { return Part{text: strconv.FormatUint(n, 10)} }

// Addr returns a part that is an IP address. An IPv4 address mapped into IPv6 is that IPv4 address. The zone
// of an address is part of the key only if the address is link-local: any other address is the same host in
// every zone, so a caller could otherwise get a fresh count for each zone that it makes up. With the zero
// Addr, every verb of the limit returns [ErrInvalidKey].
func Addr(a netip.Addr) Part {
	if !a.IsValid() {
		return Part{err: errors.New("the address is the zero netip.Addr")}
	}
	if !a.IsLinkLocalUnicast() && !a.IsLinkLocalMulticast() {
		a = a.WithZone("")
	}
	return Part{text: a.Unmap().String()}
}

// Text returns a part that writes itself. If it cannot, every verb of the limit returns [ErrInvalidKey],
// which wraps its error too, but does not print it: it may have the key in it. A nil m cannot, and neither can
// a nil pointer whose MarshalText panics.
func Text(m encoding.TextMarshaler) (part Part) {
	if m == nil {
		return Part{err: errNilPart}
	}
	defer func() {
		if isNilPointer(m) && recover() != nil {
			part = Part{err: errNilPart}
		}
	}()
	text, err := m.MarshalText()
	return Part{text: string(text), err: err}
}

var errNilPart = errors.New("the part is nil")

// isNilPointer reports whether m is a nil pointer, which may have a text all the same: its method decides.
func isNilPointer(m encoding.TextMarshaler) bool {
	v := reflect.ValueOf(m)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// keyError is what is wrong with a part of a key.
type keyError struct {
	part  int
	cause error
}

func (e *keyError) Error() string {
	return fmt.Sprintf("%v: part %d cannot be written as text", ErrInvalidKey, e.part)
}
func (e *keyError) Unwrap() []error { return []error{ErrInvalidKey, e.cause} }

// KeyOf returns the key with the given parts. Different parts make different keys, whatever bytes are in
// them: "a|b", "c" and "a", "b|c" differ.
func KeyOf(parts ...Part) Key {
	if len(parts) == 1 && parts[0].err == nil && plain(parts[0].text) {
		return Key{text: parts[0].text}
	}
	var b strings.Builder
	for i, p := range parts {
		if p.err != nil {
			return Key{err: &keyError{i + 1, p.err}}
		}
		if i > 0 {
			b.WriteByte('|')
		}
		escape(&b, p.text)
	}
	return Key{text: shorten(b.String())}
}

// String returns the key as it is stored: its parts, joined with "|". What would be mistaken for
// something else (the bytes "|" and "%", control characters, invalid UTF-8) is written %XX, and an empty
// part "%". Beyond [MaxKey] bytes there follow "%~" and the SHA-256 of the whole instead.
func (k Key) String() string { return k.text }

const hexDigits = "0123456789ABCDEF"

// escape writes a part of a key so that it is valid UTF-8 without control characters, and ends where it
// ends.
func escape(b *strings.Builder, part string) {
	if part == "" {
		b.WriteByte('%')
	}
	for len(part) > 0 {
		c, n := utf8.DecodeRuneInString(part)
		if literal(c, n) {
			b.WriteString(part[:n])
		} else {
			for i := range n {
				b.Write([]byte{'%', hexDigits[part[i]>>4], hexDigits[part[i]&15]})
			}
		}
		part = part[n:]
	}
}

// literal reports whether a rune of n bytes stands for itself in a key.
func literal(c rune, n int) bool {
	return c != '|' && c != '%' && !unicode.IsControl(c) && (c != utf8.RuneError || n > 1)
}

// plain reports whether a key of this one part is the part itself.
func plain(part string) bool {
	return part != "" && len(part) <= MaxKey && !strings.ContainsAny(part, "|%") && legible(part)
}

// legible reports whether a text is UTF-8 without control characters. It is asked of every key, most of which are
// plain ASCII.
func legible(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' {
			return utf8.ValidString(text[i:]) && strings.IndexFunc(text[i:], unicode.IsControl) < 0
		}
	}
	return true
}

// shorten returns a key of at most MaxKey bytes. No key that was short enough is like one that was not:
// "%~" occurs in none.
func shorten(key string) string {
	if len(key) <= MaxKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	cut := MaxKey - len("%~") - hex.EncodedLen(len(sum))
	for !utf8.RuneStart(key[cut]) {
		cut--
	}
	return key[:cut] + "%~" + hex.EncodeToString(sum[:])
}
