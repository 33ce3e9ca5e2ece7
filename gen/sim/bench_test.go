package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

var traffics = []struct {
	name, text string
	limit      int
}{
	{"one key", "poisson 1000/s for 100s", 0},
	{"10,000 keys", "poisson 1000/s for 100s over 10000 keys", 0},
	{"two parts", "poisson 1000/s for 100s over 1000 keys", 1},
	{"sliding window", "poisson 1000/s for 100s over 1000 keys", 2},
	{"8 shards", "poisson 1000/s for 100s over 1000 keys", 5},
	{"8 shards, denied", "poisson 10000/s for 10s over 1000 keys", 5},
}

// BenchmarkReport compares a replay with the least work that it could do: reading the lines and json.Valid.
func BenchmarkReport(b *testing.B) {
	for _, test := range traffics {
		b.Run(test.name, func(b *testing.B) {
			limits := fileOf(limitsForTest().Limits[test.limit])
			replay := NewReplay(limits)
			traffic, err := NewTraffic(test.text, replay, replay.Names()[0], "", 1)
			if err != nil {
				b.Fatal(err)
			}
			text := []byte(textOf(b, traffic))
			var floorTime, replayTime time.Duration
			lines := 0
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				lines += validLines(b, text)
				middle := time.Now()
				replayOnce(b, limits, text)
				floorTime += middle.Sub(start)
				replayTime += time.Since(middle)
			}
			b.ReportMetric(float64(lines)/replayTime.Seconds(), "lines/s")
			b.ReportMetric(float64(replayTime)/float64(floorTime), "times-floor")
		})
	}
}

// validLines counts the lines that are JSON.
func validLines(b *testing.B, text []byte) (n int) {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); n++ {
		if !json.Valid(lines.Bytes()) {
			b.Fatal("not JSON")
		}
	}
	return n
}

func replayOnce(b *testing.B, limits *spec.File, text []byte) {
	replay := NewReplay(limits)
	report := NewReport(replay)
	err := trace.NewReader(bytes.NewReader(text)).Replay(func(l *trace.Line) error {
		a, err := replay.Decide(l)
		if err != nil {
			return err
		}
		return report.Write(l, a)
	}, func(f *trace.Fault) error { return f })
	if err == nil {
		err = report.WriteText(io.Discard, false, 0)
	}
	if err != nil {
		b.Fatal(err)
	}
}
