package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// vector is a line of testdata/convex.jsonl; see testdata/README.md. Times are in milliseconds.
type vector struct {
	Config struct {
		Kind                  string
		Rate, Period, Start   int64
		Capacity, MaxReserved *int64
	}
	Steps []vectorStep
}

type vectorStep struct {
	Now, Count  int64
	Reserve, OK bool
	RetryAfter  float64

	limit string
}

// limit returns the limit of a vector in the format of limits.yaml.
func (v vector) limit(name string) string {
	text := fmt.Sprintf("  %s:\n    kind: %s\n    rate: %d\n    period: %dms\n", name, v.Config.Kind, v.Config.Rate, v.Config.Period)
	if v.Config.Kind == "fixed window" {
		text += fmt.Sprintf("    start: %s\n", time.UnixMilli(v.Config.Start).UTC().Format(time.RFC3339Nano))
	}
	if v.Config.Capacity != nil {
		text += fmt.Sprintf("    capacity: %d\n", *v.Config.Capacity)
	}
	if v.Config.MaxReserved == nil {
		return text + "    maxReserved: unbounded\n" // as in the reference
	}
	text += fmt.Sprintf("    maxReserved: %d\n", *v.Config.MaxReserved)
	return text
}

// All vectors are replayed as one file of limits and one trace.
func TestSimulateAgreesWithConvex(t *testing.T) {
	data, err := os.ReadFile("../../testdata/convex.jsonl")
	require.NoError(t, err)
	limits := "version: 1\nlimits:\n"
	var steps []vectorStep
	for i, line := range slices.Collect(strings.Lines(string(data))) {
		var v vector
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		name := fmt.Sprintf("vector%d", i+1)
		limits += v.limit(name)
		for _, s := range v.Steps {
			s.limit = name
			steps = append(steps, s)
		}
	}
	require.Len(t, steps, 4800)
	slices.SortStableFunc(steps, func(a, b vectorStep) int { return int(a.Now - b.Now) })
	var trace strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&trace, `{"at":%d,"limit":"%s","count":%d,"reserve":%t}`+"\n", s.Now, s.limit, s.Count, s.Reserve)
	}
	dir := t.TempDir()
	limitsFile, traceFile := filepath.Join(dir, "limits.yaml"), filepath.Join(dir, "trace.jsonl")
	require.NoError(t, os.WriteFile(limitsFile, []byte(limits), 0o644))
	require.NoError(t, os.WriteFile(traceFile, []byte(trace.String()), 0o644))

	var stdout, stderr bytes.Buffer
	code := run([]string{"simulate", "-trace", traceFile, "-format", "jsonl", limitsFile}, &stdout, &stderr)
	require.Equal(t, exitOK, code, stderr.String())
	require.Empty(t, stderr.String())
	decisions := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	require.Len(t, decisions, len(steps))
	for i, s := range steps {
		s.requireAgrees(t, decisions[i])
	}
}

// requireAgrees compares a decision with a step. For a denied reservation, the reference returns the time until its
// tokens are there without debt; our retryAfterMs, the time until the same reservation passes, is shorter.
func (s vectorStep) requireAgrees(t *testing.T, line string) {
	t.Helper()
	var got struct {
		At, Count    int64
		Limit        string
		Reserve      bool
		Allowed      bool
		RetryAfterMs float64
		Remaining    int64
		Value        float64
	}
	require.NoError(t, json.Unmarshal([]byte(line), &got))
	require.Equal(t, []any{s.Now, s.limit, s.Count, s.Reserve}, []any{got.At, got.Limit, got.Count, got.Reserve})
	require.Equal(t, s.OK, got.Allowed, line)
	require.EqualValues(t, max(0, math.Floor(got.Value+1e-6)), got.Remaining, line)
	if s.Reserve && !s.OK {
		assert.LessOrEqual(t, got.RetryAfterMs, s.RetryAfter+1, line)
		assert.Positive(t, got.RetryAfterMs, line)
		return
	}
	assert.InDelta(t, s.RetryAfter, got.RetryAfterMs, 1, line)
}
