package meter

import (
	"encoding/binary"
	"math"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// returns are the tokens that refunds have returned to a row of a linear kind, each with the total that the row had when
// they were taken, in the order of these. They correct how many tokens were taken since a request: see linear.refund. An
// entry that is lost, or whose total is too small, makes later refunds smaller. A refund of the request that took last
// has no entry, because it makes the total of the row smaller.
type returns []returned

type returned struct{ total, tokens float64 }

// maxReturns is how many entries a log has at most, so that rows stay small.
const maxReturns = 24

// The log of a row with returns is returnsTag, and both numbers of each entry in 8 bytes.
const (
	returnsTag   = 'g'
	returnLength = 8 + 8
)

// keptReturns returns the log of a state if it has returns, and "" for the log of another kind.
func keptReturns(s runtime.State) string {
	if s.Log != "" && s.Log[0] == returnsTag {
		return s.Log
	}
	return ""
}

func returnsOf(s runtime.State) (all returns) {
	log := keptReturns(s)
	if log == "" {
		return nil
	}
	number := func(text string) float64 { return math.Float64frombits(binary.BigEndian.Uint64([]byte(text[:8]))) }
	for log = log[1:]; len(log) >= returnLength; log = log[returnLength:] {
		of := returned{number(log), number(log[8:])}
		// A damaged entry must not return tokens.
		if of.total > 0 && of.tokens > 0 && of.tokens < maxTotal {
			all = append(all, of)
		}
	}
	return all
}

// log returns the log of a row with the returns.
func (all returns) log() string {
	b := append(make([]byte, 0, 1+len(all)*returnLength), returnsTag)
	for _, of := range all {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(of.total))
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(of.tokens))
	}
	return string(b)
}

// after returns how many tokens were returned that had been taken after a total.
func (all returns) after(total float64) (tokens float64) {
	for _, of := range all {
		if of.total > total {
			tokens += of.tokens
		}
	}
	return tokens
}

// with returns the returns with tokens more, that were taken at a total. If there are too many entries, two neighbors
// become one at the lesser total, by which the requests between them lose least.
func (all returns) with(total, tokens float64) returns {
	at := 0
	for at < len(all) && all[at].total < total {
		at++
	}
	if at < len(all) && all[at].total == total {
		all[at].tokens += tokens
		return all
	}
	all = append(all[:at:at], append(returns{{total, tokens}}, all[at:]...)...)
	if len(all) <= maxReturns {
		return all
	}
	least, loss := 1, math.Inf(1)
	for i := 1; i < len(all); i++ {
		if lost := (all[i].total - all[i-1].total) * all[i].tokens; lost < loss {
			least, loss = i, lost
		}
	}
	all[least-1].tokens += all[least].tokens
	return append(all[:least], all[least+1:]...)
}
