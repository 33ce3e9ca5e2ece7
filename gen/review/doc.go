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
// One that lets more tokens through in some interval is loosened, one that lets fewer through is tightened,
// and one can be both. To tell, the rule is compared with itself under this change alone: a rate of 48 per
// day in place of 2 per hour is the same rate, and the capacity of 48 that follows it is what is loosened.
//
// A change that touches stored state gives the rows that are stored another meaning, or leaves them behind.
// That an edit of rate or capacity holds for the rows that are there is its purpose, and not such a change.
//
// # Where the numbers come from
//
// All of them are those of the rule itself, see [Within], or of its step: [FullAfter], [LongestDelay] and
// [Carried] ask [runtime.Rule.Step]. None is an estimate: some callers reach it, and none pass it. They are
// for one key, and hold for callers who reserve one token at a time; what can be reserved at once can come
// on top when it is due. Instants are rounded to the nanosecond, sums of tokens to a millionth. A limit with
// shards counts as the one row that it stands for, but where the numbers are about its shards. With a lease, what
// processes hold in blocks counts as left until it is spent.
//
// # What is not known
//
//   - Whether a limit was renamed. That is a guess from its doc, key and rule, and said to be one.
//   - The table of the rows. The SQL has the name rate_limits, and is in words that all dialects know.
//   - What a type of your own writes into a key.
package review
