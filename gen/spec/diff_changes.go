package spec

import "strings"

var changeKinds = []ChangeKind{
	{
		ID:      packageChanged,
		Summary: "The generated package has another name, so what imports it must follow.",
		Old:     "package: limits\n" + valid,
		New:     "package: quotas\n" + valid,
	},
	{
		ID:      limitAdded,
		Summary: "There is a limit of a new name. It bounds nothing until it is called.",
		Old:     valid,
		New:     valid + "  signUp: {kind: fixed window, rate: 100, period: 1h}\n",
	},
	{
		ID:      limitRemoved,
		Summary: "A limit is gone: its calls no longer compile, nothing is bounded by it, and its rows are left behind.",
		Old:     valid + "  signUp: {kind: fixed window, rate: 100, period: 1h}\n",
		New:     valid,
	},
	{
		ID:      limitRenamed,
		Summary: "A limit is gone and one like it is new, so it was probably renamed; counts are kept by name and begin anew.",
		Old:     valid,
		New:     strings.Replace(valid, "sendMessage", "postMessage", 1),
	},
	{
		ID:      docChanged,
		Summary: "The doc is another text. Nothing else comes of it.",
		Old:     limitOf("doc: bounds posts.", bucket),
		New:     limitOf("doc: bounds how fast one user can post.", bucket),
	},
	{
		ID:      keyChanged,
		Summary: "Counts belong to other parties, or the parameters of the method have other types or names.",
		Old:     limitOf("key: {userID: int64}", bucket),
		New:     limitOf("key: {teamID: int64, userID: int64}", bucket),
	},
	{
		ID:      kindChanged,
		Summary: "Tokens are granted in another way, and what is stored is read in another way.",
		Old:     valid,
		New:     strings.Replace(valid, "token bucket", "fixed window", 1),
	},
	{
		ID:      rateChanged,
		Summary: "The rate or the period is another, and so is how many tokens are granted in the long run, or how many at a time.",
		Old:     valid,
		New:     strings.Replace(valid, "period: 1m", "period: 30s", 1),
	},
	{
		ID:      capacityChanged,
		Summary: "More or fewer tokens can pile up and be taken at once. A capacity that is not given follows the rate.",
		Old:     valid,
		New:     limitOf(bucket, "capacity: 20"),
	},
	{
		ID:      maxReservedChanged,
		Summary: "More or fewer tokens can be reserved ahead of their time.",
		Old:     valid,
		New:     limitOf(bucket, "maxReserved: 20"),
	},
	{
		ID:      startChanged,
		Summary: "Windows begin at other times.",
		Old:     limitOf("kind: fixed window", "rate: 10", "period: 1d", "start: 0s"),
		New:     limitOf("kind: fixed window", "rate: 10", "period: 1d", "start: 8h"),
	},
	{
		ID:      shardsChanged,
		Summary: "A count is split into more or fewer rows: new ones begin full, and those that are gone are not read.",
		Old:     limitOf(bucket, "shards: 2"),
		New:     limitOf(bucket, "shards: 5"),
	},
	{
		ID:      timeoutChanged,
		Summary: "A decision may take another time before the store counts as failed.",
		Old:     limitOf(bucket, "timeout: 1s"),
		New:     limitOf(bucket, "timeout: 100ms"),
	},
	{
		ID:      onErrorChanged,
		Summary: "Another thing is decided when the store fails.",
		Old:     valid,
		New:     limitOf(bucket, "onError: open"),
	},
	{
		ID:      denyCacheChanged,
		Summary: "A denial is answered from the memory of the process for a longer or a shorter time.",
		Old:     valid,
		New:     limitOf(bucket, "denyCache: 1s"),
	},
	{
		ID:      leaseChanged,
		Summary: "Processes take blocks of other sizes or for other times, or begin to, or cease.",
		Old:     valid,
		New:     limitOf(bucket, "lease: {tokens: 5, for: 200ms}"),
	},
	{
		ID:      durabilityChanged,
		Summary: "A crash of the database's machine may lose the counts of the last moments, or no longer.",
		Old:     valid,
		New:     limitOf(bucket, "durability: relaxed"),
	},
	{
		ID:      goNameChanged,
		Summary: "The method has another name, so its callers must follow.",
		Old:     valid,
		New:     limitOf(bucket, "goName: Post"),
	},
}
