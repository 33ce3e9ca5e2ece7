// Package runtime limits rates: it decides whether a caller may take a number of tokens now, and keeps
// count in a [Store].
//
// # The model
//
// A [Policy] is a limit: a kind, a rate per period, a capacity. It is applied to each [Key] on its own.
// What is stored of a key is a [State]: the tokens it had at some instant. Everything that can be asked of
// a limit ends in one pure function, [Rule.Step], which takes the state, the instant and the question, and
// returns the state after it and a [Decision].
//
// A [Limiter] asks a Store, through handles with the verbs that fit the policy: [Limit],
// [ReservableLimit] and [ReserveOnlyLimit]. A Store takes batches of calls, each of which passes as a
// whole or not at all; [Batch] is what all stores have in common, and [MemStore] the smallest of them. The
// store in package sqlstore keeps the counts in an SQL database.
//
// # What is guaranteed
//
//   - In any interval of length t, a token bucket grants at most capacity + maxReserved + rate*t/period
//     tokens, and a sliding window at most rate + rate*t/period. A fixed window grants at most
//     capacity + maxReserved in any one of its windows.
//     What was given back does not count: see [Limit.RefundN].
//   - A retry after RetryAfter passes, if nobody else took tokens meanwhile. A request passes if at most a millionth of
//     a token is missing for it, and no more than accrues in a microsecond: RetryAfter is the first instant at which it
//     passes, to within that microsecond.
//   - A denied request changes nothing, and neither does one that was answered with an error by Step.
//   - A clock that goes back creates no tokens, nor does an edit of the policy beyond its new capacity.
//   - An error is never an allowance: the zero [Decision] denies. Only a limit whose policy says so lets
//     requests pass while its store fails, and its decisions tell.
//
// # What is not
//
//   - That tokens are fair: whoever asks first when a token is there has it. Wait on a limit that can be
//     reserved goes in order.
//   - That a clock is right. One that is ahead grants tokens early, and none until the others catch up.
package runtime
