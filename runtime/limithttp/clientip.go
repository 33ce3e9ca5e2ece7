package limithttp

import (
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
)

// ErrNoClientIP: the address of the client is not known. In the function of a [Route], its status is 500, or 400 if a client
// can have caused it, by a Forwarded that is not in the form of RFC 7239.
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
	// UnixSocket trusts every peer of a Unix socket on which the program listens, as one of Proxies: the permissions of
	// the socket decide who that is.
	UnixSocket bool
	// OwnRequests means that a request of a trusted proxy without Header is the proxy's own, such as the health check of a
	// load balancer: the client is then the address of the proxy, and otherwise an error. Set it only if the proxies
	// set Header in all requests that they pass on, because clients would otherwise share the proxy's address.
	OwnRequests bool
	// NAT64 are the prefixes of translators through which IPv4 clients reach the program, if they are not 64:ff9b::/96: a
	// client with an address in one of them is the IPv4 address that it contains (RFC 6052), by the first of them. They have
	// 32, 40, 48, 56, 64 or 96 bits. Proxies, in contrast, are compared with the addresses as they are.
	NAT64 []netip.Prefix
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
	peer, trusted, err := c.peer(r)
	if err != nil || !trusted {
		return c.withoutNAT64(peer), err
	}
	lines := r.Header[textproto.CanonicalMIMEHeaderKey(c.Header)]
	// Proxies add to the last line, or a line after it.
	for _, line := range slices.Backward(lines) {
		entries, err := c.entries(line)
		if err != nil {
			return netip.Addr{}, err
		}
		for entry := range entries {
			addr, err := parseHost(entry)
			if err != nil {
				return netip.Addr{}, fmt.Errorf("%w: %s has the entry %.50q: %w", ErrNoClientIP, c.Header, entry, err)
			}
			if !c.list() || !c.trusts(addr) {
				return c.withoutNAT64(addr), nil
			}
		}
	}
	switch {
	case len(lines) > 0:
		return netip.Addr{}, fmt.Errorf("%w: all entries of %s are trusted proxies", ErrNoClientIP, c.Header)
	case !peer.IsValid():
		return netip.Addr{}, fmt.Errorf("%w: the proxy at the Unix socket has sent no %s", ErrNoClientIP, c.Header)
	case c.OwnRequests:
		return c.withoutNAT64(peer), nil
	}
	return netip.Addr{}, fmt.Errorf("%w: the proxy %v has sent no %s: if the request is its own, as a health check is, set OwnRequests of the ClientIP", ErrNoClientIP, peer, c.Header)
}

// peer returns the address of the connection's other end, and whether it is a trusted proxy. A proxy at a Unix socket has no
// address.
func (c ClientIP) peer(r *http.Request) (peer netip.Addr, trusted bool, err error) {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	socket := local != nil && local.Network() == "unix"
	if socket && c.UnixSocket {
		return peer, true, nil
	}
	switch peer, err = parseHost(r.RemoteAddr); {
	case err != nil && socket:
		return peer, false, fmt.Errorf("%w: the peer of a Unix socket has none: if it is a proxy, set UnixSocket of the ClientIP",
			ErrNoClientIP)
	case err != nil:
		return peer, false, fmt.Errorf("%w: the peer %.50q of the connection: %w", ErrNoClientIP, r.RemoteAddr, err)
	}
	return peer, !c.Direct && c.trusts(peer), nil
}

func (c ClientIP) problem() error {
	proxied := c.Header != "" || len(c.Proxies) > 0 || c.UnixSocket || c.OwnRequests
	switch {
	case c.Direct && proxied:
		return fmt.Errorf("%w: a ClientIP that is Direct has no Header and no Proxies", ErrNoClientIP)
	case !c.Direct && (c.Header == "" || len(c.Proxies) == 0 && !c.UnixSocket):
		return fmt.Errorf("%w: set Direct of the ClientIP, or both Header and Proxies (or UnixSocket)", ErrNoClientIP)
	}
	for _, p := range c.NAT64 {
		if !p.Addr().Is6() || !slices.Contains([]int{32, 40, 48, 56, 64, 96}, p.Bits()) {
			return fmt.Errorf("%w: the NAT64 prefix %v must be one of IPv6 with 32, 40, 48, 56, 64 or 96 bits", ErrNoClientIP, p)
		}
	}
	return nil
}

// withoutNAT64 returns the IPv4 address that an address of NAT64 contains, and other addresses as they are.
func (c ClientIP) withoutNAT64(a netip.Addr) netip.Addr {
	for _, p := range c.NAT64 {
		if !p.Contains(a) {
			continue
		}
		// The eighth byte is no part of the IPv4 address; see section 2.2 of RFC 6052.
		bytes := a.As16()
		after := slices.Delete(bytes[:], 8, 9)
		at := p.Bits() / 8
		if at > 8 {
			at--
		}
		return netip.AddrFrom4([4]byte(after[at : at+4]))
	}
	return a
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

// entries yields the entries of a line from the last to the first.
func (c ClientIP) entries(line string) (iter.Seq[string], error) {
	switch {
	case c.forwarded():
		nodes, err := forwardedFor(line)
		if err != nil {
			// The proxies add to what the client has sent, and so to a line that a client has spoilt.
			return nil, Error(http.StatusBadRequest, fmt.Errorf("%w: %s: %w", ErrNoClientIP, c.Header, err))
		}
		slices.Reverse(nodes)
		return slices.Values(nodes), nil
	case !c.list():
		return slices.Values([]string{trim(line)}), nil
	}
	// Not by strings.Split: a client can send very many.
	return func(yield func(string) bool) {
		for end := len(line); end >= 0; {
			comma := strings.LastIndexByte(line[:end], ',')
			if !yield(trim(line[comma+1 : end])) {
				return
			}
			end = comma
		}
	}, nil
}
