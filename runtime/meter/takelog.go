package meter

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
)

// run is a number of tokens taken at one instant.
type run struct {
	at     int64
	tokens int64
}

// maxRun is the largest number of tokens in a run, that of the largest charge. A run of more counts as that many.
const maxRun = 2 * runtime.MaxTokens

// maxRuns is how many runs a log has at most. If there are more, the two oldest become one, at the instant of the later
// one, so that none of its tokens comes back early. No decision changes while every run but one has a token and the rate
// is at most [runtime.MaxPreciseRate]: the newer runs alone then use up the rate for as long as this one counts.
const maxRuns = runtime.MaxPreciseRate + 2

// takeLog is the log of one key: its runs, from the oldest one on, each at a later instant than the one before.
type takeLog struct {
	runs []run
	// used is the number of tokens in all runs.
	used int64
}

// logOf returns the log of a row. A row that has no log, as one of another kind or of a version that kept it in further
// rows, or that is damaged, counts all of its tokens as late as they can have been taken.
func (r *Rule) logOf(s runtime.State) takeLog {
	var l takeLog
	switch {
	case !s.Exists:
	case s.Prev > -1:
		// The tokens of a sliding window may have been taken until the end of their window.
		l.join(s.TS, atLeast(s.Prev))
		l.join(arith.Add(s.TS, r.Period-1), atLeast(-s.Value))
	case !l.decode(s.Log) || float64(l.used) != -s.Value:
		l = takeLog{}
		l.join(s.TS, atLeast(-s.Value))
	}
	return l
}

// logTag begins the log of a state: the format of what follows.
const logTag = 'r'

// encode returns the log of a state: logTag, the instant of the oldest run in 8 bytes, and for each run its tokens and,
// but for the first, how much later it is than the one before, as unsigned varints.
func (l *takeLog) encode() string {
	if len(l.runs) == 0 {
		return ""
	}
	b := make([]byte, 0, 16+7*len(l.runs))
	b = binary.BigEndian.AppendUint64(append(b, logTag), uint64(l.runs[0].at))
	for i, r := range l.runs {
		if i > 0 {
			b = binary.AppendUvarint(b, uint64(r.at-l.runs[i-1].at))
		}
		b = binary.AppendUvarint(b, uint64(r.tokens))
	}
	return string(b)
}

// decode reads what encode returned, and returns false for anything else.
func (l *takeLog) decode(log string) bool {
	if len(log) < 9 || log[0] != logTag {
		return false
	}
	b := []byte(log[1:])
	at := int64(binary.BigEndian.Uint64(b))
	for b = b[8:]; ; {
		tokens, n := binary.Uvarint(b)
		if n <= 0 || tokens == 0 || tokens > maxRun || len(l.runs) == maxRuns {
			return false
		}
		l.runs, l.used = append(l.runs, run{at, int64(tokens)}), l.used+int64(tokens)
		if b = b[n:]; len(b) == 0 {
			return true
		}
		later, n := binary.Uvarint(b)
		if n <= 0 || later == 0 || later > uint64(math.MaxInt64-max(0, at)) {
			return false
		}
		at, b = at+int64(later), b[n:]
	}
}

// state returns the row of the log after a change of s, as of the instant ts.
func (l *takeLog) state(s runtime.State, ts int64) runtime.State {
	next := runtime.State{Value: 0 - float64(l.used), TS: ts, Prev: firstChange, Log: l.encode(), Exists: true}
	if lastChange < s.Prev && s.Prev < firstChange+1 {
		// It differs after each change, so that whoever compares the numbers of a row need not compare the log.
		next.Prev = s.Prev - 1
	}
	return next
}

// The Prev of a row with a log counts its changes, down from firstChange. The Prev of other limits is more than -1.
const firstChange, lastChange = -2, -1 << 52

// atLeast returns a number of tokens as an integer, rounded up. A damaged row denies.
func atLeast(tokens float64) int64 {
	if !(tokens < runtime.MaxTokens) {
		return runtime.MaxTokens
	}
	return max(0, int64(math.Ceil(tokens)))
}

// newest returns the instant of the newest run, or the first instant of an int64 if there is none.
func (l *takeLog) newest() int64 {
	if len(l.runs) == 0 {
		return math.MinInt64
	}
	return l.runs[len(l.runs)-1].at
}

// join adds tokens at an instant that is not before the newest run.
func (l *takeLog) join(at, tokens int64) {
	if tokens == 0 {
		return
	}
	if l.newest() < at || len(l.runs) == 0 {
		l.runs = append(l.runs, run{at: at})
	}
	last := &l.runs[len(l.runs)-1]
	l.used -= last.tokens
	last.tokens = min(maxRun, last.tokens+tokens)
	l.used += last.tokens
	if len(l.runs) > maxRuns {
		l.runs[1].tokens = min(maxRun, l.runs[0].tokens+l.runs[1].tokens)
		l.runs = l.runs[1:]
	}
}

// expire drops the runs that no longer count at the instant now.
func (l *takeLog) expire(now, period int64) {
	n := 0
	for n < len(l.runs) && arith.Add(l.runs[n].at, period) <= now {
		l.used -= l.runs[n].tokens
		n++
	}
	l.runs = l.runs[n:]
}

// remove takes tokens out of the run at an index, as far as it has them, and returns how many.
func (l *takeLog) remove(i int, tokens int64) int64 {
	r := &l.runs[i]
	tokens = min(tokens, r.tokens)
	r.tokens -= tokens
	l.used -= tokens
	if r.tokens == 0 {
		l.runs = slices.Delete(l.runs, i, i+1)
	}
	return tokens
}
