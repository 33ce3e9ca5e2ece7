package limithttp

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// ErrNoClientIP: the address of the client is not known. In the function of a [Route], its status is 500.
var ErrNoClientIP = Error(http.StatusInternalServerError, errors.New("the address of the client is not known"))

// ClientIP finds the address of the client, for a limit by address:
//
//	proxies := limithttp.ClientIP{Header: "X-Forwarded-For", Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
//
//	h.Limit(func(r *http.Request) (limits.Item, error) {
//		addr, err := proxies.Of(r)
//		return limit.Search(addr), err
//	})
//
// A header is only what a client or a proxy has written, so there is no default: the zero ClientIP returns an error. If the
// program is not behind a proxy, set Direct. Otherwise set Header and Proxies to what your proxies are known to do.
type ClientIP struct {
	// Direct means that no proxy is in front of the program: the peer of the connection is the client.
	Direct bool
	// Header is the field in which the proxies write the address of their peer. To X-Forwarded-For, and to Forwarded of RFC
	// 7239, each adds an entry. Any other, such as CF-Connecting-IP, has one address, and the last line of several counts.
	Header string
	// Proxies are the addresses of the trusted proxies. They must replace or extend Header in every request. A peer with
	// another address is itself the client, and its Header is ignored.
	Proxies []netip.Prefix
}

// Of returns the address of the client, never the zero Addr without an error. It is an IPv4 address if it is one mapped into
// IPv6, and has no zone. In a Header that is a list, it is the last entry that is not the address of a trusted proxy. An
// error wraps [ErrNoClientIP]: the ClientIP is not configured, the peer is not known, or the field is missing, or an entry
// up to that of the client is not an address, or all of them are proxies.
//
// The key type netip.Addr/64 counts the addresses of one IPv6 subscriber together.
func (c ClientIP) Of(r *http.Request) (netip.Addr, error) {
	if err := c.problem(); err != nil {
		return netip.Addr{}, err
	}
	peer, err := parsePeer(r.RemoteAddr)
	if err != nil || c.Direct || !c.trusts(peer) {
		return peer, err
	}
	lines := r.Header[textproto.CanonicalMIMEHeaderKey(c.Header)]
	// Proxies add to the last line, or a line after it.
	for _, line := range slices.Backward(lines) {
		entries, err := c.entries(line)
		if err != nil {
			return netip.Addr{}, err
		}
		for {
			entry, more := entries()
			addr, err := parseHost(entry)
			if err != nil {
				return netip.Addr{}, fmt.Errorf("%w: %s has the entry %.50q: %w", ErrNoClientIP, c.Header, entry, err)
			}
			if !c.list() || !c.trusts(addr) {
				return addr, nil
			}
			if !more {
				break
			}
		}
	}
	if len(lines) == 0 {
		return netip.Addr{}, fmt.Errorf("%w: the proxy %v has sent no %s", ErrNoClientIP, peer, c.Header)
	}
	return netip.Addr{}, fmt.Errorf("%w: all entries of %s are trusted proxies", ErrNoClientIP, c.Header)
}

func (c ClientIP) problem() error {
	switch {
	case c.Direct && c.Header == "" && len(c.Proxies) == 0:
		return nil
	case c.Direct:
		return fmt.Errorf("%w: a ClientIP that is Direct has no Header and no Proxies", ErrNoClientIP)
	case c.Header == "" || len(c.Proxies) == 0:
		return fmt.Errorf("%w: set Direct of the ClientIP, or both Header and Proxies", ErrNoClientIP)
	}
	return nil
}

// list reports whether the header has an entry for each proxy.
func (c ClientIP) list() bool { return strings.EqualFold(c.Header, "X-Forwarded-For") || c.forwarded() }

func (c ClientIP) forwarded() bool { return strings.EqualFold(c.Header, "Forwarded") }

func (c ClientIP) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(c.Proxies, func(p netip.Prefix) bool { return unmapped(p).Contains(a) })
}

// unmapped returns a prefix of IPv4 for one of IPv4 addresses mapped into IPv6.
func unmapped(p netip.Prefix) netip.Prefix {
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p
}

// entries returns a function that returns the entries of a line from the last to the first, and whether there are more.
func (c ClientIP) entries(line string) (next func() (entry string, more bool), err error) {
	switch {
	case c.forwarded():
		nodes, err := forwardedFor(line)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrNoClientIP, c.Header, err)
		}
		return func() (string, bool) {
			last := nodes[len(nodes)-1]
			nodes = nodes[:len(nodes)-1]
			return last, len(nodes) > 0
		}, nil
	case !c.list():
		return func() (string, bool) { return trim(line), false }, nil
	}
	return func() (string, bool) {
		comma := strings.LastIndexByte(line, ',')
		last := trim(line[comma+1:])
		line = line[:max(0, comma)]
		return last, comma >= 0
	}, nil
}

// trim removes the white space that HTTP allows around values.
func trim(s string) string { return strings.Trim(s, " \t") }

// parsePeer returns the address of a connection's other end.
func parsePeer(remoteAddr string) (netip.Addr, error) {
	a, err := parseHost(remoteAddr)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%w: the peer %.50q of the connection: %w", ErrNoClientIP, remoteAddr, err)
	}
	return a, nil
}

// parseHost returns the address of an entry: "192.0.2.1", "192.0.2.1:80", "2001:db8::1", "[2001:db8::1]" or
// "[2001:db8::1]:80".
func parseHost(s string) (netip.Addr, error) {
	host := s
	if inner, ok := strings.CutPrefix(s, "["); ok {
		inner, port, ok := strings.Cut(inner, "]")
		if !ok || port != "" && !isPort(port) {
			return netip.Addr{}, errNotAddress
		}
		host = inner
	} else if h, port, ok := strings.Cut(s, ":"); ok && !strings.Contains(port, ":") {
		// With one colon only: an IPv6 address has at least two.
		if !isPort(":" + port) {
			return netip.Addr{}, errNotAddress
		}
		host = h
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, errNotAddress
	}
	// A client could invent a zone for each request, and so get a new key each time.
	a = a.Unmap().WithZone("")
	if a.IsUnspecified() {
		return netip.Addr{}, errNotAddress
	}
	return a, nil
}

var errNotAddress = errors.New("not an IP address")

// isPort reports whether s is a colon and a port: a number, or an obfuscated one of RFC 7239 such as _gazonk.
func isPort(s string) bool {
	port, ok := strings.CutPrefix(s, ":")
	if name, obfuscated := strings.CutPrefix(port, "_"); ok && obfuscated {
		return name != "" && strings.IndexFunc(name, notObfuscated) < 0
	}
	_, err := strconv.ParseUint(port, 10, 16)
	return ok && err == nil
}

// notObfuscated reports whether a rune cannot be in an obfuscated identifier of RFC 7239.
func notObfuscated(c rune) bool {
	return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-')
}
