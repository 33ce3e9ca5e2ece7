package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func TestLineIsParsed(t *testing.T) {
	for _, test := range []struct {
		text string
		want Line
	}{
		{`{"at":0}`, Line{Count: 1}},
		{` { "at" : 1500 , "limit" : "send" } `, Line{At: 1_500_000_000, Limit: "send", Count: 1}},
		{`{"at":"1970-01-01T00:00:00.000000001Z"}`, Line{At: 1, Count: 1}},
		{`{"at":"1970-01-01T01:00:01+01:00"}`, Line{At: 1_000_000_000, Count: 1}},
		{`{"at":1,"key":"42","count":7,"reserve":true}`, Line{At: 1_000_000, Key: []string{"42"}, Count: 7, Reserve: true}},
		{`{"at":1,"key":["a","b"],"reserve":false}`, Line{At: 1_000_000, Key: []string{"a", "b"}, Count: 1}},
		{`{"at":1,"key":[ ]}`, Line{At: 1_000_000, Count: 1}},
		{`{"at":1,"key":"日本\u65e5\ud83d\ude00\"\\\/\b\f\n\r\t\u0000"}`, Line{At: 1_000_000, Key: []string{"日本日😀\"\\/\b\f\n\r\t\x00"}, Count: 1}},
		{`{"at":1,"\u0063ount":2}`, Line{At: 1_000_000, Count: 2}},
		{`{"at":1,"key":42}`, Line{At: 1_000_000, Key: []string{"42"}, KeyTypes: []JSONType{JSONNumber}, Count: 1}},
		{`{"at":1,"key":["a",-7,true,false]}`, Line{At: 1_000_000, Key: []string{"a", "-7", "true", "false"}, KeyTypes: []JSONType{jsonString, JSONNumber, JSONBool, JSONBool}, Count: 1}},
		{`{"at":1767225600.25}`, Line{At: 1_767_225_600_250_000_000, Count: 1}},
		{`{"at":1767225600.1234567890}`, Line{At: 1_767_225_600_123_456_789, Count: 1}},
		{`{"at":1767225600123.456}`, Line{At: 1_767_225_600_123_456_000, Count: 1}},
		{`{"at":1.5}`, Line{At: 1_500_000_000, Count: 1}},
		{`{"ts":[{"a":"}\\\"]"},null],"at":1,"user":{},"keys":1,"key":"a","level":"info","日本":-1.5e3 }`, Line{At: 1_000_000, Key: []string{"a"}, Count: 1}},
		{`{"Count":3,"limits":[],"limit":"send","at":1,"count":2}`, Line{At: 1_000_000, Limit: "send", Count: 2}},
		{`{"at":1,"allowed":false,"retryAfterMs":1.5e-3,"remaining":0,"value":-0.25}`, Line{At: 1_000_000, Count: 1}},
	} {
		var got Line
		require.NoError(t, got.Parse([]byte(test.text)), test.text)
		got.Raw, got.hasLimit = test.want.Raw, test.want.hasLimit
		if test.want.KeyTypes == nil {
			test.want.KeyTypes = make([]JSONType, len(test.want.Key))
		}
		assert.Equal(t, fmt.Sprintf("%+v", test.want), fmt.Sprintf("%+v", got), test.text)
	}
}

const outOfRange = `0:7: at must be in the years 1970 to 2199, in Unix milliseconds, or in Unix seconds with a fraction`

func TestEveryVerbThatTakesCanBeReplayed(t *testing.T) {
	for _, op := range runtime.Ops() {
		if op.Takes() {
			require.Contains(t, slices.Collect(maps.Values(verbs)), op, "%v: add its verb to verbs in gen/sim/trace/line.go", op)
		}
	}
}

func TestInvalidLineIsAFaultWithItsColumn(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{`[]`, `0:1: a line must be a JSON object, not a list`},
		{`null`, `0:1: a line must be a JSON object, not null`},
		{`x`, `0:1: a line must be a JSON object, not an unquoted word`},
		{`{}`, `0: the line has no field at, the time of the request`},
		{`{"limit":"send"}`, `0: the line has no field at, the time of the request`},
		{`{"at":1`, `0:8: the line ends before its JSON object does`},
		{`{"at":1,}`, `0:9: the line is not valid JSON from here on`},
		{`{,"at":1}`, `0:2: the line is not valid JSON from here on`},
		{`{"at":1 "limit":"send"}`, `0:9: the line is not valid JSON from here on`},
		{`{"at" 1}`, `0:7: the value of "at" is not valid JSON`},
		{`{at:1}`, `0:2: the line is not valid JSON from here on`},
		{`{'at':1}`, `0:2: the line is not valid JSON from here on`},
		{`{"at":1} {"at":2}`, `0:10: a line must have one JSON object; after it there is an object`},
		{`{"at":1}}`, `0:9: a line must have one JSON object; after it there is }`},
		{`{"at":1,"at":1}`, `0:9: at is given twice`},
		{`{"at":1,"\u0061t":1}`, `0:9: at is given twice`},
		{`{"at":1,"cuont":1}`, `0:9: unknown field "cuont" (did you mean count?)`},
		{`{"at":1,"Count":1}`, `0:9: unknown field "Count" (did you mean count?)`},
		{`{"AT":1}`, `0:2: unknown field "AT" (did you mean at?)`},
		{`{"at":1,"limits":1}`, `0:9: unknown field "limits" (did you mean limit?)`},
		{`{"at":1,"limi":1}`, `0:9: unknown field "limi" (did you mean limit?)`},
		{`{"at":1,"resirve":1}`, `0:9: unknown field "resirve" (did you mean reserve?)`},
		{`{"at":1,"Key":1}`, `0:9: unknown field "Key" (did you mean key?)`},
		{`{"日本":1}`, `0: the line has no field at, the time of the request`},
		{`{"at":1,"\u001b[31m` + strings.Repeat("x", 50) + `":x}`, `0:72: the value of "\x1b[31m` + strings.Repeat("x", 31) + `…" is not valid JSON`},
		{`{"at":1,"x":{"a":1}`, `0:20: the line ends before its JSON object does`},
		{`{"at":1,"x":[1}`, `0:15: the value of "x" is not valid JSON`},
		{`{"at":1,"x":"a\`, `0:16: the line ends before its JSON object does`},
		{`{"at":1,"x" 1}`, `0:13: the value of "x" is not valid JSON`},
		{`{"at":1,"x":}`, `0:13: the value of "x" is not valid JSON`},

		{`{"at":null}`, `0:7: at must be an RFC 3339 time such as "2030-01-02T15:04:05Z", or Unix milliseconds, not null`},
		{`{"at":1.}`, `0:9: the value of "at" is not valid JSON`},
		{`{"at":1.5e3}`, `0:7: at must be a number in plain digits, such as 1893596645000`},
		{`{"at":1e3}`, `0:7: at must be a number in plain digits, such as 1893596645000`},
		{`{"at":01}`, `0:8: the line is not valid JSON from here on`},
		{`{"at":-1}`, outOfRange}, {`{"at":-0.5}`, outOfRange}, {`{"at":1767225600000000}`, outOfRange}, {`{"at":9999999999.5}`, outOfRange},
		{`{"at":1767225600.1234567891}`, `0:7: at is more precise than a nanosecond`},
		{`{"at":1767225600123.4567891}`, `0:7: at is more precise than a nanosecond`},
		{`{"at":99999999999999999999}`, `0:7: at is too large`},
		{`{"at":"today"}`, `0:7: at is not an RFC 3339 time such as "2030-01-02T15:04:05Z"`},
		{`{"at":"2030-01-02 15:04:05"}`, `0:7: at is not an RFC 3339 time such as "2030-01-02T15:04:05Z"`},
		{`{"at":"2030-01-02T15:04:05,5Z"}`, `0:7: at is not an RFC 3339 time such as "2030-01-02T15:04:05Z"`},
		{`{"at":"2030-01-02T15:04:05.Z"}`, `0:7: at is not an RFC 3339 time such as "2030-01-02T15:04:05Z"`},
		{`{"at":"2030-01-02T5:04:05Z"}`, `0:7: at is not an RFC 3339 time such as "2030-01-02T15:04:05Z"`},
		{`{"at":"2030-01-02T15:04:05+24:00"}`, `0:7: at is not an RFC 3339 time such as "2030-01-02T15:04:05Z"`},
		{`{"at":"2030-01-02T15:04:05+01:60"}`, `0:7: at is not an RFC 3339 time such as "2030-01-02T15:04:05Z"`},
		{`{"at":"2030-01-02T15:04:05"}`, `0:7: at is not an RFC 3339 time such as "2030-01-02T15:04:05Z"`},
		{`{"at":"2030-02-30T15:04:05Z"}`, `0:7: at is not an RFC 3339 time such as "2030-01-02T15:04:05Z"`},
		{`{"at":"1969-12-31T23:59:59Z"}`, `0:7: at must be in the years 1970 to 2199`},
		{`{"at":"2300-01-01T00:00:00Z"}`, `0:7: at must be in the years 1970 to 2199`},

		{`{"at":1,"limit":null}`, `0:17: limit must be a string, not null`},
		{`{"at":1,"limit":["send"]}`, `0:17: limit must be a string, not a list`},
		{`{"at":1,"key":null}`, `0:15: key must be a string, a number, true or false, or a list of them, not null`},
		{`{"at":1,"key":{}}`, `0:15: key must be a string, a number, true or false, or a list of them, not an object`},
		{`{"at":1,"key":["a",[1]]}`, `0:20: a part of the key must be a string, a number, true or false, not a list`},
		{`{"at":1,"key":["a",]}`, `0:20: the value of "key" is not valid JSON`},
		{`{"at":1,"key":1.}`, `0:17: the value of "key" is not valid JSON`},
		{`{"at":1,"key":tru}`, `0:18: the value of "key" is not valid JSON`},
		{`{"at":1,"key":["a" "b"]}`, `0:20: the value of "key" is not valid JSON`},
		{`{"at":1,"key":["a"`, `0:19: the line ends before its JSON object does`},
		{`{"at":1,"key":"a`, `0:17: the line ends before its JSON object does`},
		{`{"at":1,"key":"a\`, `0:18: the line ends before its JSON object does`},
		{"{\"at\":1,\"key\":\"a\tb\"}", `0:17: the value of "key" is not valid JSON`},
		{"{\"at\":1,\"key\":\"\xff\"}", `0:16: the line is not valid UTF-8`},
		{"{\"at\":1,\"key\":\"\\n\xff\"}", `0:18: the line is not valid UTF-8`},
		{`{"at":1,"key":"\ud800"}`, `0:16: key contains an invalid escape sequence`},
		{`{"at":1,"key":"\ud800\u0041"}`, `0:16: key contains an invalid escape sequence`},
		{`{"at":1,"key":"\udc00\ud800"}`, `0:16: key contains an invalid escape sequence`},
		{`{"at":1,"key":"\u+041"}`, `0:18: the value of "key" is not valid JSON`},
		{`{"at":1,"key":"\x41"}`, `0:17: the value of "key" is not valid JSON`},

		{`{"at":1,"count":"1"}`, `0:17: count must be a whole number, not a string`},
		{`{"at":1,"count":NaN}`, `0:17: the value of "count" is not valid JSON`},
		{`{"at":1,"count":-}`, `0:18: the value of "count" is not valid JSON`},
		{`{"at":1,"count":9223372036854775808}`, `0:17: count is too large`},
		{`{"at":1,"count":1x}`, `0:18: the line is not valid JSON from here on`},
		{`{"at":1,"reserve":1}`, `0:19: reserve must be true or false, not a number`},
		{`{"at":1,"reserve":tru}`, `0:22: the value of "reserve" is not valid JSON`},
		{`{"at":1,"allowed":"yes"}`, `0:19: allowed must be true or false, not a string`},
		{`{"at":1,"value":1.}`, `0:19: the value of "value" is not valid JSON`},
		{`{"at":1,"value":NaN}`, `0:17: the value of "value" is not valid JSON`},
	} {
		var l Line
		assert.EqualError(t, l.Parse([]byte(test.text)), test.want, test.text)
	}
}

// FuzzLine compares parse with a simple reading of the fields: both reject a line, or both read the same from it.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{
		`{"at":1,"limit":"send","key":"42","count":7,"reserve":true}`,
		`{"at":"2030-01-02T15:04:05.5Z","key":["a","b\u00e9\ud83d\ude00\n"]}`,
		`{"at":1,"allowed":false,"retryAfterMs":1.5e-3,"remaining":0,"value":-0.25}`,
		`{"at":1,"at":2}`, `{"at":1,}`, `{"at":1} x`, `{"at":-0}`, `{"at":1,"key":[]}`, `{"at":1,"key":"\ud800"}`, ` {"at" : 1 } `, `{"at":1,"key":null}`,
		`{"at":1.5,"key":[7,true,"x"]}`, `{"at":1767225600123.4567,"x":{"y":["}"]},"cuont":1,"count":2}`, `{"at":1,"Limit":"a"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.ContainsAny(text, "\n") || len(bytes.TrimSpace(text)) == 0 {
			t.Skip("not one line")
		}
		var got Line
		err := got.Parse(text)
		want, ok := decoded(t, text)
		require.Equal(t, ok, err == nil, "%q: %v", text, err)
		if ok {
			got.Raw, got.hasLimit = want.Raw, want.hasLimit
			require.Equal(t, fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got))
		}
	})
}

// decoded reads the fields of a line one by one. It is false if the line is invalid.
func decoded(t *testing.T, text []byte) (l Line, ok bool) {
	l = Line{Count: 1}
	if !json.Valid(text) || !utf8.Valid(text) {
		return l, false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if open, _ := d.Token(); open != json.Delim('{') {
		return l, false
	}
	seen, near := map[string]bool{}, map[string]bool{}
	for d.More() {
		token, _ := d.Token()
		name := token.(string)
		if strings.Contains(name, "\uFFFD") {
			t.Skip("a name with half of a surrogate pair")
		}
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			return l, false
		}
		if !slices.ContainsFunc(fields[:], func(f field) bool { return f.name == name }) {
			near[likeField(name)] = true
			continue
		}
		if seen[name] || !decodedField(&l, name, raw) {
			return l, false
		}
		seen[name] = true
	}
	for name := range near {
		if name != "" && !seen[name] {
			return l, false
		}
	}
	_, err := d.Token()
	_, end := d.Token()
	return l, err == nil && end == io.EOF && seen["at"]
}

// likeField returns the field of a request that a name looks like a typo of, or "".
func likeField(name string) string {
	for _, f := range fields[:fieldReserve+1] {
		if isTypo(name, f.name) {
			return f.name
		}
	}
	return ""
}

// decodedField reads one field. It has no second implementation of at.
func decodedField(l *Line, name string, raw json.RawMessage) bool {
	if string(raw) == "null" {
		return name == "plan"
	}
	switch name {
	case "at":
		var err error
		l.At, err = jsonValue{text: raw, line: raw}.instant()
		return err == nil
	case "limit":
		return decodedText(raw, &l.Limit)
	case "key":
		parts := []json.RawMessage{raw}
		if raw[0] == '[' && json.Unmarshal(raw, &parts) != nil {
			return false
		}
		l.Key, l.KeyTypes = make([]string, len(parts)), make([]JSONType, len(parts))
		for i, part := range parts {
			l.Key[i] = string(part)
			switch c := part[0]; {
			case c == 't', c == 'f':
				l.KeyTypes[i] = JSONBool
			case c == '-', '0' <= c && c <= '9':
				l.KeyTypes[i] = JSONNumber
			case !decodedText(part, &l.Key[i]):
				return false
			}
		}
		return true
	case "count":
		return !bytes.ContainsAny(raw, ".eE") && json.Unmarshal(raw, &l.Count) == nil
	case "reserve":
		return json.Unmarshal(raw, &l.Reserve) == nil
	case "verb":
		var verb string
		if !decodedText(raw, &verb) {
			return false
		}
		var ok bool
		l.Op, ok = map[string]runtime.Op{"allow": runtime.Take, "allowUpTo": runtime.TakeUpTo, "charge": runtime.Charge}[verb]
		return ok
	case "plan":
		if raw[0] != '"' {
			return true
		}
		return decodedText(raw, &l.Plan)
	case "allowed":
		return json.Unmarshal(raw, new(bool)) == nil
	case "oldAllowed":
		return json.Unmarshal(raw, new(bool)) == nil
	case "retryAfterMs", "remaining", "value", "taken", "oldTaken", "oldRetryAfterMs", "oldRemaining", "oldValue":
		return json.Unmarshal(raw, new(json.Number)) == nil && raw[0] != '"'
	}
	return false
}

// decodedText reads a string. It is false for half of a surrogate pair, which encoding/json accepts as U+FFFD.
func decodedText(raw json.RawMessage, text *string) bool {
	if raw[0] != '"' || json.Unmarshal(raw, text) != nil {
		return false
	}
	given := strings.Count(string(raw), "\uFFFD") + strings.Count(strings.ToLower(string(raw)), `\ufffd`)
	return strings.Count(*text, "\uFFFD") <= given
}

// How long a request runs is a duration, or a number of seconds as servers log it. It is kept in lines that are written
// again.
func TestRunning(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`"1.5s"`: 1500 * time.Millisecond, `0.25`: 250 * time.Millisecond, `3`: 3 * time.Second, `"2"`: 2 * time.Second, `0`: 0,
	} {
		var l Line
		require.NoError(t, l.Parse([]byte(`{"at":0,"running":`+text+`}`)), text)
		assert.Equal(t, want, l.Running, text)
		l.Raw = nil
		var again Line
		require.NoError(t, again.Parse(append(l.AppendRequest([]byte(`{`)), `"allowed":true}`...)), text)
		assert.Equal(t, want, again.Running, text)
	}
	for _, text := range []string{`"soon"`, `-1`, `"-1s"`, `1e300`, `"3651d"`, `true`, `[1]`} {
		assert.Error(t, new(Line).Parse([]byte(`{"at":0,"running":`+text+`}`)), text)
	}
}
