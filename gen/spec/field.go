package spec

import (
	"fmt"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// field is one name that a map of the file may hold. The tables of fields drive the reading, the
// suggestions, the JSON Schema and the reference.
type field[T any] struct {
	name string
	// synonyms are what other limiters call it, in small letters.
	synonyms []string
	required bool
	// about says in Markdown what the field means, and more what else there is to know, below the table.
	about, more string
	// accepts says in Markdown what may stand there, and absent what holds without it.
	accepts, absent string
	// example is a valid value.
	example string
	schema  object
	// read puts the value into the noun and returns true, or reports what is wrong with it.
	read func(p *parser, into *T, e entry) bool
	// change is the id of a change of the value, and effective writes the value that holds, whether the
	// file gives it or not. A field that cannot change, or only as a part of another, has neither.
	change    string
	effective func(of *T) string
}

// names lists the names of the fields of a table.
func names[T any](fields []field[T]) []string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f.name
	}
	return list
}

// fileFields are the fields at the top of the file.
var fileFields = []field[File]{
	{
		name: "version", required: true,
		about:   "The version of this format.",
		accepts: "`1`",
		example: "1",
		schema:  object{"enum": []any{1, "1"}},
		read:    (*parser).version,
	},
	{
		name:      "package",
		about:     "The name of the Go package to generate.",
		accepts:   "a Go identifier, but not `" + strings.Join(ignoredPackages, "` or `") + "`",
		absent:    "the `-package` flag, or the directory's name",
		example:   "limits",
		schema:    object{"type": "string", "pattern": identifierPattern, "not": object{"enum": unusablePackages()}},
		read:      (*parser).packageName,
		change:    packageChanged,
		effective: effectivePackage,
	},
	{
		name: "limits", required: true,
		about:   "The limits, by name. A name is camelCase and becomes the name of a Go method.",
		accepts: "a map from names to limits, with at least one",
		example: "{sendMessage: {kind: token bucket, rate: 10, period: 1m}}",
		schema:  limitsSchema,
		read:    (*parser).limits,
	},
}

// limitFields are the fields of one limit, in the order in which people read them.
var limitFields = []field[Limit]{
	{
		name: "doc", synonyms: []string{"description", "comment"},
		about:     "What the limit is for. It becomes the method's doc comment, after the method's name.",
		accepts:   "text, of one or more lines",
		example:   "bounds how fast one user can post.",
		schema:    object{"type": "string"},
		read:      (*parser).doc,
		change:    docChanged,
		effective: effectiveDoc,
	},
	{
		name:      "key",
		about:     "Whom each count belongs to. Every part becomes a parameter of the method.",
		accepts:   "a name, such as `userID`, for one string, or a map from names to types: " + keyTypesInWords + ". A type of your own has a MarshalText method",
		absent:    "one count, shared by everybody",
		example:   "{userID: int64}",
		schema:    keySchema,
		read:      (*parser).keyParts,
		change:    keyChanged,
		effective: effectiveKey,
	},
	{
		name: "kind", required: true, synonyms: []string{"type", "algorithm", "strategy"},
		about:     "How tokens are granted: continuously (`token bucket`), all at the start of each period (`fixed window`), or so that about `rate` fit into any period (`sliding window`).",
		accepts:   "`token bucket`, `fixed window` or `sliding window`",
		example:   "token bucket",
		schema:    object{"enum": kindNames()},
		read:      (*parser).kind,
		change:    kindChanged,
		effective: effectiveKind,
	},
	{
		name: "rate", required: true, synonyms: []string{"limit"},
		about:     "How many tokens are granted per `period`.",
		accepts:   fmt.Sprintf("a whole number of tokens, 1 to %s", words.Number(runtime.MaxTokens)),
		example:   "10",
		schema:    numberSchema(1, runtime.MaxTokens),
		read:      (*parser).rate,
		change:    rateChanged,
		effective: effectiveRate,
	},
	{
		name: "period", required: true, synonyms: []string{"window", "interval", "every", "per"},
		about:     "The time in which `rate` tokens are granted.",
		accepts:   "a duration such as `90s`, `1h30m`, `1d` or `2w`; units: " + unitsInWords + "; at most " + longestPeriod,
		example:   "1m",
		schema:    object{"type": "string", "pattern": durationPattern},
		read:      (*parser).period,
		change:    rateChanged,
		effective: effectivePeriod,
	},
	{
		name: "capacity", synonyms: []string{"burst", "max"},
		about:     "The most tokens that can pile up, and so the largest count of one call. With 0 nothing can be taken at once, only reserved. Not for a sliding window.",
		accepts:   fmt.Sprintf("a whole number of tokens, 0 to %s", words.Number(runtime.MaxTokens)),
		absent:    "`rate`",
		example:   "20",
		schema:    numberSchema(0, runtime.MaxTokens),
		read:      (*parser).capacity,
		change:    capacityChanged,
		effective: effectiveCapacity,
	},
	{
		name:      "maxReserved",
		about:     "How many tokens may be reserved ahead of their time. 0 means none. A sliding window has none.",
		accepts:   fmt.Sprintf("a whole number of tokens, 0 to %s", words.Number(runtime.MaxTokens)),
		absent:    "as many as callers like (sliding window: none)",
		example:   "100",
		schema:    numberSchema(0, runtime.MaxTokens),
		read:      (*parser).maxReserved,
		change:    maxReservedChanged,
		effective: effectiveMaxReserved,
	},
	{
		name:      "start",
		about:     "When windows begin: at an instant and every period before and after it; at an offset from 0:00 UTC on 1 January 1970; or, for a fixed window, at each key's `first use`. Not for a token bucket.",
		accepts:   "an RFC 3339 instant, a duration, or `first use`",
		absent:    "a phase of its own for every key, the same for ever",
		example:   "8h",
		schema:    startSchema,
		read:      (*parser).start,
		change:    startChanged,
		effective: effectiveStart,
	},
	{
		name:      "shards",
		about:     "Into how many rows the count of one key is split, so that they share the writes. Each shard gets an equal part of `rate`, `capacity` and `maxReserved`, at least one token.",
		accepts:   fmt.Sprintf("a whole number, 1 to %s", words.Number(runtime.MaxShards)),
		absent:    "1",
		example:   "4",
		schema:    numberSchema(1, runtime.MaxShards),
		read:      (*parser).shards,
		change:    shardsChanged,
		effective: effectiveShards,
	},
	{
		name: "timeout", synonyms: []string{"deadline"},
		about:     "How long a decision may take. After that the store counts as failed, though it may have taken the tokens.",
		accepts:   "a duration, as for `period`",
		absent:    "as long as the call's context allows",
		example:   "250ms",
		schema:    object{"type": "string", "pattern": durationPattern},
		read:      (*parser).timeout,
		change:    timeoutChanged,
		effective: effectiveTimeout,
	},
	{
		name: "onError", synonyms: []string{"fail", "failure", "fallback"},
		about:     "What is decided when the store fails: nothing passes and the call returns the error (`closed`), or everything passes, uncounted, and the decision says so (`open`).",
		more:      "Of a limit that fails open, only `Allow` shows that it did, in `Decision.FailedOpen`: `Require` and `Wait` have nowhere to show it. So call the store's `Ready` at start.",
		accepts:   "`closed` or `open`",
		absent:    "`closed`",
		example:   "open",
		schema:    object{"enum": inWords(runtime.OnErrors())},
		read:      (*parser).onError,
		change:    onErrorChanged,
		effective: effectiveOnError,
	},
	{
		name: "denyCache", synonyms: []string{"cache", "ephemeralcache", "denylist", "inmemoryblockduration"},
		about:     "How long at most a denial is answered from the memory of the process. What another process gives back may be there that much later.",
		accepts:   "a duration, as for `period`",
		absent:    "not at all",
		example:   "1s",
		schema:    object{"type": "string", "pattern": durationPattern},
		read:      (*parser).denyCache,
		change:    denyCacheChanged,
		effective: effectiveDenyCache,
	},
	{
		name: "lease", synonyms: []string{"block", "prefetch", "batch"},
		about:     "A block of tokens that a process takes at once, and spends from its memory. Not for windows that start at `first use`.",
		more:      "A token bucket grants no more for a lease, but its tokens may be used up to that much later. A block of a window ends with the window. Reservations, several limits at once and transactions take none from a block.",
		accepts:   "a map with `tokens` and `for`",
		absent:    "every request asks the store",
		example:   "{tokens: 10, for: 200ms}",
		schema:    mapSchema(leaseFields),
		read:      (*parser).lease,
		change:    leaseChanged,
		effective: effectiveLease,
	},
	{
		name: "durability", synonyms: []string{"sync", "fsync", "synchronous", "synchronouscommit"},
		about: "Whether a decision waits for the disk. `relaxed` does not: a crash of the database's machine may lose the last moments of the counts. `full` does.",
		more: "On Postgres, `relaxed` is `synchronous_commit = off`, and on SQLite, `full` is `PRAGMA synchronous = FULL`, both for the limit's own transactions only. " +
			"MySQL and MariaDB decide this for the whole server, so that it has no effect there, nor has it in a transaction of the caller.",
		accepts:   "`relaxed` or `full`",
		absent:    "as the database is set up (`sqlite.Open`: `relaxed`)",
		example:   "relaxed",
		schema:    object{"enum": inWords(runtime.Durabilities())},
		read:      (*parser).durability,
		change:    durabilityChanged,
		effective: effectiveDurability,
	},
	{
		name:      "goName",
		about:     "The name of the generated method.",
		accepts:   "an exported Go identifier, but not `" + strings.Join(ownMethods, "` or `") + "`, or a method that go vet knows, such as `MarshalJSON`",
		absent:    "the limit's name with a capital letter, and initialisms such as ID, URL and LLM in capitals",
		example:   "SendMessage",
		schema:    object{"type": "string", "pattern": exportedPattern, "not": object{"enum": reservedGoNames}},
		read:      (*parser).goName,
		change:    goNameChanged,
		effective: effectiveGoName,
	},
}

// leaseFields are the fields of the lease of a limit.
var leaseFields = []field[runtime.Lease]{
	{
		name: "tokens", required: true, synonyms: []string{"size", "count", "amount"},
		about:   "How many tokens a block has: best what one process uses of one key within `for`. Requests for more ask the store.",
		accepts: "a whole number of tokens, 1 to `capacity`",
		example: "10",
		schema:  numberSchema(1, runtime.MaxTokens),
		read:    (*parser).leaseTokens,
	},
	{
		name: "for", required: true, synonyms: []string{"ttl", "duration", "time"},
		about:   "How long a block may be spent. What is left then is given back, of a token bucket without what has accrued since.",
		accepts: "a duration, as for `period`",
		example: "200ms",
		schema:  object{"type": "string", "pattern": durationPattern},
		read:    (*parser).leaseFor,
	},
}
