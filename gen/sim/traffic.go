package sim

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"time"
)

// Traffic is a trace that is made up: the [io.Reader] of a text that [NewTrace] reads.
type Traffic struct {
	limit   Limit
	name    []byte
	streams []*stream
	text    bytes.Buffer
}

// trafficBegins is when made-up traffic begins.
var trafficBegins = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// mostRequests is how many requests traffic has at most.
const mostRequests = 100_000_000

// NewTraffic returns the requests to a limit that a text describes, the same for the same seed. The text is one
// or more clauses with ";" between them, which go on at the same time:
//
//	steady 5/s        requests at even distances, from the first instant
//	poisson 20/s      requests at random, so many on average and independent of each other
//	burst 100         so many requests at one instant
//
// and after it, in any order,
//
//	for 10m           how long; without it until the last of the other clauses ends, or a minute
//	at 2m             from when, 0 without it
//	over 50 keys      by how many keys, 1 without it: in turn, or at random for poisson
//	taking 800        the count of each request, 1 without it
//
// A rate is a number per unit or duration: 5/s, 100/m, 3/10s. If the limit has capacity 0, the requests reserve.
// The error is a [*TrafficError].
func NewTraffic(text string, limit Limit, seed uint64) (*Traffic, error) {
	clauses, err := parseTraffic(text, limit)
	if err != nil {
		return nil, err
	}
	name, err := json.Marshal(limit.Policy.Name)
	if err != nil {
		return nil, err
	}
	t := &Traffic{limit: limit, name: name}
	for i, c := range clauses {
		t.streams = append(t.streams, newStream(c, seed, uint64(i)))
	}
	return t, nil
}

// Read implements [io.Reader].
func (t *Traffic) Read(p []byte) (int, error) {
	for t.text.Len() < len(p) {
		s := t.earliest()
		if s == nil {
			break
		}
		t.write(s)
		s.advance()
	}
	if t.text.Len() == 0 {
		return 0, io.EOF
	}
	return t.text.Read(p)
}

// earliest returns the stream with the next request, nil if there are no more.
func (t *Traffic) earliest() *stream {
	var first *stream
	for _, s := range t.streams {
		if !s.done() && (first == nil || s.next < first.next) {
			first = s
		}
	}
	return first
}

// write writes the next request of a stream as a line of a trace.
func (t *Traffic) write(s *stream) {
	out := t.text.AvailableBuffer()
	out = append(out, `{"at":"`...)
	out = trafficBegins.Add(s.next).AppendFormat(out, time.RFC3339Nano)
	out = append(append(out, `","limit":`...), t.name...)
	out = t.appendKey(out, s.key())
	if s.taking > 1 {
		out = strconv.AppendInt(append(out, `,"count":`...), s.taking, 10)
	}
	if t.limit.Policy.Capacity == 0 {
		out = append(out, `,"reserve":true`...)
	}
	t.text.Write(append(out, '}', '\n'))
}

// appendKey appends the key with a number, counting from 1.
func (t *Traffic) appendKey(out []byte, number int64) []byte {
	switch n := len(t.limit.Key); n {
	case 0:
		return out
	case 1:
		return appendPart(append(out, `,"key":`...), t.limit.Key[0], number, 0)
	}
	out = append(out, `,"key":`...)
	for i, typ := range t.limit.Key {
		out = append(out, "[,"[min(i, 1)])
		out = appendPart(out, typ, number, i)
	}
	return append(out, ']')
}

// appendPart appends part i of the key with a number. The keys of different numbers differ, but for those of
// which every part is a bool: there the parts are the last digits of the number in base 2.
func appendPart(out []byte, typ string, number int64, i int) []byte {
	out = append(out, '"')
	switch typ {
	case "bool":
		out = strconv.AppendBool(out, number>>i&1 == 1)
	case "netip.Addr":
		out = addrOf(number).AppendTo(out)
	default:
		out = strconv.AppendInt(out, number, 10)
	}
	return append(out, '"')
}
