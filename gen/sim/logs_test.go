package sim

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// perAddress is a limit per address, as a limit for an access log is.
func perAddress() *spec.File {
	return fileOf(limitOf(runtime.Policy{
		Name: "perAddress", Kind: runtime.TokenBucket, Rate: 30, Period: time.Minute, Capacity: 30}, "netip.Addr"))
}

// logForms write a request to a log as programs do.
var logForms = []struct {
	name, header, mapping string
	write                 func(out *bytes.Buffer, at time.Time, addr string, i int)
}{
	{"jsonl", "", "", func(out *bytes.Buffer, at time.Time, addr string, _ int) {
		fmt.Fprintf(out, `{"at":"%s","limit":"perAddress","key":"%s"}`, at.Format(time.RFC3339Nano), addr)
	}},
	{"json", "", "at=ts,key=client.ip", func(out *bytes.Buffer, at time.Time, addr string, i int) {
		fmt.Fprintf(out, `{"level":"info","ts":%d.%06d,"logger":"http.access","caller":"server/log.go:87","msg":"request","method":"POST","path":"/v1/messages","status":200,"client":{"ip":"%s","agent":"curl/8.5.0"},"duration_ms":%d,"bytes":1532,"trace_id":"4bf92f3577b34da6a3ce929d0e0e47%02x"}`,
			at.Unix(), at.Nanosecond()/1000, addr, i%500, i%256)
	}},
	{"nginx json", "", "", func(out *bytes.Buffer, at time.Time, addr string, i int) {
		fmt.Fprintf(out, `{"time_iso8601":"%s","remote_addr":"%s","request":"GET /v1/messages?page=%d HTTP/1.1","status":"200","body_bytes_sent":"1532","http_referer":"","http_user_agent":"Mozilla/5.0 (X11; Linux x86_64)"}`,
			at.Format("2006-01-02T15:04:05-07:00"), addr, i)
	}},
	{"envoy json", "", "", func(out *bytes.Buffer, at time.Time, addr string, i int) {
		fmt.Fprintf(out, `{"start_time":"%s","method":"POST","path":"/v1/messages","protocol":"HTTP/2","response_code":200,"response_flags":"-","bytes_received":154,"bytes_sent":0,"duration":%d,"upstream_service_time":"100","x_forwarded_for":null,"user_agent":"grpc-go/1.70","request_id":"cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2","authority":"api.example.com","upstream_host":"10.0.2.1:80","downstream_remote_address":"%s:5%04d"}`,
			at.Format("2006-01-02T15:04:05.000Z07:00"), i%300, addr, i%1000)
	}},
	{"common", "", "", func(out *bytes.Buffer, at time.Time, addr string, i int) {
		fmt.Fprintf(out, `%s - - [%s] "GET /v1/messages?page=%d HTTP/1.1" 200 1532`, addr, at.Format("02/Jan/2006:15:04:05 -0700"), i)
	}},
	{"combined", "", "", func(out *bytes.Buffer, at time.Time, addr string, i int) {
		fmt.Fprintf(out, `%s - alice [%s] "GET /v1/messages?page=%d HTTP/1.1" 200 1532 "https://example.com/\"a" "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"`,
			addr, at.Format("02/Jan/2006:15:04:05 -0700"), i)
	}},
	{"envoy", "", "key=x_forwarded_for", func(out *bytes.Buffer, at time.Time, addr string, i int) {
		fmt.Fprintf(out, `[%s] "POST /v1/messages HTTP/2" 200 - 154 0 %d 100 "%s" "grpc-go/1.70" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "api.example.com" "10.0.2.1:80"`,
			at.Format("2006-01-02T15:04:05.000Z07:00"), i%300, addr)
	}},
	{"csv", "time,method,path,status,addr,agent\n", "key=addr", func(out *bytes.Buffer, at time.Time, addr string, i int) {
		fmt.Fprintf(out, `%s,POST,/v1/messages,200,%s,"Mozilla/5.0 (X11, ""Linux"")"`, at.Format("2006-01-02 15:04:05.000"), addr)
	}},
}

// logText is a log of n requests at about 1,000 per second, from 1,000 addresses.
func logText(form, n int) []byte {
	out := bytes.NewBufferString(logForms[form].header)
	random := rand.New(rand.NewPCG(1, 2))
	at := time.Date(2030, 1, 2, 15, 4, 5, 0, time.UTC)
	for i := range n {
		at = at.Add(time.Duration(random.Int64N(2_000_000)).Truncate(time.Millisecond))
		logForms[form].write(out, at, privateAddr(1+random.Int64N(1000)).String(), i)
		out.WriteByte('\n')
	}
	return out.Bytes()
}

func logTrace(tb testing.TB, form int, text io.Reader) *trace.Reader {
	tb.Helper()
	trace := trace.NewReader(text)
	trace.Default, trace.AddressKey = "perAddress", true
	require.NoError(tb, addMapping(&trace.Map, logForms[form].mapping))
	return trace
}

// The same requests are allowed and denied whatever the format of the log, but for the fractions of seconds that a
// format does not have.
func TestEveryFormatHasTheSameRequests(t *testing.T) {
	const n = 5000
	for i, form := range logForms {
		for _, zipped := range []bool{false, true} {
			text := logText(i, n)
			if zipped {
				text = gzipOf(t, text)
			}
			replay := NewReplay(perAddress())
			requests := 0
			err := logTrace(t, i, bytes.NewReader(text)).Replay(func(l *trace.Line) error {
				requests++
				_, err := replay.Decide(l)
				return err
			}, func(f *trace.Fault) error { return f })
			require.NoError(t, err, form.name)
			assert.Equal(t, n, requests, form.name)
			assert.EqualValues(t, 5000, replay.limits[0].by[Allowed], form.name)
			assert.Equal(t, 995, len(replay.limits[0].keys), form.name)
		}
	}
}

func gzipOf(tb testing.TB, text []byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(text)
	require.NoError(tb, err)
	require.NoError(tb, w.Close())
	return out.Bytes()
}

// BenchmarkLogs compares the replay of 200,000 lines of each format with that of JSON Lines in the same run.
func BenchmarkLogs(b *testing.B) {
	const n = 200_000
	limits := perAddress()
	base := logText(0, n)
	for i, form := range logForms[1:] {
		b.Run(strings.ReplaceAll(form.name, " ", "-"), func(b *testing.B) {
			text := logText(i+1, n)
			var baseTime, logTime time.Duration
			for b.Loop() {
				start := time.Now()
				replayLog(b, limits, logTrace(b, 0, bytes.NewReader(base)))
				middle := time.Now()
				replayLog(b, limits, logTrace(b, i+1, bytes.NewReader(text)))
				baseTime += middle.Sub(start)
				logTime += time.Since(middle)
			}
			b.ReportMetric(float64(n*b.N)/logTime.Seconds(), "lines/s")
			b.ReportMetric(baseTime.Seconds()/logTime.Seconds(), "of-jsonl-speed")
		})
	}
}

func replayLog(b *testing.B, limits *spec.File, in *trace.Reader) {
	replay := NewReplay(limits)
	report := NewReport(replay)
	err := in.Replay(func(l *trace.Line) error {
		a, err := replay.Decide(l)
		if err != nil {
			return err
		}
		return report.Write(l, a)
	}, func(f *trace.Fault) error { return f })
	require.NoError(b, err)
}

func addMapping(m *trace.Mapping, text string) error {
	if text == "" {
		return nil
	}
	return m.Add(text)
}

// Lines in any order within Late are replayed in order of time, and those of one instant in the order of the log.
func TestLateLinesAreSorted(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		var lines []string
		base := int64(1_893_596_645_000)
		for i := range 300 {
			at := base + int64(i)*100 - random.Int64N(2000)
			lines = append(lines, fmt.Sprintf(`{"ts":%d,"user":%d}`, at/500*500, i))
		}
		in := traceOf(lines...)
		in.Default, in.Late = "any", 3*time.Second
		require.NoError(t, in.Map.Add("key=user"))
		var last trace.Line
		seen := map[string]bool{}
		err := in.Replay(func(l *trace.Line) error {
			require.True(t, last.At < l.At || last.At == l.At && last.Number < l.Number, "line %d after line %d", l.Number, last.Number)
			last = *l
			seen[l.Key[0]] = true
			return nil
		}, func(f *trace.Fault) error { return f })
		require.NoError(t, err)
		assert.Len(t, seen, 300)
	}
}

// FuzzLogs checks that a log of any text is read to its end, that each of its lines is a request or a fault, and that
// what the reader made of a log is read again as the same requests.
func FuzzLogs(f *testing.F) {
	for i, form := range logForms {
		f.Add(logText(i, 3), form.mapping)
	}
	f.Add([]byte("time;user\n1893596645;\"a\"\"\nb\"\n"), "key=user")
	f.Add([]byte("{\"ts\":1893596645,\"a\":{\"b\":{\"c\":7}},\"a.b\":[null]}\n"), "key=a.b.c,count=a.b")
	f.Add([]byte("[2030-01-02T15:04:05Z] \"GET / HTTP/1.1\" 200 -\n"), "key=method,key=2")
	f.Fuzz(func(t *testing.T, text []byte, mapping string) {
		var m trace.Mapping
		if mapping != "" && m.Add(mapping) != nil {
			t.Skip("no mapping")
		}
		in := trace.NewReader(bytes.NewReader(text))
		in.Default, in.Map, in.AddressKey = "any", m, true
		var again bytes.Buffer
		var want []string
		number, last := 0, int64(0)
		err := in.Replay(func(l *trace.Line) error {
			require.GreaterOrEqual(t, l.At, last)
			last = l.At
			if l.Raw != nil {
				return nil // FuzzLine is about these
			}
			line := append(append([]byte{'{'}, bytes.TrimSuffix(l.AppendRequest(nil), []byte(","))...), "}\n"...)
			again.Write(line)
			want = append(want, fmt.Sprintf("%d %q %q %d %d %q %q %v", l.At, l.Limit, l.Key, l.Count, l.Op, l.Plan, l.Zone, l.Anniversary))
			return nil
		}, func(f *trace.Fault) error {
			require.NotEmpty(t, f.Reason)
			require.LessOrEqual(t, f.Line, 1+bytes.Count(text, []byte("\n")))
			number++
			return nil
		})
		if unreadable := new(trace.MappingError); err != nil {
			require.ErrorAs(t, err, &unreadable)
		}
		var got []string
		same := trace.NewReader(&again)
		require.NoError(t, same.Replay(func(l *trace.Line) error {
			got = append(got, fmt.Sprintf("%d %q %q %d %d %q %q %v", l.At, l.Limit, l.Key, l.Count, l.Op, l.Plan, l.Zone, l.Anniversary))
			return nil
		}, func(f *trace.Fault) error { return f }))
		require.Equal(t, want, got)
	})
}
