// Package rules has the requirements on every limits.yaml, each with its id and an example.
package rules

import (
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Rule is a requirement on every limits.yaml.
type Rule struct {
	// ID is the [diag.Diagnostic.ID] of its violations. An id never changes its meaning.
	ID string
	// Summary states the rule in one sentence, with the reason if it is not obvious.
	Summary string
	// Wrong is a file that breaks the rule, and Right the corrected file. Both are empty if such a file is too long to
	// show.
	Wrong, Right string
}

// Rules returns every rule, in the order in which a file is read.
func Rules() []Rule { return slices.Clone(known) }

// Address returns the address of the section on an id, of a rule or of a change, in the page of all of them.
func Address(id string) string {
	return "https://github.com/ratelimitgen/ratelimitgen/blob/main/cmd/ratelimitgen/DIAGNOSTICS.md#" + id
}

// known are those declared below, in their order.
var known []Rule

// rule adds a rule to the list. Because [document.report] takes a *Rule, no diagnostic can have an id that the list lacks.
func rule(r Rule) *Rule {
	known = append(known, r)
	return &r
}

var (
	FileTooLarge = rule(Rule{
		ID:      "file-too-large",
		Summary: "A file is at most 4 MiB.",
	})
	InvalidUTF8 = rule(Rule{
		ID:      "invalid-utf8",
		Summary: "A file is UTF-8 text.",
		Wrong:   spec.Valid + "# caf\xe9\n",
		Right:   spec.Valid + "# café\n",
	})
	ControlCharacter = rule(Rule{
		ID:      "control-character",
		Summary: "A file has no control characters but tabs and newlines, no line separators that only some programs recognize, no invisible characters, and none that reorder a line.",
		Wrong:   spec.Valid + "# a\x00b\n",
		Right:   spec.Valid + "# a b\n",
	})
	EmptyFile = rule(Rule{
		ID:      "empty-file",
		Summary: "A file is not empty.",
		Wrong:   "# rate limits\n",
		Right:   spec.Valid,
	})
	Syntax = rule(Rule{
		ID:      "syntax",
		Summary: "A file is valid YAML.",
		Wrong:   spec.LimitOf("kind: token bucket", " rate: 10", "period: 1m"),
		Right:   spec.Valid,
	})
	SecondDocument = rule(Rule{
		ID:      "second-document",
		Summary: "A file is one YAML document, so that no part of it is ignored.",
		Wrong:   spec.Valid + "---\n" + spec.Valid,
		Right:   spec.Valid,
	})
	Anchor = rule(Rule{
		ID:      "anchor",
		Summary: "A file has no anchors or aliases: editing an anchor would change limits on lines that a reviewer does not see.",
		Wrong:   spec.LimitOf("kind: token bucket", "rate: &most 10", "period: 1m", "capacity: *most"),
		Right:   spec.LimitOf(spec.Bucket, "capacity: 10"),
	})
	MergeKey = rule(Rule{
		ID:      "merge-key",
		Summary: "A file has no merge keys, for the same reason as anchors.",
		Wrong:   spec.LimitOf("<<: {rate: 10}", "kind: token bucket", "period: 1m"),
		Right:   spec.Valid,
	})
	Tag = rule(Rule{
		ID:      "tag",
		Summary: "A file has no tags: a value is what it looks like.",
		Wrong:   spec.LimitOf("kind: token bucket", "rate: !!int 10", "period: 1m"),
		Right:   spec.Valid,
	})
	NameNotText = rule(Rule{
		ID:      "name-not-text",
		Summary: "Each name in a map is text.",
		Wrong:   "version: 1\nlimits:\n  404: {kind: token bucket, rate: 10, period: 1m}\n",
		Right:   "version: 1\nlimits:\n  notFound: {kind: token bucket, rate: 10, period: 1m}\n",
	})
	Duplicate = rule(Rule{
		ID:      "duplicate",
		Summary: "A map has each name only once.",
		Wrong:   spec.LimitOf("kind: token bucket", "rate: 10", "rate: 20", "period: 1m"),
		Right:   spec.Valid,
	})
	UnknownField = rule(Rule{
		ID:      "unknown-field",
		Summary: "A map has only the fields that are documented.",
		Wrong:   spec.LimitOf(spec.Bucket, "burst: 20"),
		Right:   spec.LimitOf(spec.Bucket, "capacity: 20"),
	})
	MissingField = rule(Rule{
		ID:      "missing-field",
		Summary: "A file has version and limits; a limit has kind, rate and period, and a zone if the period is in calendar units; a lease has tokens and for; a group has takes.",
		Wrong:   spec.LimitOf("kind: token bucket", "rate: 10"),
		Right:   spec.Valid,
	})
	WrongType = rule(Rule{
		ID:      "wrong-type",
		Summary: "A value has the type that its field takes: text, a map and so on.",
		Wrong:   spec.LimitOf(spec.Bucket, "doc: [a, b]"),
		Right:   spec.LimitOf(spec.Bucket, "doc: a, b"),
	})
	BadVersion = rule(Rule{
		ID:      "bad-version",
		Summary: "The version is 1.",
		Wrong:   strings.Replace(spec.Valid, "version: 1", "version: 2", 1),
		Right:   spec.Valid,
	})
	BadPackage = rule(Rule{
		ID:      "bad-package",
		Summary: "The package is a Go identifier that go build accepts as a package name.",
		Wrong:   "package: type\n" + spec.Valid,
		Right:   "package: limits\n" + spec.Valid,
	})
	BadPlan = rule(Rule{
		ID:      "bad-plan",
		Summary: "The name of a plan begins with a letter and has letters, digits, and single dashes or underscores between them; a list of plans is not empty.",
		Wrong:   "plans: [free, 2nd]\n" + spec.Valid,
		Right:   "plans: [free, second]\n" + spec.Valid,
	})
	NoLimits = rule(Rule{
		ID:      "no-limits",
		Summary: "A file has at least one limit.",
		Wrong:   "version: 1\nlimits:\n",
		Right:   spec.Valid,
	})
	NotIndented = rule(Rule{
		ID:      "not-indented",
		Summary: "The fields of a limit are indented below its name.",
		Wrong:   strings.ReplaceAll(spec.Valid, "\n    ", "\n  "),
		Right:   spec.Valid,
	})
	BadName = rule(Rule{
		ID:      "bad-name",
		Summary: "The name of a limit or group is camelCase: a lowercase letter, then letters and digits.",
		Wrong:   strings.Replace(spec.Valid, "sendMessage", "send-message", 1),
		Right:   spec.Valid,
	})
	NameTooLong = rule(Rule{
		ID:      "name-too-long",
		Summary: "The name of a limit has at most 255 bytes, because it is stored with every count.",
	})
	ReservedName = rule(Rule{
		ID:      "reserved-name",
		Summary: "No limit or group has the Go name of another generated method or field, or of a method whose signature go vet checks.",
		Wrong:   strings.Replace(spec.Valid, "sendMessage", "all", 1),
		Right:   strings.Replace(spec.Valid, "sendMessage", "everything", 1),
	})
	SameGoName = rule(Rule{
		ID:      "same-go-name",
		Summary: "No two limits or groups have the same Go method, no group has the name of a limit, and no two plans have the same Go constant.",
		Wrong:   spec.Valid + "  sendMail: {goName: SendMessage, kind: token bucket, rate: 10, period: 1m}\n",
		Right:   spec.Valid + "  sendMail: {kind: token bucket, rate: 10, period: 1m}\n",
	})
	BadGoName = rule(Rule{
		ID:      "bad-go-name",
		Summary: "A goName is an exported Go identifier.",
		Wrong:   spec.LimitOf(spec.Bucket, "goName: sendIt"),
		Right:   spec.LimitOf(spec.Bucket, "goName: SendIt"),
	})
	BadKind = rule(Rule{
		ID:      "bad-kind",
		Summary: "The kind is " + words.List(KindNames(), "or") + ".",
		Wrong:   spec.LimitOf("kind: leaky bucket", "rate: 10", "period: 1m"),
		Right:   spec.Valid,
	})
	NotForKind = rule(Rule{
		ID:      "not-for-kind",
		Summary: "A limit has only fields that apply to its kind.",
		Wrong:   spec.LimitOf(spec.Bucket, "start: 8h"),
		Right:   spec.LimitOf("kind: fixed window", "rate: 10", "period: 1m", "start: 8h"),
	})
	NotWhole = rule(Rule{
		ID:      "not-whole",
		Summary: "Tokens and shards are counted in whole numbers; only a maxReserved can be unbounded.",
		Wrong:   spec.LimitOf("kind: token bucket", "rate: 1.5", "period: 1m"),
		Right:   spec.LimitOf("kind: token bucket", "rate: 3", "period: 2m"),
	})
	NoPlans = rule(Rule{
		ID:      "no-plans",
		Summary: "A file with a value that depends on the plan lists its plans.",
		Wrong:   spec.LimitOf("kind: token bucket", "rate: {free: 10, pro: 60}", "period: 1m"),
		Right:   spec.Planned("rate: {free: 10, pro: 60}"),
	})
	UnknownPlan = rule(Rule{
		ID:      "unknown-plan",
		Summary: "A value is given for plans of the file only.",
		Wrong:   spec.Planned("rate: {free: 10, prro: 60}"),
		Right:   spec.Planned("rate: {free: 10, pro: 60}"),
	})
	MissingPlan = rule(Rule{
		ID:      "missing-plan",
		Summary: "A value that depends on the plan is given for every plan that is not unlimited.",
		Wrong:   spec.Planned("rate: {free: 10}"),
		Right:   spec.Planned("rate: {free: 10, pro: 60}"),
	})
	UnlimitedPlan = rule(Rule{
		ID:      "unlimited-plan",
		Summary: "Only the rate of a plan can be unlimited, the plan has no other number then, and some plan of each limit is limited.",
		Wrong:   spec.Planned("rate: {free: 10, pro: unlimited}", "capacity: {free: 20, pro: 120}"),
		Right:   spec.Planned("rate: {free: 10, pro: unlimited}", "capacity: {free: 20}"),
	})
	PlansDiffer = rule(Rule{
		ID:      "plans-differ",
		Summary: "Either all plans of a limit can be reserved or none can, and likewise all or none only by reservation: one method serves them all.",
		Wrong:   spec.Planned("rate: {free: 10, pro: 60}", "maxReserved: {free: 0, pro: 60}"),
		Right:   spec.Planned("rate: {free: 10, pro: 60}", "maxReserved: {free: 10, pro: 60}"),
	})
	PlanCarry = rule(Rule{
		ID:      "plan-carry",
		Summary: "No plan of a fixed window both allows more tokens at once than another and can start a window with more of them missing, capacity + maxReserved - rate: a window that ends on the other plan forgets the difference, so that changing to it and back would grant tokens again.",
		Wrong:   spec.Windowed("rate: {free: 10, pro: 60}", "capacity: {free: 20, pro: 120}"),
		Right:   spec.Windowed("rate: {free: 10, pro: 60}", "capacity: {free: 20, pro: 70}"),
	})
	LeadingZero = rule(Rule{
		ID:      "leading-zero",
		Summary: "A number has no leading zero, which would make it octal in YAML.",
		Wrong:   spec.LimitOf("kind: token bucket", "rate: 010", "period: 1m"),
		Right:   spec.Valid,
	})
	OutOfRange = rule(Rule{
		ID:      "out-of-range",
		Summary: "A number or a duration is within the range of its field.",
		Wrong:   spec.LimitOf("kind: token bucket", "rate: 0", "period: 1m"),
		Right:   spec.Valid,
	})
	NothingPasses = rule(Rule{
		ID:      "nothing-passes",
		Summary: "A limit can allow some request: with capacity 0, it needs a maxReserved.",
		Wrong:   spec.LimitOf(spec.Bucket, "capacity: 0", "maxReserved: 0"),
		Right:   spec.LimitOf(spec.Bucket, "capacity: 0", "maxReserved: 10"),
	})
	BadPrecise = rule(Rule{
		ID:      "bad-precise",
		Summary: "precise is true or false; a precise limit has a rate of at most 1,000, because each token may need a row, and no start, shards or lease.",
		Wrong:   spec.LimitOf("kind: sliding window", "rate: 5000", "period: 1m", "precise: true"),
		Right:   spec.LimitOf("kind: token bucket", "rate: 4500", "period: 1m", "capacity: 500"),
	})
	TooManyShards = rule(Rule{
		ID:      "too-many-shards",
		Summary: "Every shard gets at least one token of rate, capacity and maxReserved; windows that start at first use have no shards.",
		Wrong:   spec.LimitOf(spec.Bucket, "shards: 20"),
		Right:   spec.LimitOf(spec.Bucket, "shards: 5"),
	})
	BadDuration = rule(Rule{
		ID:      "bad-duration",
		Summary: "A duration is written as numbers with units and is a whole number of nanoseconds; months and years have no fixed length, but a fixed window can have a period: month.",
		Wrong:   spec.LimitOf("kind: token bucket", "rate: 10", "period: 60"),
		Right:   spec.LimitOf("kind: token bucket", "rate: 10", "period: 60s"),
	})
	BadStart = rule(Rule{
		ID:      "bad-start",
		Summary: "A start is an RFC 3339 instant with its zone, an offset from 0:00 UTC, or first use; for a period in calendar units, it is a day, a time of day, or anniversary.",
		Wrong:   spec.LimitOf("kind: fixed window", "rate: 10", "period: 1d", "start: 2024-01-01"),
		Right:   spec.LimitOf("kind: fixed window", "rate: 10", "period: 1d", "start: 2024-01-01T00:00:00Z"),
	})
	BadMode = rule(Rule{
		ID:      "bad-mode",
		Summary: "The mode is enforce, shadow, off or block.",
		Wrong:   spec.LimitOf(spec.Bucket, "mode: dry-run"),
		Right:   spec.LimitOf(spec.Bucket, "mode: shadow"),
	})
	BadZone = rule(Rule{
		ID:      "bad-zone",
		Summary: "A zone is a name of the IANA time zone database, or per key.",
		Wrong:   spec.LimitOf("kind: fixed window", "rate: 10", "period: month", "zone: Europe/Berlon"),
		Right:   spec.LimitOf("kind: fixed window", "rate: 10", "period: month", "zone: Europe/Berlin"),
	})
	NotForPeriod = rule(Rule{
		ID:      "not-for-period",
		Summary: "A start fits the period, and only a period in calendar units has a zone.",
		Wrong:   spec.LimitOf("kind: fixed window", "rate: 10", "period: month", "zone: UTC", "start: monday"),
		Right:   spec.LimitOf("kind: fixed window", "rate: 10", "period: month", "zone: UTC", "start: 15th"),
	})
	BadOnError = rule(Rule{
		ID:      "bad-on-error",
		Summary: "onError is closed, open or local.",
		Wrong:   spec.LimitOf(spec.Bucket, "onError: allow"),
		Right:   spec.LimitOf(spec.Bucket, "onError: open"),
	})
	NothingCached = rule(Rule{
		ID:      "nothing-cached",
		Summary: "A deny cache needs a capacity: with capacity 0 every request reserves, and denied reservations are not cached.",
		Wrong:   spec.LimitOf(spec.Bucket, "capacity: 0", "denyCache: 1s"),
		Right:   spec.LimitOf(spec.Bucket, "capacity: 1", "denyCache: 1s"),
	})
	BadLease = rule(Rule{
		ID:      "bad-lease",
		Summary: "A lease has at most capacity tokens; windows that start at first use have no lease, because a process cannot compute when they end.",
		Wrong:   spec.LimitOf(spec.Bucket, "lease: {tokens: 20, for: 200ms}"),
		Right:   spec.LimitOf(spec.Bucket, "lease: {tokens: 10, for: 200ms}"),
	})
	BadOverrides = rule(Rule{
		ID:      "bad-overrides",
		Summary: "The most that overrides can give is at least what the limit gives, and they give only numbers that the limit has.",
		Wrong:   spec.LimitOf(spec.Bucket, "overrides: {rate: 5}"),
		Right:   spec.LimitOf(spec.Bucket, "overrides: {rate: 50}"),
	})
	BadDurability = rule(Rule{
		ID:      "bad-durability",
		Summary: "The durability is relaxed or full.",
		Wrong:   spec.LimitOf(spec.Bucket, "durability: async"),
		Right:   spec.LimitOf(spec.Bucket, "durability: relaxed"),
	})
	BadDoc = rule(Rule{
		ID:      "bad-doc",
		Summary: "The doc has no line that Go reads as a build constraint, and no control characters.",
		Wrong:   spec.LimitOf(spec.Bucket, "doc: +build ignore"),
		Right:   spec.LimitOf(spec.Bucket, "doc: is for builds"),
	})
	BadKeyPart = rule(Rule{
		ID:      "bad-key-part",
		Summary: "The name of each part of a key is a valid Go parameter.",
		Wrong:   spec.LimitOf(spec.Bucket, "key: {type: string}"),
		Right:   spec.LimitOf(spec.Bucket, "key: {messageType: string}"),
	})
	BadKeyType = rule(Rule{
		ID:      "bad-key-type",
		Summary: "The type of each part of a key is one that keys support.",
		Wrong:   spec.LimitOf(spec.Bucket, "key: {userID: int32}"),
		Right:   spec.LimitOf(spec.Bucket, "key: {userID: int64}"),
	})
	TooManyKeyParts = rule(Rule{
		ID:      "too-many-key-parts",
		Summary: "A key has at most 8 parts.",
		Wrong:   spec.LimitOf(spec.Bucket, "key: {a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int, i: int}"),
		Right:   spec.LimitOf(spec.Bucket, "key: {a: int, b: int}"),
	})
	UnknownLimit = rule(Rule{
		ID:      "unknown-limit",
		Summary: "A group names limits of the file.",
		Wrong:   spec.Valid + "groups:\n  post: {takes: [sendMesage]}\n",
		Right:   spec.Valid + "groups:\n  post: {takes: [sendMessage]}\n",
	})
	EmptyGroup = rule(Rule{
		ID:      "empty-group",
		Summary: "A group takes from at least one limit.",
		Wrong:   spec.Valid + "groups:\n  post: {takes: []}\n",
		Right:   spec.Valid + "groups:\n  post: {takes: [sendMessage]}\n",
	})
	UnboundKeyPart = rule(Rule{
		ID:      "unbound-key-part",
		Summary: "A group gives each part of a limit's key a parameter, and no others.",
		Wrong:   spec.LimitOf(spec.Bucket, "key: {userID: int64}") + "groups:\n  post: {takes: {sendMessage: {user: author}}}\n",
		Right:   spec.LimitOf(spec.Bucket, "key: {userID: int64}") + "groups:\n  post: {takes: {sendMessage: {userID: author}}}\n",
	})
	ParameterType = rule(Rule{
		ID:      "parameter-type",
		Summary: "A parameter of a group has one type, and is a part of keys or a number of tokens, but not both.",
		Wrong:   spec.LimitOf(spec.Bucket, "key: {userID: int64}") + "groups:\n  post: {takes: {sendMessage: {userID: user, n: user}}}\n",
		Right:   spec.LimitOf(spec.Bucket, "key: {userID: int64}") + "groups:\n  post: {takes: {sendMessage: {userID: user, n: messages}}}\n",
	})
	CountInCheck = rule(Rule{
		ID:      "count-in-check",
		Summary: "A check has no number of tokens, because it takes none.",
		Wrong:   spec.TwoLimits + "groups:\n  post: {takes: [sendMessage], checks: {signUp: {n: 2}}}\n",
		Right:   spec.TwoLimits + "groups:\n  post: {takes: [sendMessage], checks: [signUp]}\n",
	})
	CannotPass = rule(Rule{
		ID:      "cannot-pass",
		Summary: "A group can pass: no number of tokens is more than a limit can ever have, and no limit with capacity 0 is checked.",
		Wrong:   spec.LimitOf(spec.Bucket, "maxReserved: 0") + "groups:\n  post: {takes: {sendMessage: {n: 11}}}\n",
		Right:   spec.LimitOf(spec.Bucket, "maxReserved: 0") + "groups:\n  post: {takes: {sendMessage: {n: 10}}}\n",
	})
	TakenAndChecked = rule(Rule{
		ID:      "taken-and-checked",
		Summary: "A group does not check a limit that it takes from, because a take checks too.",
		Wrong:   spec.Valid + "groups:\n  post: {takes: [sendMessage], checks: [sendMessage]}\n",
		Right:   spec.Valid + "groups:\n  post: {takes: [sendMessage]}\n",
	})
)

func KindNames() []string { return diag.Texts(runtime.Kinds()) }
