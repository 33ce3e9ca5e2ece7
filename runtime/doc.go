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
//   - In any interval of length t, a token bucket grants at most capacity + maxReserved + rate*t/period tokens, and a
//     sliding window at most rate + rate*t/period. A fixed window grants at most capacity + maxReserved in any one of
//     its windows. A precise sliding window grants at most rate in any period [x, x+period). Refunded
//     tokens do not count: see limiter.Limit.RefundN.
//   - Tokens of a [Lease] may be used up to its For later. Then at most max(capacity + rate*(t+For)/period,
//     capacity + maxReserved + rate*t/period) tokens of a token bucket can be used in an interval of length t, where a
//     reserved token counts when its delay has passed.
//   - A retry after RetryAfter passes, provided that no other request takes tokens or renews slots meanwhile. A request passes if it lacks
//     at most a millionth of a token, and no more than accrues in a microsecond. RetryAfter is therefore the first
//     instant at which the request passes, to within that microsecond.
//   - A denied request changes nothing, and neither does one for which Step returns an error.
//   - A clock that goes back creates no tokens.
//   - Used tokens stay used if the policy changes, by an edit, or because a key gets another plan or an [Override]: a
//     capacity that is raised by n gives every key n tokens at once, and one that is lowered takes n from it, which may
//     leave it with fewer than 0. Changes to and fro create nothing, but for one case: a fixed window that ends under a
//     policy forgets what was used beyond its capacity and MaxReserved, so that a lowered limit grants its next window.
//     The check of a limits.yaml refuses plans with which a key would gain by that.
//   - An error is never an allowance: the zero [Decision] denies. Only a limit with [FailOpen] lets requests pass while
//     its store fails, and [Decision.FailedOpen] marks those; with [FailLocal] each process lets as many pass as the limit
//     allows, and [Decision.FailedLocal] marks those.
//
// # Non-guarantees
//
//   - Fairness: the first request after a token has accrued takes it. Wait on a limit with reservations is in order.
//   - A correct clock: a clock that is ahead grants tokens early, and none until the others catch up.
package runtime

// GeneratedCodeVersion1 makes generated code that needs this version of the package, or a later one, fail to compile
// with an older one. Do not use it.
const GeneratedCodeVersion1 = true
