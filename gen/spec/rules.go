package spec

import "strings"

var rules = []Rule{
	{
		ID:      fileTooLarge,
		Summary: "A file is at most 4 MiB.",
	},
	{
		ID:      invalidUTF8,
		Summary: "A file is UTF-8 text.",
		Wrong:   valid + "# caf\xe9\n",
		Right:   valid + "# café\n",
	},
	{
		ID:      controlCharacter,
		Summary: "A file has no control characters but tabs and newlines, no line separators that only some programs know, and nothing that reorders a line.",
		Wrong:   valid + "# a\x00b\n",
		Right:   valid + "# a b\n",
	},
	{
		ID:      emptyFile,
		Summary: "A file says something.",
		Wrong:   "# rate limits\n",
		Right:   valid,
	},
	{
		ID:      syntax,
		Summary: "A file is YAML.",
		Wrong:   limitOf("kind: token bucket", " rate: 10", "period: 1m"),
		Right:   valid,
	},
	{
		ID:      secondDocument,
		Summary: "A file is one document, so that no part of it is passed over.",
		Wrong:   valid + "---\n" + valid,
		Right:   valid,
	},
	{
		ID:      anchor,
		Summary: "There are no anchors and aliases: a change of an anchor changes limits whose lines a reviewer does not see.",
		Wrong:   limitOf("kind: token bucket", "rate: &most 10", "period: 1m", "capacity: *most"),
		Right:   limitOf(bucket, "capacity: 10"),
	},
	{
		ID:      mergeKey,
		Summary: "There are no merge keys, for the reason that there are no anchors.",
		Wrong:   limitOf("<<: {rate: 10}", "kind: token bucket", "period: 1m"),
		Right:   valid,
	},
	{
		ID:      tag,
		Summary: "There are no tags: a value is what it looks like.",
		Wrong:   limitOf("kind: token bucket", "rate: !!int 10", "period: 1m"),
		Right:   valid,
	},
	{
		ID:      nameNotText,
		Summary: "The names in a map are text.",
		Wrong:   "version: 1\nlimits:\n  404: {kind: token bucket, rate: 10, period: 1m}\n",
		Right:   "version: 1\nlimits:\n  notFound: {kind: token bucket, rate: 10, period: 1m}\n",
	},
	{
		ID:      duplicate,
		Summary: "A name stands once in a map.",
		Wrong:   limitOf("kind: token bucket", "rate: 10", "rate: 20", "period: 1m"),
		Right:   valid,
	},
	{
		ID:      unknownField,
		Summary: "A map has only the fields that are documented.",
		Wrong:   limitOf(bucket, "burst: 20"),
		Right:   limitOf(bucket, "capacity: 20"),
	},
	{
		ID:      missingField,
		Summary: "A file has version and limits; a limit has kind, rate and period; a lease has tokens and for.",
		Wrong:   limitOf("kind: token bucket", "rate: 10"),
		Right:   valid,
	},
	{
		ID:      wrongType,
		Summary: "A value is of the sort that its field takes: text, a map and so on.",
		Wrong:   limitOf(bucket, "doc: [a, b]"),
		Right:   limitOf(bucket, "doc: a, b"),
	},
	{
		ID:      badVersion,
		Summary: "The version is 1.",
		Wrong:   strings.Replace(valid, "version: 1", "version: 2", 1),
		Right:   valid,
	},
	{
		ID:      badPackage,
		Summary: "The package is a Go identifier that a package can have.",
		Wrong:   "package: type\n" + valid,
		Right:   "package: limits\n" + valid,
	},
	{
		ID:      noLimits,
		Summary: "There is at least one limit.",
		Wrong:   "version: 1\nlimits:\n",
		Right:   valid,
	},
	{
		ID:      notIndented,
		Summary: "The fields of a limit are indented below its name.",
		Wrong:   strings.ReplaceAll(valid, "\n    ", "\n  "),
		Right:   valid,
	},
	{
		ID:      badName,
		Summary: "The name of a limit is camelCase: a small letter, then letters and digits.",
		Wrong:   strings.Replace(valid, "sendMessage", "send-message", 1),
		Right:   valid,
	},
	{
		ID:      nameTooLong,
		Summary: "The name of a limit has at most 255 bytes, because it is stored with every count.",
	},
	{
		ID:      reservedName,
		Summary: "No limit takes the Go name of a method that the generated code has besides, or that go vet knows from the standard library.",
		Wrong:   strings.Replace(valid, "sendMessage", "all", 1),
		Right:   strings.Replace(valid, "sendMessage", "everything", 1),
	},
	{
		ID:      sameGoName,
		Summary: "No two limits become the same Go method.",
		Wrong:   valid + "  sendMail: {goName: SendMessage, kind: token bucket, rate: 10, period: 1m}\n",
		Right:   valid + "  sendMail: {kind: token bucket, rate: 10, period: 1m}\n",
	},
	{
		ID:      badGoName,
		Summary: "A goName is an exported Go identifier.",
		Wrong:   limitOf(bucket, "goName: sendIt"),
		Right:   limitOf(bucket, "goName: SendIt"),
	},
	{
		ID:      badKind,
		Summary: "The kind is token bucket, fixed window or sliding window.",
		Wrong:   limitOf("kind: leaky bucket", "rate: 10", "period: 1m"),
		Right:   valid,
	},
	{
		ID:      notForKind,
		Summary: "A limit has only the fields that mean something for its kind.",
		Wrong:   limitOf(bucket, "start: 8h"),
		Right:   limitOf("kind: fixed window", "rate: 10", "period: 1m", "start: 8h"),
	},
	{
		ID:      notWhole,
		Summary: "Tokens and shards are counted in whole numbers.",
		Wrong:   limitOf("kind: token bucket", "rate: 1.5", "period: 1m"),
		Right:   limitOf("kind: token bucket", "rate: 3", "period: 2m"),
	},
	{
		ID:      leadingZero,
		Summary: "A number has no leading zero, which would make it octal in YAML.",
		Wrong:   limitOf("kind: token bucket", "rate: 010", "period: 1m"),
		Right:   valid,
	},
	{
		ID:      outOfRange,
		Summary: "A number or a duration is within the bounds of its field.",
		Wrong:   limitOf("kind: token bucket", "rate: 0", "period: 1m"),
		Right:   valid,
	},
	{
		ID:      nothingPasses,
		Summary: "A limit lets something pass.",
		Wrong:   limitOf(bucket, "capacity: 0", "maxReserved: 0"),
		Right:   limitOf(bucket, "capacity: 0", "maxReserved: 10"),
	},
	{
		ID:      tooManyShards,
		Summary: "Every shard gets at least one token of rate, capacity and maxReserved; windows that start at first use have no shards.",
		Wrong:   limitOf(bucket, "shards: 20"),
		Right:   limitOf(bucket, "shards: 5"),
	},
	{
		ID:      badDuration,
		Summary: "A duration is numbers with units, a whole number of nanoseconds in all; months and years have no fixed length.",
		Wrong:   limitOf("kind: token bucket", "rate: 10", "period: 60"),
		Right:   limitOf("kind: token bucket", "rate: 10", "period: 60s"),
	},
	{
		ID:      badStart,
		Summary: "A start is an RFC 3339 instant with its zone, an offset from 0:00 UTC, or first use.",
		Wrong:   limitOf("kind: fixed window", "rate: 10", "period: 1d", "start: 2024-01-01"),
		Right:   limitOf("kind: fixed window", "rate: 10", "period: 1d", "start: 2024-01-01T00:00:00Z"),
	},
	{
		ID:      badOnError,
		Summary: "What is decided when the store fails is closed or open.",
		Wrong:   limitOf(bucket, "onError: allow"),
		Right:   limitOf(bucket, "onError: open"),
	},
	{
		ID:      nothingCached,
		Summary: "Denials are remembered of what is taken at once. With capacity 0, everything is reserved.",
		Wrong:   limitOf(bucket, "capacity: 0", "denyCache: 1s"),
		Right:   limitOf(bucket, "capacity: 1", "denyCache: 1s"),
	},
	{
		ID:      badLease,
		Summary: "A lease has no more tokens than can be taken at once; windows that start at first use have no lease, for nobody knows when they end.",
		Wrong:   limitOf(bucket, "lease: {tokens: 20, for: 200ms}"),
		Right:   limitOf(bucket, "lease: {tokens: 10, for: 200ms}"),
	},
	{
		ID:      badDurability,
		Summary: "A decision waits for the disk, or it does not: durability is relaxed or full.",
		Wrong:   limitOf(bucket, "durability: async"),
		Right:   limitOf(bucket, "durability: relaxed"),
	},
	{
		ID:      badDoc,
		Summary: "The doc has no line that would be an order to the Go compiler, and no control characters.",
		Wrong:   limitOf(bucket, "doc: +build ignore"),
		Right:   limitOf(bucket, "doc: is for builds"),
	},
	{
		ID:      badKeyPart,
		Summary: "A part of a key can be the name of a Go parameter.",
		Wrong:   limitOf(bucket, "key: {type: string}"),
		Right:   limitOf(bucket, "key: {messageType: string}"),
	},
	{
		ID:      badKeyType,
		Summary: "A part of a key has one of the types that can be written into a key.",
		Wrong:   limitOf(bucket, "key: {userID: int32}"),
		Right:   limitOf(bucket, "key: {userID: int64}"),
	},
	{
		ID:      tooManyKeyParts,
		Summary: "A key has at most 8 parts.",
		Wrong:   limitOf(bucket, "key: {a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int, i: int}"),
		Right:   limitOf(bucket, "key: {a: int, b: int}"),
	},
}

// bucket are the lines that every limit has.
const bucket = "kind: token bucket\n    rate: 10\n    period: 1m"

// limitOf returns a limits.yaml of one limit with the given lines.
func limitOf(lines ...string) string {
	return "version: 1\nlimits:\n  sendMessage:\n    " + strings.Join(lines, "\n    ") + "\n"
}

var valid = limitOf(bucket)
