package runtime_test

import (
	"bytes"
	"encoding"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// keyOf returns a key of text parts.
func keyOf(parts ...string) runtime.Key {
	var all []runtime.Part
	for _, p := range parts {
		all = append(all, runtime.String(p))
	}
	return runtime.KeyOf(all...)
}

// Stored rows are found by these texts, so they must never change.
func TestStoredFormOfKeys(t *testing.T) {
	for _, row := range []struct {
		key  runtime.Key
		want string
	}{
		{runtime.Key{}, ""},
		{runtime.KeyOf(), ""},
		{keyOf("", "a"), "%|a"},
		{keyOf("a", ""), "a|%"},
		{runtime.KeyOf(runtime.Hashed(""), runtime.Int(0)), "%|0"},
		{keyOf("user"), "user"},
		{keyOf("User "), "User "},
		{keyOf("a|b", "c"), "a%7Cb|c"},
		{keyOf("a", "b|c"), "a|b%7Cc"},
		{keyOf("100%"), "100%25"},
		{keyOf("ü\u2028\ufffd"), "ü\u2028\ufffd"},
		{keyOf("\x00\n\x7f\u0085"), "%00%0A%7F%C2%85"},
		{keyOf("\xff\xc3"), "%FF%C3"},
		{keyOf(strings.Repeat("x", 255)), strings.Repeat("x", 255)},
		{keyOf(strings.Repeat("x", 256)), strings.Repeat("x", 189) +
			"%~85e62acd750c4eb56b7b6a1d66dca5bfaac5f062608a1a893410d0288936c09a"},
		{runtime.KeyOf(runtime.Bool(true), runtime.Bool(false)), "true|false"},
		{runtime.KeyOf(runtime.Int(-1), runtime.Int64(-9223372036854775808)), "-1|-9223372036854775808"},
		{runtime.KeyOf(runtime.Uint64(18446744073709551615)), "18446744073709551615"},
		{runtime.KeyOf(runtime.Addr(netip.MustParseAddr("192.0.2.1"))), "192.0.2.1"},
		{runtime.KeyOf(runtime.Addr(netip.MustParseAddr("::ffff:192.0.2.1"))), "192.0.2.1"},
		{runtime.KeyOf(runtime.Addr(netip.MustParseAddr("::ffff:192.0.2.1%eth0"))), "192.0.2.1"},
		{runtime.KeyOf(runtime.Addr(netip.MustParseAddr("2001:db8::1%eth0"))), "2001:db8::1"},
		{runtime.KeyOf(runtime.Addr(netip.MustParseAddr("fd00::1%eth0"))), "fd00::1"},
		{runtime.KeyOf(runtime.Addr(netip.MustParseAddr("::1%lo"))), "::1"},
		{runtime.KeyOf(runtime.Addr(netip.MustParseAddr("ff0e::1%eth0"))), "ff0e::1"},
		{runtime.KeyOf(runtime.Addr(netip.MustParseAddr("ff02::1%eth0"))), "ff02::1%25eth0"},
		{runtime.KeyOf(runtime.Addr(netip.MustParseAddr("fe80::1%eth0"))), "fe80::1%25eth0"},
		{runtime.KeyOf(runtime.Text(time.Unix(0, 0).UTC())), "1970-01-01T00:00:00Z"},
	} {
		require.Equal(t, row.want, row.key.String())
	}
}

func TestKeysDiffer(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	lists := [][]string{
		nil, {"", "", "a"}, {"%"}, {"%", ""}, {"|"}, {"a"}, {"a", ""}, {"", "a"}, {"a", "", ""},
		{"a|b", "c"}, {"a", "b|c"}, {"a", "b", "c"}, {"a|b|c"}, {"a:b", "c"}, {"a", "b:c"},
		{"a%7Cb"}, {"a|b"}, {"a\x00"}, {"a%00"}, {"a "}, {"A"}, {"\xff"}, {"\ufffd"}, {"%FF"}, {"\xfe"},
		{long}, {long + "x"}, {long, ""}, {long, "x"}, {"x", long}, {keyOf(long).String()}, {"%~"}, {"é"}, {"e\u0301"},
		{strings.Repeat("é", 127)}, {strings.Repeat("é", 128)}, {strings.Repeat("é", 129)},
	}
	seen := map[string][]string{}
	for _, parts := range lists {
		key := keyOf(parts...).String()
		requireStorable(t, key)
		require.NotContains(t, seen, key, "%.20q and %.20q", seen[key], parts)
		seen[key] = parts
	}
}

// requireStorable checks that every database can store a key.
func requireStorable(t *testing.T, key string) {
	t.Helper()
	require.True(t, utf8.ValidString(key), "%q", key)
	require.False(t, strings.ContainsFunc(key, unicode.IsControl), "%q", key)
	require.LessOrEqual(t, len(key), runtime.MaxKey)
}

// FuzzKey looks for two lists of parts with one key. Parts are separated by "/".
func FuzzKey(f *testing.F) {
	f.Add("a|b/c", "a/b|c")
	f.Add("", "/")
	f.Add("%", "%25")
	f.Add("\xff", "\xef\xbf\xbd")
	f.Add(strings.Repeat("x", 255), strings.Repeat("x", 256))
	f.Fuzz(func(t *testing.T, a, b string) {
		parts, others := strings.Split(a, "/"), strings.Split(b, "/")
		// The key of empty parts alone is invalid: see TestEmptyKeyIsRefused.
		parts, others = append(parts, "a"), append(others, "a")
		key, other := keyOf(parts...).String(), keyOf(others...).String()
		requireStorable(t, key)
		require.NotEmpty(t, key, "a key with a part differs from the zero key")
		require.Equal(t, slices.Equal(parts, others), key == other, "%q and %q", parts, others)
	})
}

// A missing value must not make callers share a count. Beside a part that is not empty, an empty one tells callers
// apart.
func TestEmptyKeyIsRefused(t *testing.T) {
	for _, key := range []runtime.Key{
		keyOf(""), keyOf("", ""), runtime.KeyOf(runtime.Hashed("")), runtime.KeyOf(runtime.Text(netip.Addr{})),
		runtime.KeyOf(runtime.Hashed(""), runtime.String("")),
	} {
		require.ErrorIs(t, key.Err(), runtime.ErrEmptyKey)
		require.ErrorIs(t, key.Err(), runtime.ErrInvalidKey)
	}
	for _, key := range []runtime.Key{{}, runtime.KeyOf(), keyOf("a", ""), keyOf("", "a"), keyOf(" "), keyOf("\x00")} {
		require.NoError(t, key.Err())
	}
}

// unwritable has a MarshalText that fails.
type unwritable struct{}

var errUnwritable = errors.New("invalid user: secret")

func (unwritable) MarshalText() ([]byte, error) { return []byte("secret"), errUnwritable }

// The error of MarshalText can be unwrapped, but is not printed, because it may contain the key.
func TestKeyPartThatFailsIsNamedByPosition(t *testing.T) {
	for _, row := range []struct {
		part  runtime.Part
		cause error
		want  string
	}{
		{runtime.Text(unwritable{}), errUnwritable, "converted to text"},
		{runtime.Addr(netip.Addr{}), runtime.ErrInvalidKey, "used: the address is the zero netip.Addr"},
		{runtime.AddrPrefix(netip.Addr{}, 64), runtime.ErrInvalidKey, "used: the address is the zero netip.Addr"},
		{runtime.AddrPrefix(netip.IPv6Loopback(), 129), runtime.ErrInvalidKey, "used: the prefix has 129 bits, which is not between 1 and 128"},
		{runtime.Text(nil), runtime.ErrInvalidKey, "used: it is nil"},
	} {
		err := runtime.KeyOf(runtime.String("team"), row.part).Err()
		require.ErrorIs(t, err, runtime.ErrInvalidKey)
		require.ErrorIs(t, err, row.cause)
		require.EqualError(t, err, "invalid key: its parameter 2 cannot be "+row.want)
	}
}

// address has a pointer method that dereferences the pointer; named has a value method; anonymous has a text when it is
// nil.
type (
	address   struct{ text string }
	named     struct{ text string }
	anonymous struct{ text string }
)

func (a *address) MarshalText() ([]byte, error) { return []byte(a.text), nil }

func (n named) MarshalText() ([]byte, error) { return []byte(n.text), nil }

func (a *anonymous) MarshalText() ([]byte, error) {
	if a == nil {
		return []byte("anonymous"), nil
	}
	return []byte(a.text), nil
}

func TestNilTextIsAnInvalidKey(t *testing.T) {
	for _, m := range []encoding.TextMarshaler{nil, (*address)(nil), (*named)(nil)} {
		require.ErrorIs(t, runtime.KeyOf(runtime.Text(m)).Err(), runtime.ErrInvalidKey, "%T", m)
	}
	require.Equal(t, "anonymous", runtime.KeyOf(runtime.Text((*anonymous)(nil))).String(), "a method may accept a nil pointer")
}

// defective panics although it is not nil. That is a defect of its method, which must not be hidden.
type defective struct{}

func (defective) MarshalText() ([]byte, error) { panic("defect") }

func TestTextThatPanicsIsNotHidden(t *testing.T) {
	require.PanicsWithValue(t, "defect", func() { runtime.Text(defective{}) })
}

// copied returns memory that is overwritten later.
type copied struct{ text []byte }

func (c copied) MarshalText() ([]byte, error) { return c.text, nil }

func TestTextIsCopied(t *testing.T) {
	text := []byte("before")
	key := runtime.KeyOf(runtime.Text(copied{text}))
	copy(text, bytes.Repeat([]byte("x"), len(text)))
	require.Equal(t, "before", key.String())
}

func TestAddrPrefix(t *testing.T) {
	for _, row := range []struct {
		addr string
		bits int
		want string
	}{
		{"2001:db8:1:2:3:4:5:6", 64, "2001:db8:1:2::/64"},
		{"2001:db8:1:2:ffff::", 64, "2001:db8:1:2::/64"},
		{"2001:db8:1:3::1", 64, "2001:db8:1:3::/64"},
		{"2001:db8:1:2fe::1", 56, "2001:db8:1:200::/56"},
		{"2001:db8:1:2::1", 1, "::/1"},
		{"2001:db8:1:2::1", 127, "2001:db8:1:2::/127"},
		{"2001:db8:1:2::1", 128, "2001:db8:1:2::1"},
		{"192.0.2.33", 64, "192.0.2.33"},
		{"192.0.2.33", 1, "192.0.2.33"},
		{"::ffff:192.0.2.33", 64, "192.0.2.33"},
		{"64:ff9b::192.0.2.33", 64, "192.0.2.33"},
		{"64:ff9b::192.0.2.33", 128, "192.0.2.33"},
		{"64:ff9b::1:192.0.2.33", 64, "64:ff9b::/64"},
		// RFC 8215: each address stands for one IPv4 host, wherever in it the IPv4 address is.
		{"64:ff9b:1::192.0.2.33", 64, "64:ff9b:1::c000:221"},
		{"64:ff9b:1:c000:2:2100::", 64, "64:ff9b:1:c000:2:2100::"},
		{"64:ff9b:1::192.0.2.33%eth0", 48, "64:ff9b:1::c000:221"},
		{"64:ff9b:2::192.0.2.33", 64, "64:ff9b:2::/64"},
		{"2001:db8::1%eth0", 64, "2001:db8::/64"},
		{"fe80::1:2%eth0", 64, "fe80::%25eth0/64"},
		{"fe80::1:2%eth1", 64, "fe80::%25eth1/64"},
		{"fe80::1:2%eth1", 128, "fe80::1:2%25eth1"},
	} {
		part := runtime.AddrPrefix(netip.MustParseAddr(row.addr), row.bits)
		require.Equal(t, row.want, runtime.KeyOf(part).String(), "%s/%d", row.addr, row.bits)
	}
}

func TestAddrPrefixIsRefused(t *testing.T) {
	addr := netip.MustParseAddr("2001:db8::1")
	for _, part := range []runtime.Part{
		runtime.AddrPrefix(netip.Addr{}, 64), runtime.AddrPrefix(addr, 0), runtime.AddrPrefix(addr, -1), runtime.AddrPrefix(addr, 129),
	} {
		require.ErrorIs(t, runtime.KeyOf(part).Err(), runtime.ErrInvalidKey)
	}
}

func TestHashedStoresNoText(t *testing.T) {
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-2, B.1
	require.Equal(t, abc, runtime.KeyOf(runtime.Hashed("abc")).String())
	require.Equal(t, abc+"|x", runtime.KeyOf(runtime.Hashed("abc"), runtime.String("x")).String())
	require.NotEqual(t, runtime.KeyOf(runtime.Hashed("")).String(), runtime.KeyOf(runtime.Hashed("abc")).String())
}

// With a secret of the deployment, the hash is an HMAC. Other keys stay as they are.
func TestHashedWith(t *testing.T) {
	secret := bytes.Repeat([]byte{0x0b}, 20)
	const hiThere = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" // RFC 4231, test case 1
	for _, row := range []struct {
		key  runtime.Key
		want string
	}{
		{runtime.KeyOf(runtime.Hashed("Hi There")), hiThere},
		{runtime.KeyOf(runtime.Hashed("Hi There"), runtime.String("a|b")), hiThere + "|a%7Cb"},
		{runtime.KeyOf(runtime.Hashed(""), runtime.Int(0)), "%|0"},
		{runtime.KeyOf(runtime.String("Hi There")), "Hi There"},
		{runtime.Key{}, ""},
	} {
		with := row.key.HashedWith(secret)
		require.NoError(t, with.Err())
		require.Equal(t, row.want, with.String())
		require.Equal(t, with, with.HashedWith(secret), "a second time")
	}
	for _, short := range [][]byte{nil, {}, secret[:15]} {
		require.ErrorIs(t, runtime.KeyOf(runtime.Hashed("a")).HashedWith(short).Err(), runtime.ErrInvalidKey)
		require.NoError(t, runtime.KeyOf(runtime.String("a")).HashedWith(short).Err())
	}
}

func BenchmarkKeyOf(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		runtime.KeyOf(runtime.Int64(42), runtime.String("model"))
	}
}
