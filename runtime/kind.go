package runtime

import "strings"

// Kind is the algorithm by which a limit grants its tokens. The zero Kind is invalid.
type Kind uint8

const (
	// TokenBucket grants tokens continuously, rate per period, and keeps up to capacity of them.
	TokenBucket Kind = iota + 1
	// FixedWindow grants rate tokens at the start of each period and keeps up to capacity of them.
	FixedWindow
	// SlidingWindow allows rate tokens in any period, estimated from the use of the current window and of the one before.
	SlidingWindow
	// InFlight has slots, which are held while something runs: no time gives them back before a hold has
	// passed. A Take acquires slots, a [Renew] holds them longer, and a [Release] frees them.
	InFlight

	endOfKinds // every kind before it has an entry in the table kinds
)

// kinds has an entry for every [Kind]. If one is missing, the array is too short for its type and does not compile.
var kinds [endOfKinds]kind = [...]kind{
	TokenBucket:   {name: "token bucket", linear: true},
	FixedWindow:   {name: "fixed window", linear: true, windowed: true},
	SlidingWindow: {name: "sliding window", windowed: true, precise: true},
	InFlight:      {name: "in flight"},
}

// kind is an entry of the table: the name in limits.yaml, the properties in [Kind.Linear] and [Kind.Windowed], and
// whether a policy of the kind can be Precise.
type kind struct {
	name                      string
	linear, windowed, precise bool
}

// Kinds returns every kind.
func Kinds() []Kind { return constants(TokenBucket, endOfKinds) }

// String returns the kind as it is written in limits.yaml: "token bucket".
func (k Kind) String() string { return nameOf(entryOf(kinds[:], k).name, k) }

// Linear reports whether the tokens of the kind accrue by the linear formula of meter.Rule.Step. Only such limits have
// a capacity of their own, and can be reserved.
func (k Kind) Linear() bool { return k.Known() && kinds[k].linear }

// Windowed reports whether the kind divides time into windows, which begin at the policy's Start.
func (k Kind) Windowed() bool { return k.Known() && kinds[k].windowed }

// Known reports whether k is one of the constants.
func (k Kind) Known() bool { return k > 0 && k < endOfKinds }

// kindList returns the kinds for an error text: "token bucket, fixed window, sliding window".
func kindList() string {
	var names []string
	for _, k := range Kinds() {
		names = append(names, k.String())
	}
	return strings.Join(names, ", ")
}
