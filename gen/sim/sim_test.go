package sim

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// limitsForTest are limits of each kind and each shape of key.
func limitsForTest() []Limit {
	return []Limit{
		{Key: []string{"string"}, Words: "Token bucket.", Policy: &runtime.Policy{
			Name: "bucket", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 20, MaxReserved: 30}},
		{Key: []string{"int64", "string"}, Words: "Fixed window.", Policy: &runtime.Policy{
			Name: "window", Kind: runtime.FixedWindow, Rate: 10, Period: time.Minute, Capacity: 15}},
		{Key: []string{"netip.Addr"}, Words: "Sliding window.", Policy: &runtime.Policy{
			Name: "sliding", Kind: runtime.SlidingWindow, Rate: 5, Period: time.Minute, Capacity: 5}},
		{Words: "Shared.", Policy: &runtime.Policy{
			Name: "shared", Kind: runtime.FixedWindow, Rate: 30, Period: time.Hour, Capacity: 30, Start: runtime.StartFirstUse()}},
		{Key: []string{"bool"}, Words: "Two shards.", Policy: &runtime.Policy{
			Name: "halves", Kind: runtime.TokenBucket, Rate: 20, Period: time.Minute, Capacity: 20, MaxReserved: 9, Shards: 2}},
		{Key: []string{"uint64"}, Words: "Eight shards.", Policy: &runtime.Policy{
			Name: "eighths", Kind: runtime.TokenBucket, Rate: 80, Period: time.Minute, Capacity: 40, MaxReserved: 80, Shards: 8}},
	}
}

// replayText replays a trace, and returns what JSONL prints and the faults.
func replayText(t *testing.T, limits []Limit, trace *Trace) (out string, faults []string) {
	t.Helper()
	var buffer bytes.Buffer
	replay, jsonl := NewReplay(limits), NewJSONL(&buffer)
	err := trace.Replay(func(l *Line) error {
		a, err := replay.Ask(l)
		if err != nil {
			return err
		}
		return jsonl.Write(l, a)
	}, func(f *Fault) error {
		faults = append(faults, f.Error())
		return nil
	})
	require.NoError(t, err)
	return buffer.String(), faults
}

func traceOf(lines ...string) *Trace { return NewTrace(strings.NewReader(strings.Join(lines, "\n"))) }
