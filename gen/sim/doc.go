// Package sim replays a trace of requests through the real limiter, without a database and without waiting:
// it says what limits would have answered, or what an edit of them would change.
//
// # The model
//
// A [Trace] reads [Line]s. A [Replay] holds the counts of some limits, and answers each line at the line's own
// instant. A [Report] sums the answers up for people, [JSONL] and [CSV] write each of them, and a [Comparison]
// puts the answers of two Replays side by side. A [Traffic] makes a trace up.
//
// # What is the same as in a store
//
// Every answer comes from [runtime.Rule.Step], or for a limit with shards from [runtime.Policy.StepShards], and keys are
// encoded by [runtime.KeyOf]. Which two of its shards a request looks at is random in a store. Here they are
// picked by the number of the request among those of its key, so that the same trace always gets the same
// answers: one run of those that can happen, and the same one whatever other keys and limits ask. What is left
// is that of all shards, where a store estimates it from the two. What a policy says of a process or of a store
// that fails (DenyCache, Lease, OnError, Timeout) plays no part; reports say so of limits with DenyCache or Lease.
//
// # What is an error
//
// A line that cannot be asked has a [Fault], with its number and the reason: broken JSON, a field that is spelled
// like one that is missing, an unknown limit, a key of other parts than the limit's, a count that can never pass, and a time before that
// of the line above it, for a log that is out of order is no account of what happened. A fault never holds a
// key's value. Nothing is rounded or guessed.
//
// # What it takes
//
// Memory grows with the number of keys, not of lines.
package sim
