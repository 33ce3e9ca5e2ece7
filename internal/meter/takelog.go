package meter

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/internal/arith"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// run is a number of tokens taken at one instant.
type run struct {
	at     int64
	tokens int64
}

// maxRuns is how many runs a log has at most. If there are more, the two oldest become one, at the instant of the later
// one, so that none of its tokens comes back early. No decision changes while every run but one has a token and the
// rate is at most [runtime.MaxPreciseRate]: the newer runs alone then use up the rate for as long as this one counts.
const maxRuns = runtime.MaxPreciseRate + 2

// takeLog is the log of one key. Most requests need its ends only: so the runs before the newest one stay encoded.
type takeLog struct {
	// used is the number of tokens in all runs.
	used   int64
	newest run
	// oldest is the instant of the first of the older runs, of which there are n in body: for each its tokens, and how
	// much later the next one is, as unsigned varints. Without older runs, it has no meaning.
	oldest int64
	n      int
	body   string
}

// logTag begins the log of a state: the format of what follows.
const logTag = 'r'

// state returns the row of the log after a change of s, as of the instant ts. Its Log is logTag, the instants oldest
// and newest in 8 bytes each, and as unsigned varints the tokens of the newest run and n, before body.
func (l *takeLog) state(s runtime.State, ts int64) runtime.State {
	next := runtime.State{Value: 0 - float64(l.used), TS: ts, Prev: changed(s.Prev), Exists: true}
	if l.used > 0 {
		b := make([]byte, 0, logHeader+2*binary.MaxVarintLen64+len(l.body))
		b = binary.BigEndian.AppendUint64(append(b, logTag), uint64(l.oldest))
		b = binary.BigEndian.AppendUint64(b, uint64(l.newest.at))
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(l.newest.tokens)), uint64(l.n))
		next.Log = string(append(b, l.body...))
	}
	return next
}

// logHeader is the length of the parts of a log that are not varints.
const logHeader = 1 + 8 + 8

// The Prev of a row with a log counts its changes, down from firstChange. The Prev of other limits is more than -1.
const firstChange, lastChange = -2, -1 << 52

// changed returns the Prev of a row with a log after a change. It differs after each one, so that whoever compares the
// numbers of a row need not compare the log.
func changed(prev float64) float64 {
	if lastChange < prev && prev < firstChange+1 {
		return prev - 1
	}
	return firstChange
}

// decode reads what state returned, and returns false for anything else, as far as it has read it.
func (l *takeLog) decode(s runtime.State) bool {
	log := s.Log
	if len(log) < logHeader || log[0] != logTag {
		return false
	}
	l.used = atLeast(-s.Value)
	l.oldest = int64(binary.BigEndian.Uint64([]byte(log[1:9])))
	l.newest.at = int64(binary.BigEndian.Uint64([]byte(log[9:logHeader])))
	tokens, rest, ok := uvarint(log[logHeader:], l.used)
	n, rest, okN := uvarint(rest, maxRuns)
	l.newest.tokens, l.n, l.body = tokens, int(n), rest
	switch {
	case !ok || !okN || tokens == 0 || n > 0 && l.oldest >= l.newest.at:
		return false
	case n == 0:
		return tokens == l.used && rest == ""
	}
	return tokens < l.used
}

// uvarint reads a number that is at most most from the beginning of a text.
func uvarint(text string, most int64) (n int64, rest string, ok bool) {
	for i := 0; i < len(text) && i < 9; i++ {
		n |= int64(text[i]&0x7f) << (7 * i)
		if text[i] < 0x80 {
			return n, text[i+1:], n <= most
		}
	}
	return 0, "", false
}

// appendRun appends one of the older runs to those in body.
func appendRun(b []byte, tokens, later int64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(tokens)), uint64(later))
}

// first returns the oldest of the older runs, and the log without it. It is false if the log is damaged.
func (l *takeLog) first() (oldest run, rest takeLog, ok bool) {
	tokens, body, ok := uvarint(l.body, l.used-l.newest.tokens)
	later, body, okLater := uvarint(body, l.newest.at-l.oldest)
	rest = takeLog{used: l.used - tokens, newest: l.newest, oldest: l.oldest + later, n: l.n - 1, body: body}
	last := rest.n == 0
	ok = ok && okLater && last == (rest.oldest == l.newest.at) && last == (rest.used == l.newest.tokens)
	return run{l.oldest, tokens}, rest, ok
}

// collapse makes one run of a damaged log: all tokens count as taken at the newest one.
func (l *takeLog) collapse() { *l = takeLog{used: l.used, newest: run{l.newest.at, l.used}} }

// runs yields the runs, from the oldest one on. The tokens of damaged ones count as taken at the newest one.
func (l *takeLog) runs(yield func(run) bool) {
	at, body, left := l.oldest, l.body, l.used-l.newest.tokens
	for range l.n {
		tokens, rest, ok := uvarint(body, left)
		later, rest, okLater := uvarint(rest, l.newest.at-at)
		if !ok || !okLater {
			break
		}
		if !yield(run{at, tokens}) {
			return
		}
		at, body, left = at+later, rest, left-tokens
	}
	if l.used > 0 {
		yield(run{l.newest.at, l.newest.tokens + left})
	}
}

// atLeast returns a number of tokens as an integer, rounded up. A damaged row denies.
func atLeast(tokens float64) int64 {
	if !(tokens < maxUsed) {
		return maxUsed
	}
	return max(0, int64(math.Ceil(tokens)))
}

// maxUsed is the largest number of tokens that a log counts: up to it, a float64 is exact. More are due to charges.
const maxUsed = 1 << 53

// join adds tokens at an instant that is not before the newest run.
func (l *takeLog) join(at, tokens int64) {
	tokens = min(tokens, maxUsed-l.used)
	switch {
	case tokens == 0:
		return
	case l.used == 0:
		*l = takeLog{}
	case l.newest.at < at:
		if l.n == 0 {
			l.oldest = l.newest.at
		}
		l.body, l.n = string(appendRun([]byte(l.body), l.newest.tokens, at-l.newest.at)), l.n+1
		l.newest.tokens = 0
	}
	l.newest = run{at, l.newest.tokens + tokens}
	if l.used += tokens; l.n >= maxRuns {
		l.merge()
	}
}

// merge makes the two oldest runs one, at the instant of the later one.
func (l *takeLog) merge() {
	oldest, rest, ok := l.first()
	next, after, okNext := rest.first()
	if !ok || !okNext {
		l.collapse()
		return
	}
	b := appendRun(nil, oldest.tokens+next.tokens, after.oldest-next.at)
	*l = takeLog{used: l.used, newest: l.newest, oldest: next.at, n: rest.n, body: string(append(b, after.body...))}
}

// expire drops the runs that no longer count at the instant now.
func (l *takeLog) expire(now, period int64) {
	if arith.Add(l.newest.at, period) <= now {
		*l = takeLog{}
	}
	for l.n > 0 && arith.Add(l.oldest, period) <= now {
		_, rest, ok := l.first()
		if !ok {
			l.collapse()
			return
		}
		*l = rest
	}
}

// refund removes up to count tokens that were taken at an instant, or the newest ones if the instant is 0. Removing
// those of another take instead would give them back at another time than as if fewer had been taken.
func (l *takeLog) refund(takenAt, count int64) {
	all := slices.Collect(l.runs)
	for i, r := range slices.Backward(all) {
		if takenAt == 0 || takenAt == r.at {
			all[i].tokens -= min(count, r.tokens)
			count -= min(count, r.tokens)
		}
	}
	all = slices.DeleteFunc(all, func(r run) bool { return r.tokens == 0 })
	var body []byte
	*l = takeLog{}
	for i, r := range all {
		if i > 0 {
			body = appendRun(body, l.newest.tokens, r.at-l.newest.at)
		}
		l.newest, l.used, l.oldest, l.n = r, l.used+r.tokens, all[0].at, i
	}
	l.body = string(body)
}
