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

// vector is a line of testdata/convex.jsonl, which its README describes. Times are in milliseconds.
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

// limit writes the limit of a vector as limits.yaml has it.
func (v vector) limit(name string) string {
	text := fmt.Sprintf("  %s:\n    kind: %s\n    rate: %d\n    period: %dms\n", name, v.Config.Kind, v.Config.Rate, v.Config.Period)
	if v.Config.Kind == "fixed window" {
		text += fmt.Sprintf("    start: %s\n", time.UnixMilli(v.Config.Start).UTC().Format(time.RFC3339Nano))
	}
	if v.Config.Capacity != nil {
		text += fmt.Sprintf("    capacity: %d\n", *v.Config.Capacity)
	}
	if v.Config.MaxReserved != nil {
		text += fmt.Sprintf("    maxReserved: %d\n", *v.Config.MaxReserved)
	}
	return text
}

// All vectors, as one file of limits and one trace, get the decisions that they hold.
func TestSimulateVectors(t *testing.T) {
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
	require.Equal(t, exitYes, code, stderr.String())
	require.Empty(t, stderr.String())
	answers := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	require.Len(t, answers, len(steps))
	for i, s := range steps {
		s.agree(t, answers[i])
	}
}

// agree holds an answer to a step. Convex tells one who was refused a reservation when the tokens would be
// there without debt; our retryAfterMs, the first instant at which it passes, is earlier.
func (s vectorStep) agree(t *testing.T, line string) {
	t.Helper()
	var answer struct {
		At, Count    int64
		Limit        string
		Reserve      bool
		Allowed      bool
		RetryAfterMs float64
		Remaining    int64
		Value        float64
	}
	require.NoError(t, json.Unmarshal([]byte(line), &answer))
	require.Equal(t, []any{s.Now, s.limit, s.Count, s.Reserve}, []any{answer.At, answer.Limit, answer.Count, answer.Reserve})
	require.Equal(t, s.OK, answer.Allowed, line)
	require.EqualValues(t, max(0, math.Floor(answer.Value+1e-6)), answer.Remaining, line)
	if s.Reserve && !s.OK {
		assert.LessOrEqual(t, answer.RetryAfterMs, s.RetryAfter+1, line)
		assert.Positive(t, answer.RetryAfterMs, line)
		return
	}
	assert.InDelta(t, s.RetryAfter, answer.RetryAfterMs, 1, line)
}
