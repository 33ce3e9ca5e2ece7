package runtime

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxKey is the longest key that is stored, in bytes.
const MaxKey = 255

// Key identifies the user, team or other party whose requests a limit counts. The zero Key is the key of a limit with
// one shared count.
type Key struct {
	text string
	err  error
	// calendar is nil unless the key has its own windows. It is a pointer so that other keys stay small.
	calendar *keyCalendar
	// hashed is the parts, if some of them are hashed, for [Key.HashedWith].
	hashed *[]Part
}

// keyCalendar is what the windows of a key depend on, if the limit's Calendar is PerKey. It is not part of the stored
// key.
type keyCalendar struct {
	zone  *time.Location
	since time.Time
}

// In returns k with a time zone of its own, for a limit whose [Calendar] has ZonePerKey. The zone is not stored: the
// same key keeps its count in any zone, and gains none by changing it. With a nil zone, or one whose clock is more than
// 16 hours from UTC, every method of the limit returns [ErrInvalidKey].
func (k Key) In(zone *time.Location) Key {
	c := k.ownCalendar()
	c.zone = zone
	k.calendar = &c
	return k
}

// Since returns k with an anniversary of its own, for a limit whose [Calendar] has Anniversary: one of the key's
// windows begins on the day of t in the limit's zone. The anniversary is not stored.
func (k Key) Since(t time.Time) Key {
	c := k.ownCalendar()
	c.since = t
	k.calendar = &c
	return k
}

func (k Key) ownCalendar() keyCalendar {
	if k.calendar == nil {
		return keyCalendar{}
	}
	return *k.calendar
}

// Part is one part of a [Key].
type Part struct {
	text string
	err  error
	// hashed means that a hash of the text is stored.
	hashed bool
	// alternative is the name that [Part.As] has given it.
	alternative string
}

// As returns the part as an alternative, for a part of a key that can have one of several types, such as a user or an
// address: its name is stored before it, as in "userID:7". So values of two alternatives are never one key.
func (p Part) As(name string) Part {
	p.alternative = name
	return p
}

// OneOf returns a part that is an alternative, from [Part.As]. With any other part, such as the zero Part, every method of
// the limit returns [ErrInvalidKey].
func OneOf(p Part) Part {
	if p.alternative == "" {
		return Part{err: partProblem("it is the zero value, which is none of its alternatives")}
	}
	return p
}

// String returns a part that is a text. It may have any bytes, and all of them are significant. See [KeyOf] for empty
// texts.
func String(s string) Part { return Part{text: s} }

// Bool returns a part that is true or false.
func Bool(b bool) Part { return Part{text: strconv.FormatBool(b)} }

// Int returns a part that is a number.
func Int(n int) Part { return Int64(int64(n)) }

// Int64 returns a part that is a number.
func Int64(n int64) Part { return Part{text: strconv.FormatInt(n, 10)} }

// Uint64 returns a part that is a number.
func Uint64(n uint64) Part { return Part{text: strconv.FormatUint(n, 10)} }

// Addr returns a part that is an IP address. An IPv4 address mapped into IPv6 is that IPv4 address. The zone of an
// address is part of the key only if the address is link-local: any other address is the same host in every zone, so a
// caller could otherwise get a fresh count for each zone that it makes up. With the zero Addr, every method of the
// limit returns [ErrInvalidKey].
func Addr(a netip.Addr) Part {
	if !a.IsValid() {
		return Part{err: partProblem("the address is the zero netip.Addr")}
	}
	if !a.IsLinkLocalUnicast() && !a.IsLinkLocalMulticast() {
		a = a.WithZone("")
	}
	return Part{text: a.Unmap().String()}
}

// AddrPrefix returns a part that is the first bits bits of an IPv6 address, 1 to 128: one subscriber usually has at
// least the 2^64 addresses of a /64, and would otherwise have a count for each. An IPv4 address is whole, and so is the
// one that an address of the NAT64 prefix 64:ff9b::/96 stands for. An address of 64:ff9b:1::/48, where networks choose
// NAT64 prefixes of their own (RFC 8215), is whole, because it stands for one IPv4 host. For NAT64 in any other prefix,
// convert addresses first, as ClientIP of package limithttp does: otherwise all IPv4 hosts share one key. With 128
// bits, the part equals [Addr]'s. With the zero Addr or another number of bits, every method of the limit returns
// [ErrInvalidKey].
func AddrPrefix(a netip.Addr, bits int) Part {
	if bits < 1 || bits > 128 {
		return Part{err: partProblem(fmt.Sprintf("the prefix has %d bits, which is not between 1 and 128", bits))}
	}
	a = withoutNAT64(a)
	whole := Addr(a)
	if whole.err != nil || a.Unmap().Is4() || bits == 128 || localNAT64.Contains(a.WithZone("")) {
		return whole
	}
	// Of a link-local address Addr has kept the zone, which a netip.Prefix cannot have.
	_, zone, zoned := strings.Cut(whole.text, "%")
	prefix, err := a.WithZone("").Prefix(bits)
	if err == nil && zoned {
		return Part{text: fmt.Sprintf("%v%%%s/%d", prefix.Addr(), zone, bits)}
	}
	return Part{text: prefix.String(), err: err}
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")
)

// withoutNAT64 returns the IPv4 address that an address of NAT64 contains, and other addresses as they are.
func withoutNAT64(a netip.Addr) netip.Addr {
	if !nat64.Contains(a.WithZone("")) {
		return a
	}
	bytes := a.As16()
	return netip.AddrFrom4([4]byte(bytes[12:]))
}

// Hashed returns a part that is a hash of s in hexadecimal, for texts that must not be stored as they are, such as API
// keys and e-mail addresses: the SHA-256 or, with the option limiter.HashKeys, an HMAC-SHA-256 with a secret. Whoever
// can read the SHA-256 of a telephone number or an e-mail address can find it by trying all of them; without the
// secret, nobody can find it from the HMAC. Either way, equal texts have equal hashes. An empty text is an empty part,
// which is not hashed.
func Hashed(s string) Part { return Part{text: s, hashed: s != ""} }

// stored returns the text of a part that is stored, given the secret of hashes, or nil for hashes without one.
func (p Part) stored(secret []byte) string {
	text := p.text
	if p.hashed {
		h := sha256.New()
		if secret != nil {
			h = hmac.New(sha256.New, secret)
		}
		h.Write([]byte(p.text))
		text = hex.EncodeToString(h.Sum(nil))
	}
	if p.alternative != "" {
		return p.alternative + ":" + text
	}
	return text
}

// MinKeySecret is the length of the shortest secret of hashed parts of keys, in bytes.
const MinKeySecret = 16

// HashedWith returns the key with an HMAC-SHA-256 in place of each SHA-256 of [Hashed], and other keys as they are. If
// the secret is shorter than [MinKeySecret], such as one from a variable that is not set, every method of a limit with
// a hashed part returns [ErrInvalidKey].
func (k Key) HashedWith(secret []byte) Key {
	switch {
	case k.hashed == nil:
		return k
	case len(secret) < MinKeySecret:
		return Key{err: fmt.Errorf("%w: the secret of its hash has %d bytes, and must have at least %d", ErrInvalidKey,
			len(secret), MinKeySecret)}
	}
	k.text = textOf(*k.hashed, secret)
	return k
}

// The types of parts that are texts and not stored as they are. byID precedes the id of the secret after one that is hashed.
const (
	foldedType       = "folded string"
	hashedType       = "hashed string"
	hashedFoldedType = "hashed folded string"
	byID             = " by"
)

var (
	bySecret    = regexp.MustCompile(byID + ` [0-9a-f]{12}\b`)
	hashedTypes = regexp.MustCompile(`\bhashed (folded )?string\b`)
)

// hashedTypesBy returns the types of the parts of a key with the id of the secret of hashes: an HMAC of a constant, cut
// off, from which the secret cannot be calculated.
func hashedTypesBy(types string, secret []byte) string {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("ratelimitgen: the id of the secret of hashed keys"))
	return hashedTypes.ReplaceAllString(withoutSecret(types), "$0"+byID+" "+hex.EncodeToString(h.Sum(nil))[:12])
}

// isHashed reports whether parts of a type are stored as a hash.
func isHashed(kind string) bool { return kind == hashedType || kind == hashedFoldedType }

// withoutSecret returns the types of the parts of a key without the id of a secret.
func withoutSecret(types string) string { return bySecret.ReplaceAllLiteralString(types, "") }

// Text returns a part that is the text of m. If MarshalText fails, every method of the limit returns an error that is
// [ErrInvalidKey] and wraps that of MarshalText, but does not print it, because it may contain the key. The same holds
// if m is nil, or a nil pointer whose MarshalText panics.
func Text(m encoding.TextMarshaler) (part Part) {
	if m == nil {
		return Part{err: errNilPart}
	}
	// Only a nil pointer: any other panic is a defect of MarshalText, which must not be hidden.
	defer func() {
		if isNilPointer(m) && recover() != nil {
			part = Part{err: errNilPart}
		}
	}()
	text, err := m.MarshalText()
	return Part{text: string(text), err: err}
}

const errNilPart = partProblem("it is nil")

func isNilPointer(m encoding.TextMarshaler) bool {
	v := reflect.ValueOf(m)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// partProblem is why a part is refused, in words without the part.
type partProblem string

func (p partProblem) Error() string { return string(p) }

// keyError is the error of a part of a key. It does not print the error of a MarshalText, which may contain the key.
type keyError struct {
	part  int
	cause error
}

func (e *keyError) Error() string {
	if p, ok := e.cause.(partProblem); ok {
		return fmt.Sprintf("%v: its parameter %d cannot be used: %v", ErrInvalidKey, e.part, p)
	}
	return fmt.Sprintf("%v: its parameter %d cannot be converted to text", ErrInvalidKey, e.part)
}
func (e *keyError) Unwrap() []error { return []error{ErrInvalidKey, e.cause} }

// KeyOf returns the key with the given parts. Different parts make different keys, whatever bytes they have: "a|b", "c"
// and "a", "b|c" differ.
//
// If all parts are empty, such as a missing e-mail address, every method of the limit returns [ErrEmptyKey]: otherwise
// all callers without one would share a count. An empty part beside others is a value like any other, because an
// optional part is often written so, and the others still tell callers apart.
func KeyOf(parts ...Part) Key {
	// Most keys are one plain part, which needs no copy.
	if len(parts) == 1 && parts[0].err == nil && !parts[0].hashed && parts[0].alternative == "" && plain(parts[0].text) {
		return Key{text: parts[0].text}
	}
	empty, hashed := len(parts) > 0, false
	for i, p := range parts {
		if p.err != nil {
			return Key{err: &keyError{i + 1, p.err}}
		}
		empty, hashed = empty && p.text == "", hashed || p.hashed
	}
	if empty {
		return Key{err: ErrEmptyKey}
	}
	k := Key{text: textOf(parts, nil)}
	if hashed {
		kept := slices.Clone(parts)
		k.hashed = &kept
	}
	return k
}

// textOf returns the parts as they are stored.
func textOf(parts []Part, secret []byte) string {
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteByte('|')
		}
		escape(&b, p.stored(secret))
	}
	return shorten(b.String())
}

// StoredKey returns the key with a text that [Key.String] has returned, such as one from a row. The error is
// [ErrInvalidKey].
func StoredKey(text string) (Key, error) {
	if len(text) > MaxKey || !printable(text) {
		return Key{}, fmt.Errorf("%w: the text is not in the form that Key.String returns", ErrInvalidKey)
	}
	return Key{text: text}, nil
}

// Err returns why every method of a limit fails with the key: an [ErrInvalidKey], an [ErrInvalidPlan], an
// [ErrInvalidNumbers], or nil.
func (k Key) Err() error { return k.err }

// String returns the key as it is stored: its parts, joined with "|". The bytes "|" and "%", control characters and
// invalid UTF-8 are written as %XX, and an empty part as "%". A key of more than [MaxKey] bytes is cut off, and "%~"
// and the SHA-256 of the whole key are appended.
func (k Key) String() string { return k.text }

const hexDigits = "0123456789ABCDEF"

// escape writes a part of a key as valid UTF-8 without control characters and separators. Some databases refuse other
// text, and without escapes two keys could be stored as one.
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

// literal reports whether a rune of n bytes is written without an escape.
func literal(c rune, n int) bool {
	// DecodeRuneInString returns RuneError with length 1 for an invalid byte; U+FFFD itself has three bytes.
	return c != '|' && c != '%' && !unicode.IsControl(c) && (c != utf8.RuneError || n > 1)
}

// plain reports whether the key of this single part is stored as the part itself.
func plain(part string) bool {
	return part != "" && len(part) <= MaxKey && !strings.ContainsAny(part, "|%") && printable(part)
}

// printable reports whether a text is UTF-8 without control characters.
func printable(text string) bool {
	// This runs for every key, and most keys are ASCII: those need no decoding of runes.
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' {
			return utf8.ValidString(text[i:]) && strings.IndexFunc(text[i:], unicode.IsControl) < 0
		}
	}
	return true
}

// shorten returns a key of at most MaxKey bytes. A shortened key differs from every key that was short enough, because
// "%~" does not occur in those.
func shorten(key string) string {
	if len(key) <= MaxKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	cut := MaxKey - len("%~") - hex.EncodedLen(len(sum))
	// Not in the middle of a rune, which would be invalid UTF-8.
	for !utf8.RuneStart(key[cut]) {
		cut--
	}
	return key[:cut] + "%~" + hex.EncodeToString(sum[:])
}
