package spec

import (
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
)

// Change is one difference between two files: a fact, without a judgement.
type Change struct {
	// Kind is the way in which the files differ, one of [ChangeKinds].
	Kind *ChangeKind
	// Limit is the name of the limit, the new one if it was renamed; "" for a change of the file itself.
	Limit string
	// Group is the name of the group; "" for a change of a limit or of the file itself.
	Group string
	// Plan is the plan for which the limit changed, by its new name if it was renamed; "" for all plans.
	Plan string
	// Field is the field with another value; "" if the limit or group was added, removed or renamed.
	Field string
	// Old and New are the sides of the change.
	Old, New Side
}

// Side is one side of a [Change].
type Side struct {
	// Limit is the limit in that file; nil if the file lacks it.
	Limit *Limit
	// Group is the group in that file; nil if the file lacks it, or the change is not of a group.
	Group *Group
	// File is that file; nil if it lacks the limit or the group.
	File *File
	// Value is the effective value of the field in the syntax of limits.yaml; "" if it has no value. If the limit was
	// added, removed or renamed, it is the limit's name.
	Value string
	// Given reports whether the file gives the value. Otherwise it is a default.
	Given bool
	// Pos is the place of the value; if it is not given, of the limit's name or of the file's first rune. It is zero on
	// the side that lacks the limit.
	Pos diag.Pos
}

// ChangeKind is a way in which two files can differ.
type ChangeKind struct {
	// ID is the name: "capacity-changed". An id never changes its meaning.
	ID string
	// Summary describes the change and its main consequence in one sentence.
	Summary string
	// Old and New are two files with exactly this difference.
	Old, New string
}

// changeKinds are the kinds below, in their order.
var changeKinds []*ChangeKind

// ChangeKinds returns every kind of change, in the order in which a diff reports those of one limit.
func ChangeKinds() []*ChangeKind { return slices.Clone(changeKinds) }

// ChangeIDs returns the ids of [ChangeKinds].
func ChangeIDs() []string {
	return words.Of(changeKinds, func(k *ChangeKind) string { return k.ID })
}

// changeKind adds a kind of change to the list, so that no field can have one that the list lacks. See [Versions] for the example.
func changeKind(id, summary, example string) *ChangeKind {
	old, new := Versions(example)
	k := &ChangeKind{ID: id, Summary: summary, Old: old, New: new}
	changeKinds = append(changeKinds, k)
	return k
}

// The kinds of changes, in the order of [ChangeKinds]. Each is described by its Summary.
var (
	PackageChanged = changeKind("package-changed",
		"The generated package has another name, so its importers must change.",
		"-package: limits\n+package: quotas\n"+Valid)
	PlansChanged = changeKind("plans-changed",
		"The file has other plans, or has them in another order: constants of the generated code appear, disappear or get other numbers.",
		"-plans: [free, pro]\n+plans: [free, team, pro]\n"+Valid)
	PlanRenamed = changeKind("plan-renamed",
		"A plan was removed and another one with the same numbers added, so it was probably renamed. Counts are stored by key, and are kept.",
		replanned("[free, pro]", "[free, team]", "-rate: {free: 10, pro: 60}", "+rate: {free: 10, team: 60}"))
	LimitAdded = changeKind("limit-added",
		"There is a limit with a new name. It has no effect until its method is called.",
		Valid+"  +signUp: {kind: fixed window, rate: 100, period: 1h}\n")
	LimitRemoved = changeKind("limit-removed",
		"A limit was removed: calls of its method no longer compile, and its rows stay in the database.",
		Valid+"  -signUp: {kind: fixed window, rate: 100, period: 1h}\n")
	LimitRenamed = changeKind("limit-renamed",
		"A limit was removed and a similar one added, so it was probably renamed; counts are stored by name and start over.",
		Renamed("sendMessage", "postMessage"))
	PlanParameterChanged = changeKind("plan-parameter-changed",
		"The numbers of the limit depend on the plan, or no longer do: its method has the plan as its last parameter, or no longer has it.",
		Planned("-rate: 10", "+rate: {free: 10, pro: 10}"))
	NumbersParameterChanged = changeKind("numbers-parameter-changed",
		"Callers give other numbers of the limit, or no longer give any: its method has a parameter for them, whose struct has a field for each.",
		LimitOf("kind: token bucket", "rate: {at most: 10}", "period: 1m", "+capacity: {at most: 10}"))
	PlanAdded = changeKind("plan-added",
		"The limit has numbers for a new plan. They have no effect until a call passes the plan.",
		replanned("[free, pro]", "[free, team, pro]", "-rate: {free: 10, pro: 60}", "+rate: {free: 10, team: 30, pro: 60}"))
	PlanRemoved = changeKind("plan-removed",
		"The limit has no numbers for a plan that it had. The counts of its keys are kept, and apply to their next plan.",
		replanned("[free, team, pro]", "[free, pro]", "-rate: {free: 10, team: 30, pro: 60}", "+rate: {free: 10, pro: 60}"))
	DocChanged = changeKind("doc-changed", "The doc has another text. Nothing else changes.",
		LimitOf("-doc: bounds posts.", "+doc: bounds how fast one user can post.", Bucket))
	KeyChanged = changeKind("key-changed",
		"Requests are counted per other things, or the parameters of the method have other types or names.",
		LimitOf("-key: {userID: int64}", "+key: {teamID: int64, userID: int64}", Bucket))
	KindChanged = changeKind("kind-changed",
		"Tokens are granted in another way, and the stored state is read in another way.",
		LimitOf("-kind: token bucket", "+kind: fixed window", "rate: 10", "period: 1m"))
	RateChanged = changeKind("rate-changed",
		"The rate or the period has changed, and with it how many tokens are granted in the long run, or how many at a time.",
		LimitOf("kind: token bucket", "rate: 10", "-period: 1m", "+period: 30s"))
	CapacityChanged = changeKind("capacity-changed",
		"More or fewer tokens can accumulate and be taken at once. A capacity that is not given is the rate.",
		LimitOf(Bucket, "+capacity: 20"))
	HoldChanged = changeKind("hold-changed",
		"A slot that is neither renewed nor released is free after another time.",
		LimitOf("kind: in flight", "capacity: 5", "-hold: 2m", "+hold: 30s"))
	MaxReservedChanged = changeKind("max-reserved-changed", "More or fewer tokens can be reserved ahead of their time.",
		LimitOf(Bucket, "+maxReserved: 20"))
	StartChanged = changeKind("start-changed", "Windows begin at other times.",
		LimitOf("kind: fixed window", "rate: 10", "period: 1d", "-start: 0s", "+start: 8h"))
	ZoneChanged = changeKind("zone-changed",
		"Calendar windows begin at other instants, by the clocks of another time zone.",
		LimitOf("kind: fixed window", "rate: 10", "period: month", "-zone: UTC", "+zone: Europe/Berlin"))
	PreciseChanged = changeKind("precise-changed",
		"A sliding window becomes exact, or an approximation again, and its counts are stored in another way.",
		LimitOf("kind: sliding window", "rate: 10", "period: 1m", "+precise: true"))
	ShardsChanged = changeKind("shards-changed",
		"A count is split into more or fewer rows: new rows begin full, and removed ones are no longer read.",
		LimitOf(Bucket, "-shards: 2", "+shards: 5"))
	ModeChanged = changeKind("mode-changed", "The limit denies requests where it let all pass, or the other way around.",
		LimitOf(Bucket, "+mode: shadow"))
	PenaltyChanged = changeKind("penalty-changed",
		"A key is denied for a longer or a shorter time after a denial, or no longer is.",
		LimitOf(Bucket, "+penalty: 15m"))
	TimeoutChanged = changeKind("timeout-changed",
		"A decision may take more or less time before the store is treated as failed.",
		LimitOf(Bucket, "-timeout: 1s", "+timeout: 100ms"))
	OnErrorChanged = changeKind("on-error-changed", "The decision if the store fails has changed.",
		LimitOf(Bucket, "+onError: open"))
	JitterChanged = changeKind("jitter-changed", "Clients are told to retry at more or at less different times.",
		LimitOf(Bucket, "+jitter: 10s"))
	DenyCacheChanged = changeKind("deny-cache-changed",
		"A process repeats a denial from its memory for a longer or a shorter time.",
		LimitOf(Bucket, "+denyCache: 1s"))
	LeaseChanged = changeKind("lease-changed",
		"Processes take blocks of another size or for another time, or start or stop taking blocks.",
		LimitOf(Bucket, "+lease: {tokens: 5, for: 200ms}"))
	DurabilityChanged = changeKind("durability-changed",
		"A crash of the database's machine may lose the most recent counts, or no longer can.",
		LimitOf(Bucket, "+durability: relaxed"))
	OverridesChanged = changeKind("overrides-changed",
		"Operators can give single keys more or less while the program runs, or can block keys, or no longer can.",
		LimitOf(Bucket, "+overrides: {rate: 50}"))
	GoNameChanged = changeKind("go-name-changed", "The method has another name, so its callers must change.",
		LimitOf(Bucket, "+goName: Post"))
	GroupAdded = changeKind("group-added", "There is a new group. It has no effect until its method is called.",
		TwoLimits+Marked("+", postGroup))
	GroupRemoved = changeKind("group-removed",
		"A group was removed: calls of its method no longer compile. The limits and their counts stay.",
		TwoLimits+Marked("-", postGroup))
	GroupTakesChanged = changeKind("group-takes-changed",
		"Callers of the group take from other limits, another number of tokens, or by other parameters.",
		TwoLimits+"groups:\n  post:\n    -takes: [sendMessage, signUp]\n    +takes: {sendMessage: {n: 2}, signUp: {}}\n")
	GroupChecksChanged = changeKind("group-checks-changed",
		"Callers of the group must find a token of other limits, which give none up.",
		TwoLimits+"groups:\n  post:\n    takes: [sendMessage]\n    +checks: [signUp]\n")
	GroupMethodChanged = changeKind("group-method-changed",
		"A limit of the group has changed so that callers of the group pass other arguments, such as the plan, or have other methods.",
		Planned("-rate: 10", "+rate: {free: 10, pro: 10}")+"groups:\n  post:\n    takes: [sendMessage]\n")
	GroupGoNameChanged = changeKind("group-go-name-changed",
		"The method of a group and its types have other names, so the callers must change.",
		TwoLimits+postGroup+"    +goName: Publish\n")
)
