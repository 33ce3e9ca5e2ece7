package limithttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
)

// addressCase is a line of testdata/addresses.jsonl. The cases are from the tests of realclientip-go and chi, translated to
// a ClientIP, and some of our own. Where Want differs from the result that they published, Because says why.
type addressCase struct {
	From        string
	Direct      bool
	Header      string
	Proxies     []netip.Prefix
	UnixSocket  bool
	OwnRequests bool
	NAT64       []netip.Prefix
	Peer        string
	// Socket means that the program listens on a Unix socket.
	Socket    bool
	Lines     []string
	Want      string
	Published *string
	Because   string
}

func TestAddresses(t *testing.T) {
	file, err := os.Open("testdata/addresses.jsonl")
	require.NoError(t, err)
	defer file.Close()
	published, differ := 0, 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var c addressCase
		require.NoError(t, json.Unmarshal(lines.Bytes(), &c))
		header := c.Header
		if c.Direct {
			header = "X-Forwarded-For"
		}
		r := &http.Request{RemoteAddr: c.Peer, Header: http.Header{}}
		for _, line := range c.Lines {
			r.Header.Add(header, line)
		}
		if c.Socket {
			r = r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "app.sock", Net: "unix"}))
		}
		clients := limithttp.ClientIP{Direct: c.Direct, Header: c.Header, Proxies: c.Proxies, UnixSocket: c.UnixSocket, OwnRequests: c.OwnRequests, NAT64: c.NAT64}
		got, err := clients.Of(r)
		if c.Want == "" {
			assert.ErrorIs(t, err, limithttp.ErrNoClientIP, c.From)
			assert.False(t, got.IsValid(), c.From)
		} else if assert.NoError(t, err, c.From) {
			assert.Equal(t, c.Want, got.String(), c.From)
		}
		if !strings.HasPrefix(c.From, "ours: ") {
			published++
		}
		if c.Published != nil {
			differ++
			assert.NotEqual(t, *c.Published, c.Want, c.From)
			assert.NotEmpty(t, c.Because, c.From)
		}
	}
	t.Logf("%d published cases, of which %d have another result for a reason", published, differ)
	require.GreaterOrEqual(t, published, 150)
}

// A proxy at the other end of a real Unix socket is trusted by UnixSocket alone, not by a prefix of all addresses.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.sock")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := limithttp.ClientIP{Header: "X-Forwarded-For", Proxies: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}.Of(r)
		assert.ErrorContains(t, err, "set UnixSocket")
		addr, err := limithttp.ClientIP{Header: "X-Forwarded-For", UnixSocket: true}.Of(r)
		assert.NoError(t, err)
		fmt.Fprint(w, addr)
	}))
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	defer server.Close()
	proxy := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", path) }}
	defer proxy.CloseIdleConnections()
	request, err := http.NewRequest(http.MethodGet, "http://app/", nil)
	require.NoError(t, err)
	request.Header.Set("X-Forwarded-For", "6.6.6.6, 192.0.2.1")
	response, err := proxy.RoundTrip(request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	assert.Equal(t, "192.0.2.1", string(text))
}

func TestLongHeaders(t *testing.T) {
	c := limithttp.ClientIP{Header: "X-Forwarded-For", Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	of := func(lines ...string) (netip.Addr, error) {
		return c.Of(&http.Request{RemoteAddr: "10.0.0.1:80", Header: http.Header{http.CanonicalHeaderKey(c.Header): lines}})
	}
	a, err := of("1.1.1.1" + strings.Repeat(", 10.1.2.3", 10_000))
	require.NoError(t, err)
	require.Equal(t, "1.1.1.1", a.String())
	_, err = of(strings.Repeat("10.1.2.3,", 9_999) + "10.1.2.3")
	require.ErrorIs(t, err, limithttp.ErrNoClientIP)
	a, err = of(strings.Repeat("6.6.6.6, ", 10_000) + "192.0.2.1")
	require.NoError(t, err)
	require.Equal(t, "192.0.2.1", a.String())

	c.Header = "Forwarded"
	a, err = of("for=1.1.1.1" + strings.Repeat(`, for="10.1.2.3:80"`, 10_000))
	require.NoError(t, err)
	require.Equal(t, "1.1.1.1", a.String())
}

// The keys of addresses as express-rate-limit's tests have them, with /56, and in NAT64 the address of the client.
func TestAddressesAsKeys(t *testing.T) {
	for _, row := range []struct {
		addr string
		bits int
		want string
	}{
		{"1.2.3.4", 56, "1.2.3.4"},
		{"1.2.3.4", 16, "1.2.3.4"},
		{"::ffff:1.2.3.4", 56, "1.2.3.4"},
		{"::ffff:1.2.3.4", 16, "1.2.3.4"},
		{"::ffff:102:304", 56, "1.2.3.4"},
		{"::ffff:102:304", 16, "1.2.3.4"},
		{"::ffff:102:304", 128, "1.2.3.4"},
		{"2001:db8:1234:5678::1.2.3.4", 56, "2001:db8:1234:5600::/56"},
		{"2001:db8:1234:5678::102:304", 56, "2001:db8:1234:5600::/56"},
		{"64:ff9b::1.2.3.4", 56, "1.2.3.4"}, // theirs: 64:ff9b::/56, which all clients behind the translator share
		{"64:ff9b:1::1.2.3.4", 56, "64:ff9b:1::102:304"},
		{"::1", 56, "::/56"},
		{"0123:4567:89ab:cdef:0123:4567:89ab:cdef", 56, "123:4567:89ab:cd00::/56"},
		{"0123:4567:89ab:cdef:0123:4567:89ab:cdef", 63, "123:4567:89ab:cdee::/63"},
		{"0123:4567:89ab:cdef:0123:4567:89ab:cdef", 128, "123:4567:89ab:cdef:123:4567:89ab:cdef"},
		{"123:ABC::89", 56, "123:abc::/56"},
		{"2001:db8::1%eth0", 64, "2001:db8::/64"},
		{"fe80::1%eth0", 64, "fe80::/64"},
	} {
		c := limithttp.ClientIP{Header: "X-Real-IP", Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
		a, err := c.Of(&http.Request{RemoteAddr: "127.0.0.1:80", Header: http.Header{"X-Real-Ip": {row.addr}}})
		require.NoError(t, err)
		require.Equal(t, row.want, runtime.KeyOf(runtime.AddrPrefix(a, row.bits)).String(), row.addr)
	}
}

// FuzzClientIP: what a client writes to the left of a proxy's entry changes nothing, unless it breaks the syntax.
func FuzzClientIP(f *testing.F) {
	for _, left := range []string{"1.1.1.1", `for=1.1.1.1;ext="`, `for="`, ",", `"\`, "for=unknown;x=", `for="[::1]`} {
		f.Add(left, "[2001:db8::1]:80")
		f.Add(left, "192.0.2.1")
	}
	proxies := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	f.Fuzz(func(t *testing.T, left, node string) {
		want, err := limithttp.ClientIP{Direct: true}.Of(&http.Request{RemoteAddr: node})
		if err != nil || want == netip.MustParseAddr("127.0.0.1") {
			t.Skip()
		}
		for header, added := range map[string]string{"X-Forwarded-For": node, "Forwarded": `for="` + node + `";proto=https`} {
			c := limithttp.ClientIP{Header: header, Proxies: proxies}
			got, err := c.Of(&http.Request{RemoteAddr: "127.0.0.1:1", Header: http.Header{header: {left + ", " + added}}})
			if err == nil {
				require.Equal(t, want, got, "%s after %q", added, left)
			} else {
				require.Equal(t, "Forwarded", header)
			}
			got, err = c.Of(&http.Request{RemoteAddr: "127.0.0.1:1", Header: http.Header{header: {left, added}}})
			require.NoError(t, err)
			require.Equal(t, want, got, "%s in a line after %q", added, left)
		}
	})
}

// What a client writes at the beginning of a line of Forwarded is the fault of the client; what a proxy writes is a mistake
// of the program.
func TestMalformedForwardedIsABadRequest(t *testing.T) {
	w := newWorld()
	var reported []error
	h := limithttp.New(w.limiter, limithttp.Options{OnError: func(_ *http.Request, err error) { reported = append(reported, err) }})
	status := func(header, line string) int {
		reported = nil
		clients := limithttp.ClientIP{Header: header, Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
		route := h.Limit(func(r *http.Request) (limiter.Item, error) {
			addr, err := clients.Of(r)
			return w.limiter.Limit(with(bucket(), same), runtime.KeyOf(runtime.Addr(addr))), err
		})
		r := httptest.NewRequest(http.MethodGet, "/", nil) // from 192.0.2.1
		r.Header.Set(header, line)
		response := httptest.NewRecorder()
		route.Wrap(http.NotFoundHandler()).ServeHTTP(response, r)
		return response.Code
	}
	for _, line := range []string{`x=", for=198.51.100.7`, `x="`, `;, for=198.51.100.7`, `for="\`, `for=a b, for=198.51.100.7`} {
		require.Equal(t, http.StatusBadRequest, status("Forwarded", line), line)
		require.Empty(t, reported, line)
	}
	require.Equal(t, http.StatusNotFound, status("Forwarded", "for=198.51.100.7"))
	for header, line := range map[string]string{"Forwarded": "for=unknown", "X-Forwarded-For": "unknown", "X-Real-IP": "unknown"} {
		require.Equal(t, http.StatusInternalServerError, status(header, line), line)
		require.Len(t, reported, 1)
	}
}
