package spec

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// field is one name that a map of the file may contain. A table of fields is the only place that lists the fields of a
// map: it drives the parser, the suggestions, the JSON Schema, the reference, the diff and the words. A new field needs
// an entry here, a judgement of its change in gen/review, and its effect in package runtime.
type field[D, T any] struct {
	name string
	// synonyms are the names of the field in other limiters, in lower case.
	synonyms []string
	required bool
	// about explains the field in one cell of the reference, more is what does not fit there. Both are Markdown.
	about, more string
	// accepts describes the valid values, and absent what holds without the field. Both are Markdown.
	accepts, absent string
	// example is a valid value.
	example string
	schema  object
	// sets is the field of [runtime.Policy], or for a field of a lease of [runtime.Lease], that holds the value.
	sets string
	// read stores the value and returns true, or reports its errors.
	read func(p *parser, into *D, e entry) bool
	// change is the kind of change that a diff reports for the field. It is nil for fields that cannot change by
	// themselves: version, limits and those of a lease.
	change *ChangeKind
	// byPlan is set if the value may be a map with a value for each plan.
	byPlan bool
	// effective returns the value that applies, given or not, as limits.yaml writes it. Equal values are written alike.
	effective func(of *T) string
	// words describes the value in sentences of generated doc comments. Fields may share one.
	words func(of *T) []string
}

// names lists the names of the fields of a table.
func names[D, T any](fields []field[D, T]) []string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f.name
	}
	return list
}

// fileFields are the fields at the top of the file.
var fileFields = []field[File, File]{
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
		effective: func(f *File) string { return f.Package },
	},
	{
		name: "plans", synonyms: []string{"plan", "tiers", "tier"},
		about:     "The plans of your customers. `rate`, `capacity`, `maxReserved` and, for a token bucket, `period` may be a map with a value for each plan. The method of such a limit takes the plan as its last parameter.",
		more:      "Every such map names every plan, as in `rate: {free: 10, pro: 60, enterprise: unlimited}`. With the rate `unlimited`, requests of that plan are allowed without the store and not counted, and the plan is left out of the other maps. A key has one count, whatever its plan.",
		accepts:   "a list of names: each begins with a letter and has letters, digits, and single dashes or underscores between them",
		absent:    "limits are the same for all callers",
		example:   "[free, pro]",
		schema:    plansSchema,
		read:      (*parser).planList,
		change:    plansChanged,
		effective: effectivePlans,
	},
	{
		name: "limits", required: true,
		about:   "The limits, by name. A name is camelCase and becomes the name of a Go method.",
		accepts: "a map from names to limits, with at least one",
		example: "{sendMessage: {kind: token bucket, rate: 10, period: 1m}}",
		schema:  limitsSchema,
		read:    (*parser).limits,
	},
	{
		name:    "groups",
		about:   "Groups of limits, by name: one call takes from all limits of a group or, if one denies, from none. A name becomes the name of a Go method.",
		accepts: "a map from names to groups",
		absent:  "no groups",
		example: "{post: {takes: [sendMessage]}}",
		schema:  groupsSchema,
		read:    (*parser).groups,
	},
}

// limitFields are the fields of one limit, in the order in which people read them.
var limitFields = []field[draft, Limit]{
	{
		name: "doc", synonyms: []string{"description", "comment"},
		about:     "What the limit is for. It becomes the method's doc comment, after the method's name.",
		accepts:   "text, of one or more lines",
		example:   "bounds how fast one user can post.",
		schema:    object{"type": "string"},
		read:      (*parser).doc,
		change:    docChanged,
		effective: func(l *Limit) string { return l.Doc },
	},
	{
		name:      "key",
		about:     "What requests are counted per. Every part becomes a parameter of the method.",
		accepts:   "a name, such as `userID`, for one string, or a map from names to types: " + keyTypesInWords,
		more:      "For an IPv6 address, `netip.Addr/64` counts the first 64 bits (1 to 128), because one subscriber has at least that many addresses; an IPv4 address counts whole. For a `hashed string`, such as an API key or an e-mail address, only a SHA-256 is stored. A type of your own needs a MarshalText method.",
		absent:    "one count, shared by all callers",
		example:   "{userID: int64}",
		schema:    keySchema,
		read:      (*parser).keyParts,
		change:    keyChanged,
		effective: effectiveKey,
	},
	{
		name: "kind", required: true, synonyms: []string{"type", "algorithm", "strategy"},
		about:     "How tokens are granted: " + grantsOfKinds() + ".",
		accepts:   kindsAsCode(),
		example:   "token bucket",
		schema:    object{"enum": kindNames()},
		sets:      "Kind",
		read:      (*parser).kind,
		change:    kindChanged,
		effective: func(l *Limit) string { return l.Policy.Kind.String() },
		words:     ruleWords,
	},
	{
		name: "rate", required: true, synonyms: []string{"limit"},
		about:     "How many tokens are granted per `period`.",
		accepts:   fmt.Sprintf("a whole number of tokens, 1 to %s, or a map with such a number or `unlimited` for each plan", words.Number(runtime.MaxTokens)),
		example:   "10",
		schema:    orByPlan(numberSchema(1, runtime.MaxTokens), true),
		sets:      "Rate",
		read:      byPlan(readTokens(1, func(l *draft) *int64 { return &l.policy.Rate })),
		change:    rateChanged,
		byPlan:    true,
		effective: effectiveRate,
	},
	{
		name: "period", required: true, synonyms: []string{"window", "interval", "every", "per"},
		about:     "The time in which `rate` tokens are granted: a fixed length or, for a fixed window, a number of calendar days, weeks, months or years in `zone`.",
		accepts:   "a duration such as `90s`, `1h30m`, `1d` or `2w`; units: " + unitsInWords + "; or `day`, `week`, `month`, `year` or `3 months`; at most " + longestPeriod,
		more:      "For a token bucket, the period may be a map with a duration for each plan.",
		example:   "1m",
		schema:    orByPlan(periodSchema, false),
		sets:      "Period",
		read:      byPlan((*parser).period),
		change:    rateChanged,
		byPlan:    true,
		effective: effectivePeriod,
	},
	{
		name: "zone", synonyms: []string{"timezone", "tz", "location"},
		about:     "The time zone of a `period` in calendar units, which requires it. `per key` gives every key its own: the method has a parameter for it.",
		more:      "The names are those of the IANA time zone database. The zone data is Go's, and generated code embeds it unless all zones are `UTC`. If a start moves by less than half a window, because of new data or another zone, no window begins twice.",
		accepts:   "a name such as `UTC` or `Europe/Berlin`, or `per key`",
		absent:    "none; required for a `period` in calendar units",
		example:   "Europe/Berlin",
		schema:    zoneSchema(),
		sets:      "Calendar",
		read:      (*parser).zone,
		change:    zoneChanged,
		effective: effectiveZone,
	},
	{
		name: "capacity", synonyms: []string{"burst", "max"},
		about:     "The most tokens that can accumulate, and so the largest count of one call. With 0, tokens can only be reserved. Not for a sliding window.",
		accepts:   fmt.Sprintf("a whole number of tokens, 0 to %s, or a map with one for each plan", words.Number(runtime.MaxTokens)),
		absent:    "`rate`",
		example:   "20",
		schema:    orByPlan(numberSchema(0, runtime.MaxTokens), false),
		sets:      "Capacity",
		read:      byPlan(readTokens(0, func(l *draft) *int64 { return &l.policy.Capacity })),
		change:    capacityChanged,
		byPlan:    true,
		effective: func(l *Limit) string { return strconv.FormatInt(l.Policy.Capacity, 10) },
	},
	{
		name:      "maxReserved",
		about:     "How many tokens may be reserved before they are granted. With 0, the limit has no method `Reserve`. A sliding window has no reservations.",
		accepts:   fmt.Sprintf("a whole number of tokens, 0 to %s, or `%s`; or a map with one for each plan", words.Number(mostReserved), unboundedWord),
		absent:    "0: no reservations",
		example:   "100",
		schema:    orByPlan(reservedSchema, false),
		sets:      "MaxReserved",
		read:      byPlan((*parser).maxReserved),
		change:    maxReservedChanged,
		byPlan:    true,
		effective: effectiveMaxReserved,
		words:     reservingWords,
	},
	{
		name:      "start",
		about:     "When windows begin: at an instant and every period before and after it; at an offset from 0:00 UTC on 1 January 1970; or, for a fixed window, at each key's `first use`. Not for a token bucket.",
		more:      startMore,
		accepts:   "an RFC 3339 instant, a duration, or `first use`; for calendar units, such as `15th`, `monday`, `april 6th`, `06:00`, `anniversary`",
		absent:    "a fixed offset derived from the key; for calendar units, midnight of their first day",
		example:   "8h",
		schema:    startSchema,
		sets:      "Start",
		read:      (*parser).start,
		change:    startChanged,
		effective: effectiveStart,
		words:     startWords,
	},
	{
		name: "precise", synonyms: []string{"exact", "strict"},
		about:     "Whether a sliding window is exact: with `true`, never more than `rate` in any period, wherever it begins, and each token is available again exactly a `period` after it was taken.",
		more:      "The store keeps a log of the tokens taken in the last period: up to `rate` rows per key. A request reads and writes a few of them in a transaction, which takes two to four times as long as the statement of another limit; concurrent requests share transactions.",
		accepts:   fmt.Sprintf("`true` or `false`; `true` only for a sliding window with a `rate` of at most %s, and without `start`, `shards` and `lease`", words.Number(runtime.MaxPreciseRate)),
		absent:    "`false`",
		example:   "true",
		schema:    object{"type": "boolean"},
		sets:      "Precise",
		read:      readBool(badPrecise, func(l *draft) *bool { return &l.policy.Precise }),
		change:    preciseChanged,
		effective: func(l *Limit) string { return strconv.FormatBool(l.Policy.Precise) },
		words:     preciseWords,
	},
	{
		name:      "shards",
		about:     "The number of rows that hold the count of one key, so that concurrent requests write to different rows. Each shard gets an equal part of `rate`, `capacity` and `maxReserved`, at least one token.",
		accepts:   fmt.Sprintf("a whole number, 1 to %s", words.Number(runtime.MaxShards)),
		absent:    "1",
		example:   "4",
		schema:    numberSchema(1, runtime.MaxShards),
		sets:      "Shards",
		read:      (*parser).shards,
		change:    shardsChanged,
		effective: func(l *Limit) string { return strconv.Itoa(max(1, l.Policy.Shards)) },
		words:     shardsWords,
	},
	{
		name: "mode", synonyms: []string{"enforcement", "action", "dryrun", "enabled", "shadowmode"},
		about:     "What the limit does with its decisions: `shadow` counts, but lets every request pass, and reports those that `enforce` would deny in `Decision.Shadowed`; `off` lets every request pass, uncounted; `block` denies every request.",
		more:      "A request that `shadow` lets pass takes nothing. In a call over several limits, a limit in `shadow` never stands in the way, nor does it if the store fails. A request denied by `block` has the `RetryAfter` `runtime.Never`, and `Wait` fails at once.",
		accepts:   "`enforce`, `shadow`, `off` or `block`",
		absent:    "`enforce`",
		example:   "shadow",
		schema:    object{"enum": texts(runtime.Modes())},
		sets:      "Mode",
		read:      readWord(badMode, runtime.Modes(), modeSynonyms, func(l *draft) *runtime.Mode { return &l.policy.Mode }),
		change:    modeChanged,
		effective: func(l *Limit) string { return l.Policy.Mode.String() },
		words:     modeWords,
	},
	{
		name: "timeout", synonyms: []string{"deadline"},
		about:     "How long a decision may take. After that the store is treated as failed, though it may have taken the tokens.",
		accepts:   "a duration, as for `period`",
		absent:    "as long as the call's context allows",
		example:   "250ms",
		schema:    durationSchema,
		sets:      "Timeout",
		read:      readDuration(func(l *draft) *time.Duration { return &l.policy.Timeout }),
		change:    timeoutChanged,
		effective: func(l *Limit) string { return unlessZero(l.Policy.Timeout) },
	},
	{
		name: "onError", synonyms: []string{"fail", "failure", "fallback"},
		about:     "The decision if the store fails: `closed` allows no request, and the call returns the error; `open` allows every request without counting it; `local` decides by the same rule from the memory of the process. The decision reports that.",
		more:      "With `local`, a key begins with what the store has last reported to the process, and is full if it has not: n processes together may allow n times the limit. The store does not count it. The end of the caller's context is no failure of the store: the call returns the context's error. With `open` or `local`, only `Allow` reports the failure, in `Decision.FailedOpen` or `Decision.FailedLocal`; `Require` and `Wait` cannot report it. Call the store's `Ready` at startup to find a broken store early.",
		accepts:   "`closed`, `open` or `local`",
		absent:    "`closed`",
		example:   "open",
		schema:    object{"enum": texts(runtime.OnErrors())},
		sets:      "OnError",
		read:      readWord(badOnError, runtime.OnErrors(), onErrorSynonyms, func(l *draft) *runtime.OnError { return &l.policy.OnError }),
		change:    onErrorChanged,
		effective: func(l *Limit) string { return l.Policy.OnError.String() },
		words:     onErrorWords,
	},
	{
		name: "jitter", synonyms: []string{"spread", "randomization"},
		about:     "The most by which clients are told to retry later than their tokens are due, so that they do not all come back at once. `Wait` and the delays of reservations use it too.",
		more:      "The jitter of a key is the same for the same due time, and `Decision.RetryAfter` stays exact; `Decision.RetryIn()` includes the jitter. It spreads the keys of a limit: all callers of one key get the same.",
		accepts:   "a duration, as for `period`",
		absent:    "none",
		example:   "10s",
		schema:    durationSchema,
		sets:      "Jitter",
		read:      readDuration(func(l *draft) *time.Duration { return &l.policy.Jitter }),
		change:    jitterChanged,
		effective: func(l *Limit) string { return unlessZero(l.Policy.Jitter) },
		words:     jitterWords,
	},
	{
		name: "denyCache", synonyms: []string{"cache", "ephemeralcache", "denylist", "inmemoryblockduration"},
		about:     "The longest time that a process repeats a denial from its memory. Tokens that another process gives back may be available only that much later.",
		accepts:   "a duration, as for `period`",
		absent:    "denials are not cached",
		example:   "1s",
		schema:    durationSchema,
		sets:      "DenyCache",
		read:      readDuration(func(l *draft) *time.Duration { return &l.policy.DenyCache }),
		change:    denyCacheChanged,
		effective: func(l *Limit) string { return unlessZero(l.Policy.DenyCache) },
		words:     denyCacheWords,
	},
	{
		name: "lease", synonyms: []string{"block", "prefetch", "batch"},
		about:     "A block of tokens that a process takes at once, and spends from its memory. Not for windows that start at `first use`.",
		more:      "A lease grants no additional tokens, but those of a token bucket may be used later than they were taken, by up to `for`. A block of a window ends with the window. Reservations, requests over several limits and transactions do not use blocks.",
		accepts:   "a map with `tokens` and `for`",
		absent:    "every request reaches the store",
		example:   "{tokens: 10, for: 200ms}",
		schema:    mapSchema(leaseFields),
		sets:      "Lease",
		read:      (*parser).lease,
		change:    leaseChanged,
		effective: effectiveLease,
		words:     leaseWords,
	},
	{
		name: "durability", synonyms: []string{"sync", "fsync", "synchronous", "synchronouscommit"},
		about: "Whether a decision waits for the disk. `full` waits. `relaxed` does not: a crash of the database's machine may lose the most recent counts.",
		more: "On Postgres, `relaxed` sets `synchronous_commit = off`, and on SQLite, `full` sets `PRAGMA synchronous = FULL`, both for the limit's own transactions only. " +
			"MySQL and MariaDB set durability for the whole server: there, the field has no effect. It also has no effect in the caller's transaction.",
		accepts:   "`relaxed` or `full`",
		absent:    "the setting of the database (`sqlite.Open`: `relaxed`)",
		example:   "relaxed",
		schema:    object{"enum": texts(runtime.Durabilities())},
		sets:      "Durability",
		read:      readWord(badDurability, runtime.Durabilities(), durabilitySynonyms, func(l *draft) *runtime.Durability { return &l.policy.Durability }),
		change:    durabilityChanged,
		effective: effectiveDurability,
		words:     durabilityWords,
	},
	{
		name: "overrides", synonyms: []string{"override", "exceptions", "maxoverride"},
		about: "Lets operators block keys, and give them other numbers, at most these, while the program runs: each with an end, a reason and an author. `{}` allows numbers within those of the limit.",
		more: "A limit without it has no such methods and no cost. Overrides are rows of the table `rate_limit_overrides`, which is a log: each process reads the new entries every 5 seconds, and no decision needs a statement more. " +
			"In force is a block of the limit or the key, else the override of the key, else that of the whole limit, else the plan. The period cannot be overridden.",
		accepts:   "a map with `rate`, `capacity` and `maxReserved`, each of which may be left out",
		absent:    "no overrides and no blocks",
		example:   "{rate: 5_000, capacity: 10_000}",
		schema:    mapSchema(overrideFields),
		sets:      "Overrides",
		read:      (*parser).overrides,
		change:    overridesChanged,
		effective: effectiveOverrides,
		words:     overridesWords,
	},
	{
		name:      "goName",
		about:     "The name of the generated method.",
		accepts:   "an exported Go identifier, but not `" + strings.Join(ownMethods, "` or `") + "`, or a method whose signature go vet checks, such as `MarshalJSON`",
		absent:    "the limit's name with a capital letter, and initialisms such as ID, URL and LLM in capitals",
		example:   "SendMessage",
		schema:    object{"type": "string", "pattern": exportedPattern, "not": object{"enum": reservedGoNames}},
		read:      (*parser).goName,
		change:    goNameChanged,
		effective: func(l *Limit) string { return l.GoName },
	},
}

// leaseFields are the fields of the lease of a limit.
var leaseFields = []field[runtime.Lease, runtime.Lease]{
	{
		name: "tokens", required: true, synonyms: []string{"size", "count", "amount"},
		about:   "How many tokens a block has: ideally as many as one process uses of one key within `for`. Requests for more reach the store.",
		accepts: "a whole number of tokens, 1 to `capacity`",
		example: "10",
		schema:  numberSchema(1, runtime.MaxTokens),
		sets:    "Tokens",
		read:    readTokens(1, func(l *runtime.Lease) *int64 { return &l.Tokens }),
	},
	{
		name: "for", required: true, synonyms: []string{"ttl", "duration", "time"},
		about:   "How long a block may be spent. Tokens left after that are given back; for a token bucket, less the tokens that have accrued since.",
		accepts: "a duration, as for `period`",
		example: "200ms",
		schema:  durationSchema,
		sets:    "For",
		read:    readDuration(func(l *runtime.Lease) *time.Duration { return &l.For }),
	},
}
