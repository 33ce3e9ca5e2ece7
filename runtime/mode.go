package runtime

// Mode is what a limit does with its decisions: that of limits.yaml, unless an operator's override or the option
// limiter.Mode replaces it. The zero Mode is ModeEnforce. Whatever the mode, a request for 0 tokens is allowed and takes
// nothing, and a count below 0 is [ErrInvalidCount].
//
//	             enforce     shadow                      off, unlimited           block
//	Allow        as decided  passes; a denial takes      passes, counts nothing   denied
//	Require                  nothing and is Shadowed                              *LimitedError
//	Check        as decided  passes, maybe Shadowed      passes                   denied
//	Reserve      as decided  as Allow, and Delay is 0    passes, Delay is 0       denied
//	Settle       corrects    corrects, unless Shadowed   nothing                  ErrNotReserved
//	Cancel                   and nothing was taken
//	Wait         waits       returns at once             returns at once          fails at once
//	Refund       gives back  gives back                  nothing                  gives back
//	Peek         row         row                         MaxTokens, without row   row, Remaining 0
//	Reset        deletes     deletes                     deletes                  deletes
//	Acquire      as decided  as Allow: a denial holds    holds nothing            denied
//	                         nothing
//	Renew        as decided  a loss is no error          as decided, if held      as decided
//	Release
//	store fails  OnError     passes, FailedOpen          not used                 not used for a denial
type Mode uint8

const (
	// ModeEnforce denies what the limit does not allow.
	ModeEnforce Mode = iota
	// ModeShadow decides and counts as ModeEnforce does, but lets every request pass: one that ModeEnforce would deny
	// takes nothing, and its decision is [Decision.Shadowed]. That includes a count beyond the capacity. A reservation has
	// no Delay. If the store fails, requests pass whatever the policy's OnError. Denials are not cached.
	ModeShadow
	// ModeOff lets every request pass, and counts nothing: the store is not used, and stored rows stay as they are.
	ModeOff
	// ModeBlock denies every request for a token or more, with the RetryAfter [Never], or until its end if it is an
	// operator's [Block] that has one. Stored rows stay as they are.
	ModeBlock
	// ModeUnlimited is ModeOff for a plan without a limit: the policy needs only Name, Kind and, so that Reset finds all
	// rows of a key, the Precise and Shards of the other plans.
	ModeUnlimited

	endOfModes // every mode before it has an entry in the table modes
)

// modes has an entry for every [Mode]. If one is missing, the array is too short for its type and does not compile.
var modes [endOfModes]modeTraits = [...]modeTraits{
	ModeEnforce:   {name: "enforce", counts: true},
	ModeShadow:    {name: "shadow", counts: true},
	ModeOff:       {name: "off", passes: true},
	ModeBlock:     {name: "block"},
	ModeUnlimited: {name: "unlimited", passes: true},
}

// modeTraits are the properties of a mode: see [Mode.Counts] and [Mode.Passes].
type modeTraits struct {
	name           string
	counts, passes bool
}

// Modes returns every Mode that a limit can choose in limits.yaml. ModeUnlimited belongs to plans.
func Modes() []Mode { return constants(ModeEnforce, ModeUnlimited) }

// String returns the word used in limits.yaml: "enforce".
func (m Mode) String() string { return nameOf(entryOf(modes[:], m).name, m) }

// Known reports whether m is one of the constants.
func (m Mode) Known() bool { return m < endOfModes }

// Counts reports whether requests are decided by the count of their key.
func (m Mode) Counts() bool { return m.Known() && modes[m].counts }

// Passes reports whether all requests pass, and none is counted: with ModeOff and ModeUnlimited.
func (m Mode) Passes() bool { return m.Known() && modes[m].passes }
