package trace

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUnixTimesAreReadByTheirSize(t *testing.T) {
	const want int64 = 1_893_596_645_250_000_000
	for _, text := range []string{"1893596645.25", "1893596645250", "1893596645250.000", "1893596645250000", "1893596645250000000", "1893596645.2500000001",
		"2030-01-02T15:04:05.25Z", "2030-01-02T16:04:05.25+01:00", "2030-01-02 15:04:05.25", "2030-01-02T15:04:05,25", "2030-01-02T15:04:05.25+0000",
		"2030-01-02 16:04:05.25 +0100", "2030-01-02 15:04:05.25Z"} {
		at, reason := new(timeParser).instant([]byte(text))
		assert.Empty(t, reason, text)
		assert.EqualValues(t, want, at, text)
	}
	for _, text := range []string{"02/Jan/2030:15:04:05 +0000", "02/Jan/2030:10:04:05 -0500", "Wed, 02 Jan 2030 15:04:05 GMT", "2030/01/02 15:04:05"} {
		at, reason := new(timeParser).instant([]byte(text))
		assert.Empty(t, reason, text)
		assert.EqualValues(t, want-250_000_000, at, text)
	}
	for _, text := range []string{"", "1.", "1.2.3", ".5", "-1", "1e9", "99999999999999999999", "2030-02-30T15:04:05Z", "1969-12-31 23:59:59"} {
		_, reason := new(timeParser).instant([]byte(text))
		assert.NotEmpty(t, reason, text)
	}
}

func TestFormatIsRecognizedByTheFirstLine(t *testing.T) {
	for _, test := range []struct {
		line, mapping string
		want          layout
	}{
		{`{"at":1,"limit":"send"}`, "", nil},
		{`{"limit":"send","time":1}`, "", nil}, // the fault says that at is missing
		{`{"level":"info"}`, "", nil},
		{`{"at":1,"user":{"id":2}}`, "key=user.id", &jsonLayout{}},
		{`{"start_time":"2030-01-02T15:04:05Z","downstream_remote_address":"10.0.0.1:80"}`, "", &jsonLayout{}},
		{`192.0.2.1 - - [02/Jan/2030:15:04:05 +0000] "GET / HTTP/1.1" 200 15`, "", &accessLayout{}},
		{`example.com:443 192.0.2.1 - - [02/Jan/2030:15:04:05 +0000] "GET / HTTP/1.1" 200 15 "-" "curl"`, "", &accessLayout{}},
		{`[2030-01-02T15:04:05.310Z] "POST / HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "a" "b" "c" "d"`, "", &accessLayout{}},
		{`time,user`, "", &csvLayout{}},
		{"\"time\"\t\"user\"", "", &csvLayout{}},
		{`when;who`, "at=when,key=who", &csvLayout{}},
		{`at`, "at=at", &csvLayout{}},
		{`hello, world`, "", nil},
	} {
		r := NewReader(strings.NewReader(test.line))
		if test.mapping != "" {
			require.NoError(t, r.Map.Add(test.mapping))
		}
		require.NoError(t, r.begin(), test.line)
		assert.IsType(t, test.want, r.layout, test.line)
	}
	names := accessNames([]byte(`example.com:443 192.0.2.1 - - [02/Jan/2030:15:04:05 +0000] "GET / HTTP/1.1" 200 15`))
	assert.Equal(t, []string{"server_name", "remote_addr", "", "remote_user", "time_local", "request", "status", "body_bytes_sent"}, names)
}
