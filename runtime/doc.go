// Package runtime decides whether a caller may take a number of tokens now, and keeps the counts in a [Store].
//
// # The model
//
// A [Policy] is a limit: a kind of algorithm, a rate per period and a capacity. Each [Key] of the limit, such as a
// user, has a count of its own, stored as a [State]: minus the number of tokens that it lacks of a full key (value) as
// of an instant (ts). With T the present for a token bucket, and the start of the current window for a fixed window, a
// key has
//
//	available = capacity + min(0, value + max(0, T-ts) * rate / period)
//
// tokens, and a request for count of them is allowed if available - count >= 0, or >= -maxReserved if it may reserve. A
// sliding window has rate tokens, less its use in the last period, which is estimated from the use of the current
// window (current) and of the one before (previous), with elapsed the time since the current window began:
//
//	available = rate - (previous * (1 - elapsed/period) + current)
//
// A precise sliding window keeps a log of the tokens taken in the last period, and has the rate less those.
//
// Every operation ends in one pure function, meter.Rule.Step, which takes a State, an instant and a [Request], and
// returns the next State and a [Decision].
//
// A limiter.Limiter connects a Store with handles that have the methods of a policy: limiter.Limit,
// limiter.ReservableLimit and limiter.ReserveOnlyLimit. A limiter.Group takes from several of them at once. A Store
// executes batches of calls, each of which passes as a whole or not at all. memstore.Store is the smallest one, with
// transactions for tests, and the store of package sqlstore keeps the counts in an SQL database. A store of your own decides
// by replay.Decide.
//
// An [Observer] receives every decision, for metrics, logs and tests: see package observe, and TESTING.md in this
// folder.
//
// A limit may have overrides: operators block single keys, or give them other numbers, while the program runs. An
// [Override] and a [Block] are entries of a log in the store, of which each process holds those in force.
//
// # Guarantees
//
// An error is never an allowance: the zero [Decision] denies. GUARANTEES.md in this folder has each promise with its bounds,
// its exceptions and its tests, and what is not guaranteed.
package runtime

// GeneratedCodeVersion1 makes generated code that needs this version of the package, or a later one, fail to compile
// with an older one. Do not use it.
const GeneratedCodeVersion1 = true
