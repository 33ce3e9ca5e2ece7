package sim_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/sim"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// perMinute returns a limit of rate requests per minute for each user.
func perMinute(rate int64) *spec.File {
	file, _ := fields.Parse("limits.yaml", fmt.Appendf(nil, `version: 1
limits:
  sendMessage: {kind: token bucket, key: {userID: int64}, rate: %d, period: 1m}
`, rate))
	return file
}

const requests = `{"at": "2030-01-01T00:00:00Z", "limit": "sendMessage", "key": "42", "count": 2}
{"at": "2030-01-01T00:00:15Z", "limit": "sendMessage", "key": "42"}
{"at": "2030-01-01T00:00:30Z", "limit": "sendMessage", "key": "42"}
`

func ExampleReplay() {
	replay := sim.NewReplay(perMinute(2))
	trace.NewReader(strings.NewReader(requests)).Replay(func(l *trace.Line) error {
		a, err := replay.Decide(l)
		fmt.Println(a)
		return err
	}, func(f *trace.Fault) error { return f })
	// Output:
	// allowed, 0 left
	// denied, retry after 15s
	// allowed, 0 left
}

func ExampleComparison() {
	c := sim.NewComparison(perMinute(2), perMinute(3))
	if err := trace.NewReader(strings.NewReader(requests)).Replay(c.Decide, func(f *trace.Fault) error { return f }); err != nil {
		fmt.Println(err)
	}
	c.WriteText(os.Stdout, false, 0)
	// Output:
	// 3 requests from 2030-01-01 00:00:00 to 2030-01-01 00:00:30 UTC
	//
	// sendMessage
	//   old  Token bucket: 2 per minute, at most 2 at once.
	//   new  Token bucket: 3 per minute, at most 3 at once.
	//   1 of 3 requests (1 key) would change from denied to allowed
	//        requests  allowed  denied         delayed  keys  max wait
	//   old         3        2       1  33.3%        0     1       15s
	//   new         3        3       0     0%        0     1        0s
	//   keys with most changes
	//     42  1 of 3
}

func ExampleTraffic() {
	replay, out := sim.NewReplay(perMinute(2)), sim.NewJSONL(os.Stdout)
	traffic, err := sim.NewTraffic("burst 3", replay, "sendMessage", "", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	traffic.Replay(func(l *trace.Line) error {
		a, err := replay.Decide(l)
		if err != nil {
			return err
		}
		return out.Write(l, sim.Answer{}, a)
	}, func(f *trace.Fault) error { return f })
	// Output:
	// {"at":"2030-01-01T00:00:00Z","limit":"sendMessage","key":"1","allowed":true,"remaining":1,"value":1}
	// {"at":"2030-01-01T00:00:00Z","limit":"sendMessage","key":"1","allowed":true,"remaining":0,"value":0}
	// {"at":"2030-01-01T00:00:00Z","limit":"sendMessage","key":"1","allowed":false,"retryAfterMs":30000,"remaining":0,"value":0}
}
