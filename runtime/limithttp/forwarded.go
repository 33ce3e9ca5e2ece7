package limithttp

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

// forwardedFor returns the parameter for of each element of a line of the field Forwarded (RFC 7239), from left to right.
// It is "" for an element without one, or with a parameter twice. A value need not be quoted, as many proxies write IPv6
// addresses without quotes.
//
// A client can write the beginning of a line, but cannot hide what a proxy has added behind an open quote: the quote that
// closes it is then one that the proxy has opened, and what follows it is an error.
func forwardedFor(line string) ([]string, error) {
	var nodes []string
	element, twice := map[string]string{}, false
	for rest := line; ; {
		name, value, after, err := forwardedPair(rest)
		if err != nil {
			return nil, err
		}
		_, again := element[name]
		twice = twice || again
		element[name] = value
		switch rest = trim(after); {
		case rest == "" || rest[0] == ',':
			if twice {
				element["for"] = ""
			}
			nodes = append(nodes, element["for"])
			if rest == "" {
				return nodes, nil
			}
			clear(element)
			twice = false
		case rest[0] != ';':
			return nil, errForwarded
		}
		rest = rest[1:]
	}
}

var errForwarded = errors.New("not in the form of RFC 7239")

// forwardedPair reads a parameter from the beginning of a line.
func forwardedPair(line string) (name, value, after string, err error) {
	name, after, ok := strings.Cut(line, "=")
	name = strings.ToLower(trim(name))
	if !ok || name == "" || strings.ContainsAny(name, " \t\",;") {
		return "", "", "", errForwarded
	}
	if quoted, ok := strings.CutPrefix(after, `"`); ok {
		value, after, err = unquote(quoted)
		return name, value, after, err
	}
	end := strings.IndexAny(after, ",;")
	if end < 0 {
		end = len(after)
	}
	value, after = trim(after[:end]), after[end:]
	if value == "" || strings.ContainsAny(value, " \t\"\\") {
		return "", "", "", errForwarded
	}
	return name, value, after, nil
}

// unquote reads a quoted string, whose opening quote is already read.
func unquote(s string) (value, after string, err error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"':
			return b.String(), s[i+1:], nil
		case '\\':
			if i++; i == len(s) {
				return "", "", errForwarded
			}
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", errForwarded
}

// trim removes the white space that HTTP allows around values.
func trim(s string) string { return strings.Trim(s, " \t") }

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
