package runtime_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/folded"
)

// Each key as it is stored, in the forms in which an operator may give it, and texts that are no key of the limit.
func TestParseStored(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, row := range []struct {
		types []string
		key   runtime.Key
		// forms are other ways to write the key.
		forms   []string
		refused []string
	}{
		{nil, runtime.Key{}, nil, []string{"x", "%", "|"}},
		{[]string{"int64"}, runtime.KeyOf(runtime.Int64(-7)), []string{"%2D7", "-%37"}, []string{"", "-07", "7x", "-7|", "-7|1", "%", "+7"}},
		{[]string{"uint64"}, runtime.KeyOf(runtime.Uint64(7)), nil, []string{"-7", "07"}},
		{[]string{"int"}, runtime.KeyOf(runtime.Int(7)), nil, []string{"9223372036854775808"}},
		{[]string{"bool"}, runtime.KeyOf(runtime.Bool(true)), nil, []string{"1", "True"}},
		{[]string{"string", "int64"}, runtime.KeyOf(runtime.String(""), runtime.Int64(7)), nil, []string{"", "|7", "%%|7", "%", "%|%"}},
		{[]string{"string"}, runtime.KeyOf(runtime.String("a\x00%|\u200b\xff")), []string{"a%00%25%7C%E2%80%8B%FF", "a%00%25%7c%e2%80%8b%ff"}, []string{"a%", "a%0", "%zz", "\x00", "\xff"}},
		{[]string{"string"}, runtime.KeyOf(runtime.String(long)), nil, []string{long, long[:255] + "%~"}},
		{[]string{"int64", "string"}, runtime.KeyOf(runtime.Int64(7), runtime.String(long)), nil, []string{"x|" + long[:180], "7"}},
		{[]string{"string", "int64"}, runtime.KeyOf(runtime.String(long), runtime.Int64(7)), nil, []string{"x", "x|y", "7|8|9"}},
		{[]string{"hashed string", "bool"}, runtime.KeyOf(runtime.Hashed("x"), runtime.Bool(false)), nil, []string{"x|false", strings.Repeat("A", 64) + "|false"}},
		{[]string{"folded string"}, runtime.KeyOf(runtime.String("zoë|")), []string{"zo%C3%AB%7c"}, []string{"Zoë%7C", "zoe%CC%88%7C", "zoe\u0308"}},
		{[]string{"hashed folded string"}, runtime.KeyOf(runtime.Hashed("zoë")), nil, []string{"zoë"}},
		{[]string{"[...]"}, runtime.KeyOf(runtime.Int64(7).As("userID")), []string{"userI%44:7"}, []string{"7", "userID", "userID:07", "addr:7", "UserID:7", ""}},
		{[]string{"[...]"}, runtime.KeyOf(runtime.AddrPrefix(netip.MustParseAddr("2001:db8::1"), 64).As("addr")), nil, []string{"2001:db8::/64", "addr:2001:db8::1"}},
		{[]string{"[...]", "string"}, runtime.KeyOf(runtime.String("").As("name"), runtime.String("x")), nil, []string{"name:%|x", "|x"}},
		{[]string{"[...]"}, runtime.KeyOf(runtime.Hashed("x").As("mail")), nil, []string{"mail:x"}},
		{[]string{"netip.Addr"}, runtime.KeyOf(runtime.Addr(netip.MustParseAddr("fe80::1%eth0"))), nil, []string{"::ffff:1.2.3.4", "2001:db8::1%25eth0", "10.0.0"}},
		{[]string{"netip.Addr/64"}, runtime.KeyOf(runtime.AddrPrefix(netip.MustParseAddr("fe80::1%eth0"), 64)), nil, []string{"fe80::/64x", "fe80::/48", "fe80::1"}},
		{[]string{"netip.Addr/64"}, runtime.KeyOf(runtime.AddrPrefix(netip.MustParseAddr("2001:db8::1"), 64)), nil, []string{"2001:db8::", "2001:DB8::/64", "::/0"}},
		{[]string{"netip.Addr/64"}, runtime.KeyOf(runtime.AddrPrefix(netip.MustParseAddr("64:ff9b:1::1.2.3.4"), 64)), nil, []string{"64:ff9b:1::/64"}},
		{[]string{"example.com/ids.Model"}, runtime.KeyOf(runtime.String("m 1")), []string{"m%201"}, nil},
	} {
		l := runtime.CatalogLimit{Name: "limit"}
		for _, kind := range row.types {
			k := runtime.CatalogKey{Name: "part", Type: kind}
			if kind == "[...]" {
				k.Alternatives = []runtime.CatalogKey{{Name: "userID", Type: "int64"}, {Name: "addr", Type: "netip.Addr/64"},
					{Name: "name", Type: "string"}, {Name: "mail", Type: "hashed string"}}
			}
			if strings.Contains(kind, "folded") {
				k.Fold = folded.String
			}
			l.Key = append(l.Key, k)
		}
		for _, form := range append(row.forms, row.key.String()) {
			got, err := l.ParseStored(form)
			require.NoError(t, err, "%v %q", row.types, form)
			require.Equal(t, row.key.String(), got.String(), "%v %q", row.types, form)
		}
		for _, form := range row.refused {
			_, err := l.ParseStored(form)
			require.ErrorIs(t, err, runtime.ErrInvalidKey, "%v %q", row.types, form)
		}
	}
}
