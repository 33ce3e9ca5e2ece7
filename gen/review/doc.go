// Package review says what an edit of limits.yaml means before it ships, in words and in numbers.
//
// # The model
//
// What has changed is a list of facts, which package spec makes: [spec.Diff]. [Of] judges them. A [Review]
// has a [Subject] for each limit that has changed, with its [Finding] values: the changes of one id, and the
// classes that they are in. A change can be in several: one of shards can loosen a limit and touch what is
// stored. [Subject.Numbers] are what the limit came to before and comes to now, all its changes together;
// notes say what happens at the deploy and to the callers.
//
// # How a change is judged
//
// An edit that lets more tokens through in an interval of some length is loosened, one that lets fewer through is
// tightened, and it can be both. All lengths count, not only those that are printed, and so does what can be reserved.
// A change of the rule has the class of the edit if it has it by itself: the rule is compared with itself under this
// change alone. A rate of 48 per day in place of 2 per hour is the same rate, and the capacity of 48 that follows it is
// what is loosened.
//
// A change that touches stored state gives the rows that are stored another meaning, or leaves them behind.
// That an edit of rate or capacity holds for the rows that are there is its purpose, and not such a change.
//
// # Where the numbers come from
//
// All of them are those of the rule itself, see [Within], or of its step: [FullAfter], [NextAfter], [LongestDelay],
// [Carried] and [Together] ask [runtime.Rule.Step]. They are bounds that callers can reach and cannot pass, for one key.
// A reserved token counts when its delay has passed, and one from a lease when it is spent. Instants are rounded to the
// nanosecond, sums of tokens to what the runtime allows. A limit with shards counts as the one row that it stands for,
// but where the numbers are about its shards: it can grant fewer, since each shard has a capacity of its own.
//
// # What is not known
//
//   - Whether a limit was renamed. That is a guess from its doc, key and rule, and said to be one.
//   - The table of the rows. The SQL has the name rate_limits, and is in words that all dialects know.
//   - What a type of your own writes into a key.
package review
