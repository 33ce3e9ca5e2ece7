package trace

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
)

// logField is a field of an access log: a word, or a text in quotes or brackets.
type logField struct {
	text    []byte
	at      int
	bracket bool
}

// splitAccess splits a line of an access log. In quotes, servers write a backslash before a quote; other escapes stay as
// they are.
func splitAccess(text []byte, list []logField) ([]logField, error) {
	for i := 0; i < len(text); {
		switch c := text[i]; c {
		case ' ':
			i++
		case '"':
			end := closingQuote(text, i+1)
			if end < 0 {
				return list, columnFault(text, i, "a quoted field without a closing quote")
			}
			list = append(list, logField{text: text[i+1 : end], at: i})
			i = end + 1
		case '[':
			end := bytes.IndexByte(text[i:], ']')
			if end < 0 {
				return list, columnFault(text, i, "a field in brackets without a closing bracket")
			}
			list = append(list, logField{text[i+1 : i+end], i, true})
			i += end + 1
		default:
			end := bytes.IndexByte(text[i:], ' ')
			if end < 0 {
				end = len(text) - i
			}
			list = append(list, logField{text: text[i : i+end], at: i})
			i += end
		}
	}
	return list, nil
}

// closingQuote returns the index of the quote that ends a text, or -1.
func closingQuote(text []byte, from int) int {
	for i := from; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// The names of the fields of access logs. Those of the common and combined formats are the variables of nginx; the last
// is what nginx writes after them in its default configuration.
var (
	nginxNames = []string{"remote_addr", "", "remote_user", "time_local", "request", "status", "body_bytes_sent",
		"http_referer", "http_user_agent", "http_x_forwarded_for"}
	envoyNames = []string{"start_time", "request", "response_code", "response_flags", "bytes_received",
		"bytes_sent", "duration",
		"upstream_service_time", "x_forwarded_for", "user_agent", "request_id", "authority", "upstream_host"}
	istioNames = []string{"start_time", "request", "response_code", "response_flags", "response_code_details",
		"connection_termination_details", "upstream_transport_failure_reason", "bytes_received", "bytes_sent", "duration",
		"upstream_service_time", "x_forwarded_for", "user_agent", "request_id", "authority", "upstream_host",
		"upstream_cluster", "upstream_local_address", "downstream_local_address", "downstream_remote_address",
		"requested_server_name", "route_name"}
	// requestNames are the words of the field request; path is its address up to the question mark.
	requestNames = []string{"method", "path", "protocol"}
)

// accessNames returns the names of the fields that an access log has, by its first line; none if it is no access log.
func accessNames(text []byte) []string {
	list, err := splitAccess(text, nil)
	if err != nil {
		return nil
	}
	switch at := slices.IndexFunc(list, func(t logField) bool { return t.bracket }); {
	case at == 0 && len(list) >= len(istioNames):
		return istioNames
	case at == 0 && len(list) >= 4:
		return envoyNames[:min(len(list), len(envoyNames))]
	case at == 3 && len(list) > 4:
		return nginxNames[:min(len(list), len(nginxNames))]
	case at == 4 && len(list) > 5: // the name of the server comes first
		return append([]string{"server_name"}, nginxNames[:min(len(list)-1, len(nginxNames))]...)
	}
	return nil
}

// accessLayout reads access logs.
type accessLayout struct {
	// indexes has for each value its field, counted from 0, and parts which word of it, counted from 1; 0 for all.
	indexes, parts []int
	least          int
	// timeAt is the field with the time, which shows whether a line has the form of the first one.
	timeAt int
	split  []logField
}

func newAccessLayout(m Mapping, names, known []string) (*accessLayout, error) {
	isTime := func(name string) bool { return name == "time_local" || name == "start_time" }
	l := &accessLayout{timeAt: slices.IndexFunc(names, isTime)}
	for _, e := range m.entries {
		index, word := slices.Index(names, e.name), 0
		if n, err := strconv.Atoi(e.name); err == nil && n > 0 {
			index = n - 1
		} else if word = 1 + slices.Index(requestNames, e.name); word > 0 {
			index = slices.Index(names, "request")
		}
		if index < 0 {
			return nil, mappingErrorf("the access log has no field %s; %s, and numbers from 1", Clip(e.name, 40), listed(known))
		}
		l.indexes, l.parts = append(l.indexes, index), append(l.parts, word)
		l.least = max(l.least, index+1)
	}
	return l, nil
}

func (l *accessLayout) read(text []byte, values []value) (err error) {
	if l.split, err = splitAccess(text, l.split[:0]); err != nil {
		return err
	}
	if len(l.split) < l.least {
		return Faultf("the line has %s; it needs at least %d", words.Count(int64(len(l.split)), "field"), l.least)
	}
	if !l.split[min(l.timeAt, len(l.split)-1)].bracket {
		return Faultf("field %d is not a time in brackets, as in the first line", l.timeAt+1)
	}
	for i, index := range l.indexes {
		t := l.split[index]
		if word := l.parts[i]; word > 0 {
			t.text = wordOfRequest(t.text, word)
		}
		if string(t.text) != "-" && len(t.text) > 0 { // servers write - for an unknown value
			values[i] = value{t.text, t.at}
		}
	}
	return nil
}

// wordOfRequest returns the method, the path without its query, or the protocol of "GET /a?b HTTP/1.1".
func wordOfRequest(request []byte, word int) []byte {
	method, rest, _ := bytes.Cut(request, []byte(" "))
	if word == 1 {
		return method
	}
	target, protocol, _ := bytes.Cut(rest, []byte(" "))
	if word == 3 {
		return protocol
	}
	path, _, _ := bytes.Cut(target, []byte("?"))
	return path
}
