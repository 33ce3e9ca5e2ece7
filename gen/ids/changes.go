package ids

// The ways in which two files can differ, in the order of [Changes]. Each is described by its Summary.
var (
	PackageChanged = change("package-changed",
		"The generated package has another name, so its importers must change.",
		"-package: limits\n+package: quotas\n"+Valid)
	PlansChanged = change("plans-changed",
		"The file has other plans, or has them in another order: constants of the generated code appear, disappear or get other numbers.",
		"-plans: [free, pro]\n+plans: [free, team, pro]\n"+Valid)
	PlanRenamed = change("plan-renamed",
		"A plan was removed and another one with the same numbers added, so it was probably renamed. Counts are stored by key, and are kept.",
		replanned("[free, pro]", "[free, team]", "-rate: {free: 10, pro: 60}", "+rate: {free: 10, team: 60}"))
	LimitAdded = change("limit-added",
		"There is a limit with a new name. It has no effect until its method is called.",
		Valid+"  +signUp: {kind: fixed window, rate: 100, period: 1h}\n")
	LimitRemoved = change("limit-removed",
		"A limit was removed: calls of its method no longer compile, and its rows stay in the database.",
		Valid+"  -signUp: {kind: fixed window, rate: 100, period: 1h}\n")
	LimitRenamed = change("limit-renamed",
		"A limit was removed and a similar one added, so it was probably renamed; counts are stored by name and start over.",
		renamed("sendMessage", "postMessage"))
	PlanParameterChanged = change("plan-parameter-changed",
		"The numbers of the limit depend on the plan, or no longer do: its method has the plan as its last parameter, or no longer has it.",
		Planned("-rate: 10", "+rate: {free: 10, pro: 10}"))
	NumbersParameterChanged = change("numbers-parameter-changed",
		"Callers give other numbers of the limit, or no longer give any: its method has a parameter for them, whose struct has a field for each.",
		LimitOf("kind: token bucket", "rate: {at most: 10}", "period: 1m", "+capacity: {at most: 10}"))
	PlanAdded = change("plan-added",
		"The limit has numbers for a new plan. They have no effect until a call passes the plan.",
		replanned("[free, pro]", "[free, team, pro]", "-rate: {free: 10, pro: 60}", "+rate: {free: 10, team: 30, pro: 60}"))
	PlanRemoved = change("plan-removed",
		"The limit has no numbers for a plan that it had. The counts of its keys are kept, and apply to their next plan.",
		replanned("[free, team, pro]", "[free, pro]", "-rate: {free: 10, team: 30, pro: 60}", "+rate: {free: 10, pro: 60}"))
	DocChanged = change("doc-changed", "The doc has another text. Nothing else changes.",
		LimitOf("-doc: bounds posts.", "+doc: bounds how fast one user can post.", Bucket))
	KeyChanged = change("key-changed",
		"Requests are counted per other things, or the parameters of the method have other types or names.",
		LimitOf("-key: {userID: int64}", "+key: {teamID: int64, userID: int64}", Bucket))
	KindChanged = change("kind-changed",
		"Tokens are granted in another way, and the stored state is read in another way.",
		LimitOf("-kind: token bucket", "+kind: fixed window", "rate: 10", "period: 1m"))
	RateChanged = change("rate-changed",
		"The rate or the period has changed, and with it how many tokens are granted in the long run, or how many at a time; or an unlimited rate is counted, or no longer is.",
		LimitOf("kind: token bucket", "rate: 10", "-period: 1m", "+period: 30s"))
	CapacityChanged = change("capacity-changed",
		"More or fewer tokens can accumulate and be taken at once. A capacity that is not given is the rate.",
		LimitOf(Bucket, "+capacity: 20"))
	HoldChanged = change("hold-changed",
		"A slot that is neither renewed nor released is free after another time.",
		LimitOf("kind: in flight", "capacity: 5", "-hold: 2m", "+hold: 30s"))
	MaxReservedChanged = change("max-reserved-changed", "More or fewer tokens can be reserved ahead of their time.",
		LimitOf(Bucket, "+maxReserved: 20"))
	StartChanged = change("start-changed", "Windows begin at other times.",
		LimitOf("kind: fixed window", "rate: 10", "period: 1d", "-start: 0s", "+start: 8h"))
	ZoneChanged = change("zone-changed",
		"Calendar windows begin at other instants, by the clocks of another time zone.",
		LimitOf("kind: fixed window", "rate: 10", "period: month", "-zone: UTC", "+zone: Europe/Berlin"))
	PreciseChanged = change("precise-changed",
		"A sliding window becomes exact, or an approximation again, and its counts are stored in another way.",
		LimitOf("kind: sliding window", "rate: 10", "period: 1m", "+precise: true"))
	ShardsChanged = change("shards-changed",
		"A count is split into more or fewer rows: new rows begin full, and removed ones are no longer read.",
		LimitOf(Bucket, "-shards: 2", "+shards: 5"))
	ModeChanged = change("mode-changed", "The limit denies requests where it let all pass, or the other way around.",
		LimitOf(Bucket, "+mode: shadow"))
	PenaltyChanged = change("penalty-changed",
		"A key is denied for a longer or a shorter time after a denial, or no longer is.",
		LimitOf(Bucket, "+penalty: 15m"))
	TimeoutChanged = change("timeout-changed",
		"A decision may take more or less time before the store is treated as failed.",
		LimitOf(Bucket, "-timeout: 1s", "+timeout: 100ms"))
	OnErrorChanged = change("on-error-changed", "The decision if the store fails has changed.",
		LimitOf(Bucket, "+onError: open"))
	JitterChanged = change("jitter-changed", "Clients are told to retry at more or at less different times.",
		LimitOf(Bucket, "+jitter: 10s"))
	DenyCacheChanged = change("deny-cache-changed",
		"A process repeats a denial from its memory for a longer or a shorter time.",
		LimitOf(Bucket, "+denyCache: 1s"))
	LeaseChanged = change("lease-changed",
		"Processes take blocks of another size or for another time, or start or stop taking blocks.",
		LimitOf(Bucket, "+lease: {tokens: 5, for: 200ms}"))
	DurabilityChanged = change("durability-changed",
		"A crash of the database's machine may lose the most recent counts, or no longer can.",
		LimitOf(Bucket, "+durability: relaxed"))
	PricesChanged = change("prices-changed",
		"A request takes another number of tokens for what it uses, or its calls pass a usage in place of a count, or no longer do.",
		LimitOf(Bucket, "-prices: {input: 3, output: 15}", "+prices: {input: 2.5, output: 10}"))
	OverridesChanged = change("overrides-changed",
		"Operators can give single keys more or less while the program runs, or can block keys, or no longer can.",
		LimitOf(Bucket, "+overrides: {rate: 50}"))
	ExceptionsChanged = change("exceptions-changed",
		"A key has numbers of its own, other ones than before, or the numbers of all keys again.",
		LimitOf(Bucket, "key: {userID: int64}", "+exceptions: [{userID: 7, rate: 500, reason: migration}]"))
	PrioritiesChanged = change("priorities-changed",
		"A class of requests leaves more or less of the capacity to the others, or calls pass no such class any more.",
		LimitOf(Bucket, "-priorities: {interactive: 0%, batch: 30%}", "+priorities: {interactive: 0%, batch: 50%}"))
	GoNameChanged = change("go-name-changed", "The method has another name, so its callers must change.",
		LimitOf(Bucket, "+goName: Post"))
	GroupAdded = change("group-added", "There is a new group. It has no effect until its method is called.",
		twoLimits+marked("+", postGroup))
	GroupRemoved = change("group-removed",
		"A group was removed: calls of its method no longer compile. The limits and their counts stay.",
		twoLimits+marked("-", postGroup))
	GroupTakesChanged = change("group-takes-changed",
		"Callers of the group take from other limits, another number of tokens, or by other parameters.",
		twoLimits+"groups:\n  post:\n    -takes: [sendMessage, signUp]\n    +takes: {sendMessage: {n: 2}, signUp: {}}\n")
	GroupChecksChanged = change("group-checks-changed",
		"Callers of the group must find a token of other limits, which give none up.",
		twoLimits+"groups:\n  post:\n    takes: [sendMessage]\n    +checks: [signUp]\n")
	GroupMethodChanged = change("group-method-changed",
		"A limit of the group has changed so that callers of the group pass other arguments, such as the plan, or have other methods.",
		Planned("-rate: 10", "+rate: {free: 10, pro: 10}")+"groups:\n  post:\n    takes: [sendMessage]\n")
	GroupGoNameChanged = change("group-go-name-changed",
		"The method of a group and its types have other names, so the callers must change.",
		twoLimits+postGroup+"    +goName: Publish\n")
)
