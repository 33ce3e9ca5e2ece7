package ids

import (
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// The rules, in the order of [Rules]. Each is described by its Summary.
var (
	FileTooLarge = rule("file-too-large", "A file is at most 4 MiB.", "")
	InvalidUTF8  = rule("invalid-utf8", "A file is UTF-8 text.",
		Valid+"-# caf\xe9\n+# café\n")
	ControlCharacter = rule("control-character",
		"A file has no control characters but tabs and newlines, no line separators that only some programs recognize, no invisible characters, and none that reorder a line.",
		Valid+"-# a\x00b\n+# a b\n")
	EmptyFile = rule("empty-file", "A file is not empty.",
		"-# rate limits\n"+marked("+", Valid))
	Syntax = rule("syntax", "A file is valid YAML.",
		LimitOf("kind: token bucket", "- rate: 10", "+rate: 10", "period: 1m"))
	SecondDocument = rule("second-document", "A file is one YAML document, so that no part of it is ignored.",
		Valid+marked("-", "---\n"+Valid))
	Anchor = rule("anchor",
		"A file has no anchors or aliases: editing an anchor would change limits on lines that a reviewer does not see.",
		LimitOf("kind: token bucket", "-rate: &most 10", "-period: 1m", "-capacity: *most", "+rate: 10", "+period: 1m",
			"+capacity: 10"))
	MergeKey = rule("merge-key", "A file has no merge keys, for the same reason as anchors.",
		LimitOf("-<<: {rate: 10}", "-kind: token bucket", "+kind: token bucket", "+rate: 10", "period: 1m"))
	Tag = rule("tag", "A file has no tags: a value is what it looks like.",
		LimitOf("kind: token bucket", "-rate: !!int 10", "+rate: 10", "period: 1m"))
	NameNotText = rule("name-not-text", "Each name in a map is text.",
		"version: 1\nlimits:\n  -404: {kind: token bucket, rate: 10, period: 1m}\n  +notFound: {kind: token bucket, rate: 10, period: 1m}\n")
	Duplicate = rule("duplicate", "A map has each name only once.",
		LimitOf("kind: token bucket", "rate: 10", "-rate: 20", "period: 1m"))
	UnknownField = rule("unknown-field", "A map has only the fields that are documented.",
		LimitOf(Bucket, "-burst: 20", "+capacity: 20"))
	MissingField = rule("missing-field",
		"A file has version and limits; a limit has kind, and rate and period or, in flight, capacity and hold, and a zone if the period is in calendar units; a lease has tokens and for; a group has takes.",
		LimitOf("kind: token bucket", "rate: 10", "+period: 1m"))
	WrongType = rule("wrong-type", "A value has the type that its field takes: text, a map and so on.",
		LimitOf(Bucket, "-doc: [a, b]", "+doc: a, b"))
	BadVersion = rule("bad-version", "The version is 1.",
		"-version: 2\n+"+Valid)
	BadPackage = rule("bad-package", "The package is a Go identifier that go build accepts as a package name.",
		"-package: type\n+package: limits\n"+Valid)
	BadPlan = rule("bad-plan",
		"The name of a plan begins with a letter and has letters, digits, and single dashes or underscores between them; a list of plans is not empty.",
		"-plans: [free, 2nd]\n+plans: [free, second]\n"+Valid)
	NoLimits = rule("no-limits", "A file has at least one limit.",
		"version: 1\nlimits:\n"+marked("+", "  sendMessage:\n    "+Bucket+"\n"))
	NotIndented = rule("not-indented", "The fields of a limit are indented below its name.",
		"version: 1\nlimits:\n  sendMessage:\n"+marked("-", "  kind: token bucket\n  rate: 10\n  period: 1m\n")+marked("+", "    "+Bucket+"\n"))
	BadName = rule("bad-name", "The name of a limit or group is camelCase: a lowercase letter, then letters and digits.",
		renamed("send-message", "sendMessage"))
	NameTooLong = rule("name-too-long",
		"The name of a limit has at most 255 bytes, because it is stored with every count.", "")
	ReservedName = rule("reserved-name",
		"No limit or group has the Go name of another generated method or field, or of a method whose signature go vet checks.",
		renamed("all", "everything"))
	SameGoName = rule("same-go-name",
		"No two limits or groups have the same Go method, no group has the name of a limit, and no two plans have the same Go constant.",
		Valid+"  -sendMail: {goName: SendMessage, kind: token bucket, rate: 10, period: 1m}\n  +sendMail: {kind: token bucket, rate: 10, period: 1m}\n")
	BadGoName = rule("bad-go-name", "A goName is an exported Go identifier.",
		LimitOf(Bucket, "-goName: sendIt", "+goName: SendIt"))
	BadKind = rule("bad-kind", "The kind is "+words.List(words.Of(runtime.Kinds(), runtime.Kind.String), "or")+".",
		LimitOf("-kind: leaky bucket", "+kind: token bucket", "rate: 10", "period: 1m"))
	NotForKind = rule("not-for-kind", "A limit has only fields that apply to its kind.",
		LimitOf("-kind: token bucket", "+kind: fixed window", "rate: 10", "period: 1m", "start: 8h"))
	NotWhole = rule("not-whole", "Tokens and shards are counted in whole numbers; only a maxReserved can be unbounded.",
		LimitOf("kind: token bucket", "-rate: 1.5", "-period: 1m", "+rate: 3", "+period: 2m"))
	NoPlans = rule("no-plans", "A file with a value that depends on the plan lists its plans.",
		strings.Replace(Planned("rate: {free: 10, pro: 60}"), "plans:", "+plans:", 1))
	UnknownPlan = rule("unknown-plan", "A value is given for plans of the file only.",
		Planned("-rate: {free: 10, prro: 60}", "+rate: {free: 10, pro: 60}"))
	MissingPlan = rule("missing-plan", "A value that depends on the plan is given for every plan that is not unlimited.",
		Planned("-rate: {free: 10}", "+rate: {free: 10, pro: 60}"))
	UnlimitedPlan = rule("unlimited-plan",
		"Only a rate can be unlimited, the plan has no other number then, and some plan of each limit is limited, unless the limit counts what is used.",
		Planned("rate: {free: 10, pro: unlimited}", "-capacity: {free: 20, pro: 120}", "+capacity: {free: 20}"))
	PlansDiffer = rule("plans-differ",
		"Either all plans of a limit can be reserved or none can, and likewise all or none only by reservation: one method serves them all.",
		Planned("rate: {free: 10, pro: 60}", "-maxReserved: {free: 0, pro: 60}", "+maxReserved: {free: 10, pro: 60}"))
	PlanCarry = rule("plan-carry",
		"No plan of a fixed window both allows more tokens at once than another and can start a window with more of them missing, capacity + maxReserved - rate: a window that ends on the other plan forgets the difference, so that changing to it and back would grant tokens again.",
		Windowed("rate: {free: 10, pro: 60}", "-capacity: {free: 20, pro: 120}", "+capacity: {free: 20, pro: 70}"))
	BadNumbers = rule("bad-numbers",
		"A number from callers is at most 1 or more, and the same for all plans; a limit with such numbers has no lease, and as a fixed window, a capacity and maxReserved that together are at most its rate, if callers give one of them.",
		LimitOf("kind: token bucket", "rate: {at most: 10_000}", "period: 1m", "-lease: {tokens: 10, for: 200ms}"))
	LeadingZero = rule("leading-zero", "A number has no leading zero, which would make it octal in YAML.",
		LimitOf("kind: token bucket", "-rate: 010", "+rate: 10", "period: 1m"))
	OutOfRange = rule("out-of-range", "A number or a duration is within the range of its field.",
		LimitOf("kind: token bucket", "-rate: 0", "+rate: 10", "period: 1m"))
	NothingPasses = rule("nothing-passes", "A limit can allow some request: with capacity 0, it needs a maxReserved.",
		LimitOf(Bucket, "capacity: 0", "-maxReserved: 0", "+maxReserved: 10"))
	BadCount = rule("bad-count",
		"count is true or false; a limit with it is a fixed window with an unlimited rate, and has no lease or numbers from callers.",
		LimitOf("kind: fixed window", "rate: unlimited", "period: 1d", "-count: yes", "+count: true"))
	BadPrecise = rule("bad-precise",
		"precise is true or false; a precise limit has no start, shards or lease.",
		LimitOf("kind: sliding window", "rate: 50", "period: 1m", "precise: true", "-shards: 2"))
	TooManyShards = rule("too-many-shards",
		"Every shard gets at least one token of rate, capacity and maxReserved; windows that start at first use have no shards.",
		LimitOf(Bucket, "-shards: 20", "+shards: 5"))
	BadDuration = rule("bad-duration",
		"A duration is written as numbers with units and is a whole number of nanoseconds; months and years have no fixed length, but a fixed window can have a period: month.",
		LimitOf("kind: token bucket", "rate: 10", "-period: 60", "+period: 60s"))
	BadStart = rule("bad-start",
		"A start is an RFC 3339 instant with its zone, an offset from 0:00 UTC, or first use; for a period in calendar units, it is a day, a time of day, or anniversary.",
		LimitOf("kind: fixed window", "rate: 10", "period: 1d", "-start: 2024-01-01", "+start: 2024-01-01T00:00:00Z"))
	BadMode = rule("bad-mode", "The mode is enforce, shadow, off or block.",
		LimitOf(Bucket, "-mode: dry-run", "+mode: shadow"))
	BadPenalty = rule("bad-penalty",
		"A penalty is a duration or a list of up to 8; a limit with one has no shards, lease or maxReserved, and one without a list has no forgive.",
		LimitOf(Bucket, "penalty: 15m", "-shards: 2"))
	BadWarn = rule("bad-warn",
		"warn has whole percentages from 1% to 100%, each larger than the one before, of a capacity that is not 0.",
		LimitOf(Bucket, "-warn: [0.8, 1.0]", "+warn: [80%, 100%]"))
	BadZone = rule("bad-zone", "A zone is a name of the IANA time zone database, or per key.",
		LimitOf("kind: fixed window", "rate: 10", "period: month", "-zone: Europe/Berlon", "+zone: Europe/Berlin"))
	NotForPeriod = rule("not-for-period", "A start fits the period, and only a period in calendar units has a zone.",
		LimitOf("kind: fixed window", "rate: 10", "period: month", "zone: UTC", "-start: monday", "+start: 15th"))
	BadOnError = rule("bad-on-error", "onError is closed, open or local.",
		LimitOf(Bucket, "-onError: allow", "+onError: open"))
	NothingCached = rule("nothing-cached",
		"A deny cache needs a capacity: with capacity 0 every request reserves, and denied reservations are not cached.",
		LimitOf(Bucket, "-capacity: 0", "+capacity: 1", "denyCache: 1s"))
	BadLease = rule("bad-lease",
		"A lease has at most capacity tokens; windows that start at first use have no lease, because a process cannot compute when they end.",
		LimitOf(Bucket, "-lease: {tokens: 20, for: 200ms}", "+lease: {tokens: 10, for: 200ms}"))
	BadOverrides = rule("bad-overrides",
		"The most that overrides can give is at least what the limit gives, and they give only numbers that the limit has.",
		LimitOf(Bucket, "-overrides: {rate: 5}", "+overrides: {rate: 50}"))
	BadExceptions = rule("bad-exceptions",
		"An exception names each part of the key, which is not hashed, with a reason and either a plan, or numbers that the limit can have, or a mode. Callers of the limit give no numbers.",
		LimitOf(Bucket, "key: {userID: int64}", "exceptions:", "  -- {userID: 7, reason: migration}",
			"  +- {userID: 7, rate: 500, reason: migration}"))
	BadPriorities = rule("bad-priorities",
		"Each class of requests leaves 0 to 99 % of the capacity, and the first among them none; a limit with priorities has no lease and no penalty, and is neither precise nor in flight.",
		LimitOf(Bucket, "-priorities: {batch: 30%}", "+priorities: {interactive: 0%, batch: 30%}"))
	BadPrices = rule("bad-prices",
		"Prices are of a limit with a capacity that is not in flight. Each has a camelCase name of its own, is more than 0, and has at most 6 digits after the point.",
		LimitOf(Bucket, "-prices: {input: 0.0000003, output: 0.0000015}", "+prices: {input: 0.3, output: 1.5}"))
	BadDurability = rule("bad-durability", "The durability is relaxed or full.",
		LimitOf(Bucket, "-durability: async", "+durability: relaxed"))
	BadDoc = rule("bad-doc", "The doc has no line that Go reads as a build constraint, and no control characters.",
		LimitOf(Bucket, "-doc: +build ignore", "+doc: is for builds"))
	BadKeyPart = rule("bad-key-part", "The name of each part of a key is a valid Go parameter.",
		LimitOf(Bucket, "-key: {type: string}", "+key: {messageType: string}"))
	BadKeyType = rule("bad-key-type", "The type of each part of a key is one that keys support.",
		LimitOf(Bucket, "-key: {userID: int32}", "+key: {userID: int64}"))
	TooManyKeyParts = rule("too-many-key-parts", "A key has at most 8 parts.",
		LimitOf(Bucket, "-key: {a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int, i: int}",
			"+key: {a: int, b: int}"))
	UnknownLimit = rule("unknown-limit", "A group names limits of the file.",
		Valid+"groups:\n  -post: {takes: [sendMesage]}\n  +post: {takes: [sendMessage]}\n")
	EmptyGroup = rule("empty-group", "A group takes from at least one limit.",
		Valid+"groups:\n  -post: {takes: []}\n  +post: {takes: [sendMessage]}\n")
	UnboundKeyPart = rule("unbound-key-part", "A group gives each part of a limit's key a parameter, and no others.",
		LimitOf(Bucket, "key: {userID: int64}")+
			"groups:\n  -post: {takes: {sendMessage: {user: author}}}\n  +post: {takes: {sendMessage: {userID: author}}}\n")
	ParameterType = rule("parameter-type",
		"A parameter of a group has one type, and is a part of keys or a number of tokens, but not both.",
		LimitOf(Bucket, "key: {userID: int64}")+
			"groups:\n  -post: {takes: {sendMessage: {userID: user, n: user}}}\n  +post: {takes: {sendMessage: {userID: user, n: messages}}}\n")
	CannotPass = rule("cannot-pass",
		"A group can pass: no number of tokens is more than a limit can ever have, and no limit with capacity 0 is checked.",
		LimitOf(Bucket, "maxReserved: 0")+
			"groups:\n  -post: {takes: {sendMessage: {n: 11}}}\n  +post: {takes: {sendMessage: {n: 10}}}\n")
	TakenAndChecked = rule("taken-and-checked",
		"A group does not check a key that it takes from, because a take checks too.",
		Valid+"groups:\n  -post: {takes: [sendMessage], checks: [sendMessage]}\n  +post: {takes: [sendMessage]}\n")
)
