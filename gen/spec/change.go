package spec

import (
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
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
	// File is that file, if the change is of the file itself.
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

// changeKind adds a kind of change to the list, so that no field can have one that the list lacks.
func changeKind(k ChangeKind) *ChangeKind {
	changeKinds = append(changeKinds, &k)
	return &k
}

var (
	PackageChanged = changeKind(ChangeKind{
		ID:      "package-changed",
		Summary: "The generated package has another name, so its importers must change.",
		Old:     "package: limits\n" + Valid,
		New:     "package: quotas\n" + Valid,
	})
	PlansChanged = changeKind(ChangeKind{
		ID:      "plans-changed",
		Summary: "The file has other plans, or has them in another order: constants of the generated code appear, disappear or get other numbers.",
		Old:     "plans: [free, pro]\n" + Valid,
		New:     "plans: [free, team, pro]\n" + Valid,
	})
	PlanRenamed = changeKind(ChangeKind{
		ID:      "plan-renamed",
		Summary: "A plan was removed and another one with the same numbers added, so it was probably renamed. Counts are stored by key, and are kept.",
		Old:     Planned("rate: {free: 10, pro: 60}"),
		New:     strings.ReplaceAll(Planned("rate: {free: 10, pro: 60}"), "pro", "team"),
	})
	LimitAdded = changeKind(ChangeKind{
		ID:      "limit-added",
		Summary: "There is a limit with a new name. It has no effect until its method is called.",
		Old:     Valid,
		New:     Valid + "  signUp: {kind: fixed window, rate: 100, period: 1h}\n",
	})
	LimitRemoved = changeKind(ChangeKind{
		ID:      "limit-removed",
		Summary: "A limit was removed: calls of its method no longer compile, and its rows stay in the database.",
		Old:     Valid + "  signUp: {kind: fixed window, rate: 100, period: 1h}\n",
		New:     Valid,
	})
	LimitRenamed = changeKind(ChangeKind{
		ID:      "limit-renamed",
		Summary: "A limit was removed and a similar one added, so it was probably renamed; counts are stored by name and start over.",
		Old:     Valid,
		New:     strings.Replace(Valid, "sendMessage", "postMessage", 1),
	})
	PlanParameterChanged = changeKind(ChangeKind{
		ID:      "plan-parameter-changed",
		Summary: "The numbers of the limit depend on the plan, or no longer do: its method has the plan as its last parameter, or no longer has it.",
		Old:     Planned("rate: 10"),
		New:     Planned("rate: {free: 10, pro: 10}"),
	})
	PlanAdded = changeKind(ChangeKind{
		ID:      "plan-added",
		Summary: "The limit has numbers for a new plan. They have no effect until a call passes the plan.",
		Old:     Planned("rate: {free: 10, pro: 60}"),
		New:     withTeam(Planned("rate: {free: 10, team: 30, pro: 60}")),
	})
	PlanRemoved = changeKind(ChangeKind{
		ID:      "plan-removed",
		Summary: "The limit has no numbers for a plan that it had. The counts of its keys are kept, and apply to their next plan.",
		Old:     withTeam(Planned("rate: {free: 10, team: 30, pro: 60}")),
		New:     Planned("rate: {free: 10, pro: 60}"),
	})
	DocChanged = changeKind(ChangeKind{
		ID:      "doc-changed",
		Summary: "The doc has another text. Nothing else changes.",
		Old:     LimitOf("doc: bounds posts.", Bucket),
		New:     LimitOf("doc: bounds how fast one user can post.", Bucket),
	})
	KeyChanged = changeKind(ChangeKind{
		ID:      "key-changed",
		Summary: "Requests are counted per other things, or the parameters of the method have other types or names.",
		Old:     LimitOf("key: {userID: int64}", Bucket),
		New:     LimitOf("key: {teamID: int64, userID: int64}", Bucket),
	})
	KindChanged = changeKind(ChangeKind{
		ID:      "kind-changed",
		Summary: "Tokens are granted in another way, and the stored state is read in another way.",
		Old:     Valid,
		New:     strings.Replace(Valid, "token bucket", "fixed window", 1),
	})
	RateChanged = changeKind(ChangeKind{
		ID:      "rate-changed",
		Summary: "The rate or the period has changed, and with it how many tokens are granted in the long run, or how many at a time.",
		Old:     Valid,
		New:     strings.Replace(Valid, "period: 1m", "period: 30s", 1),
	})
	CapacityChanged = changeKind(ChangeKind{
		ID:      "capacity-changed",
		Summary: "More or fewer tokens can accumulate and be taken at once. A capacity that is not given is the rate.",
		Old:     Valid,
		New:     LimitOf(Bucket, "capacity: 20"),
	})
	MaxReservedChanged = changeKind(ChangeKind{
		ID:      "max-reserved-changed",
		Summary: "More or fewer tokens can be reserved ahead of their time.",
		Old:     Valid,
		New:     LimitOf(Bucket, "maxReserved: 20"),
	})
	StartChanged = changeKind(ChangeKind{
		ID:      "start-changed",
		Summary: "Windows begin at other times.",
		Old:     LimitOf("kind: fixed window", "rate: 10", "period: 1d", "start: 0s"),
		New:     LimitOf("kind: fixed window", "rate: 10", "period: 1d", "start: 8h"),
	})
	ZoneChanged = changeKind(ChangeKind{
		ID:      "zone-changed",
		Summary: "Calendar windows begin at other instants, by the clocks of another time zone.",
		Old:     LimitOf("kind: fixed window", "rate: 10", "period: month", "zone: UTC"),
		New:     LimitOf("kind: fixed window", "rate: 10", "period: month", "zone: Europe/Berlin"),
	})
	PreciseChanged = changeKind(ChangeKind{
		ID:      "precise-changed",
		Summary: "A sliding window becomes exact, or an approximation again, and its counts are stored in another way.",
		Old:     LimitOf("kind: sliding window", "rate: 10", "period: 1m"),
		New:     LimitOf("kind: sliding window", "rate: 10", "period: 1m", "precise: true"),
	})
	ShardsChanged = changeKind(ChangeKind{
		ID:      "shards-changed",
		Summary: "A count is split into more or fewer rows: new rows begin full, and removed ones are no longer read.",
		Old:     LimitOf(Bucket, "shards: 2"),
		New:     LimitOf(Bucket, "shards: 5"),
	})
	ModeChanged = changeKind(ChangeKind{
		ID:      "mode-changed",
		Summary: "The limit denies requests where it let all pass, or the other way around.",
		Old:     Valid,
		New:     LimitOf(Bucket, "mode: shadow"),
	})
	TimeoutChanged = changeKind(ChangeKind{
		ID:      "timeout-changed",
		Summary: "A decision may take more or less time before the store is treated as failed.",
		Old:     LimitOf(Bucket, "timeout: 1s"),
		New:     LimitOf(Bucket, "timeout: 100ms"),
	})
	OnErrorChanged = changeKind(ChangeKind{
		ID:      "on-error-changed",
		Summary: "The decision if the store fails has changed.",
		Old:     Valid,
		New:     LimitOf(Bucket, "onError: open"),
	})
	JitterChanged = changeKind(ChangeKind{
		ID:      "jitter-changed",
		Summary: "Clients are told to retry at more or at less different times.",
		Old:     Valid,
		New:     LimitOf(Bucket, "jitter: 10s"),
	})
	DenyCacheChanged = changeKind(ChangeKind{
		ID:      "deny-cache-changed",
		Summary: "A process repeats a denial from its memory for a longer or a shorter time.",
		Old:     Valid,
		New:     LimitOf(Bucket, "denyCache: 1s"),
	})
	LeaseChanged = changeKind(ChangeKind{
		ID:      "lease-changed",
		Summary: "Processes take blocks of another size or for another time, or start or stop taking blocks.",
		Old:     Valid,
		New:     LimitOf(Bucket, "lease: {tokens: 5, for: 200ms}"),
	})
	DurabilityChanged = changeKind(ChangeKind{
		ID:      "durability-changed",
		Summary: "A crash of the database's machine may lose the most recent counts, or no longer can.",
		Old:     Valid,
		New:     LimitOf(Bucket, "durability: relaxed"),
	})
	OverridesChanged = changeKind(ChangeKind{
		ID:      "overrides-changed",
		Summary: "Operators can give single keys more or less while the program runs, or can block keys, or no longer can.",
		Old:     Valid,
		New:     LimitOf(Bucket, "overrides: {rate: 50}"),
	})
	GoNameChanged = changeKind(ChangeKind{
		ID:      "go-name-changed",
		Summary: "The method has another name, so its callers must change.",
		Old:     Valid,
		New:     LimitOf(Bucket, "goName: Post"),
	})
	GroupAdded = changeKind(ChangeKind{
		ID:      "group-added",
		Summary: "There is a new group. It has no effect until its method is called.",
		Old:     TwoLimits,
		New:     grouped,
	})
	GroupRemoved = changeKind(ChangeKind{
		ID:      "group-removed",
		Summary: "A group was removed: calls of its method no longer compile. The limits and their counts stay.",
		Old:     grouped,
		New:     TwoLimits,
	})
	GroupTakesChanged = changeKind(ChangeKind{
		ID:      "group-takes-changed",
		Summary: "Callers of the group take from other limits, another number of tokens, or by other parameters.",
		Old:     grouped,
		New:     TwoLimits + "groups:\n  post:\n    takes: {sendMessage: {n: 2}, signUp: {}}\n",
	})
	GroupChecksChanged = changeKind(ChangeKind{
		ID:      "group-checks-changed",
		Summary: "Callers of the group must find a token of other limits, which give none up.",
		Old:     TwoLimits + "groups:\n  post:\n    takes: [sendMessage]\n",
		New:     TwoLimits + "groups:\n  post:\n    takes: [sendMessage]\n    checks: [signUp]\n",
	})
	GroupMethodChanged = changeKind(ChangeKind{
		ID:      "group-method-changed",
		Summary: "A limit of the group has changed so that callers of the group pass other arguments, such as the plan, or have other methods.",
		Old:     Planned("rate: 10") + "groups:\n  post:\n    takes: [sendMessage]\n",
		New:     Planned("rate: {free: 10, pro: 10}") + "groups:\n  post:\n    takes: [sendMessage]\n",
	})
	GroupGoNameChanged = changeKind(ChangeKind{
		ID:      "group-go-name-changed",
		Summary: "The method of a group and its types have other names, so the callers must change.",
		Old:     grouped,
		New:     grouped + "    goName: Publish\n",
	})
)

// The parts of the example files.
const (
	// bucket are the fields that every limit has.
	Bucket = "kind: token bucket\n    rate: 10\n    period: 1m"
	// Valid is a file with one limit.
	Valid = "version: 1\nlimits:\n  sendMessage:\n    " + Bucket + "\n"
)

const (
	// TwoLimits is a file with two limits, and grouped has a group of both.
	TwoLimits = Valid + "  signUp: {kind: fixed window, rate: 100, period: 1h}\n"
	grouped   = TwoLimits + "groups:\n  post:\n    takes: [sendMessage, signUp]\n"
)

// LimitOf returns a file with one limit, which has the given lines.
func LimitOf(lines ...string) string {
	return "version: 1\nlimits:\n  sendMessage:\n    " + strings.Join(lines, "\n    ") + "\n"
}

// Planned returns a file with two plans and one limit, which has the given lines and a period.
func Planned(lines ...string) string {
	return strings.Replace(LimitOf(append(append([]string{"kind: token bucket"}, lines...), "period: 1m")...), "limits:", "plans: [free, pro]\nlimits:", 1)
}

// Windowed is planned with a fixed window.
func Windowed(lines ...string) string {
	return strings.Replace(Planned(lines...), "token bucket", "fixed window", 1)
}

// withTeam returns a file of planned with another plan.
func withTeam(file string) string {
	return strings.Replace(file, "[free, pro]", "[free, team, pro]", 1)
}

// At returns the side of a field, with its place if it is given.
func (s Side) At(pos diag.Pos, given bool) Side {
	if s.Given = given; given {
		s.Pos = pos
	}
	return s
}
