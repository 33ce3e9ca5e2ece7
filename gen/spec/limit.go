package spec

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Limit is one rule of the file, with every default filled in. Its Policy is valid: only [NewLimit] sets it, and a file
// with a policy that is not valid has diagnostics and no limits.
type Limit struct {
	checked
	// Plans has the limit as it is for each plan, in the order of [File.Plans]: with a Policy and the Places of
	// its own. It is empty for a limit that is the same for all plans.
	Plans []*Limit
	// Plan is the name of the plan, for an element of Plans.
	Plan string
	// UnlimitedRate is set for a plan with the rate unlimited. The Policy is unlimited then, unless the mode is block.
	UnlimitedRate bool
	// Overrides has what the file gives as the most that overrides can give, 0 for numbers that it does not give; nil for a
	// limit without overrides. The effective numbers are in Policy.
	Overrides *runtime.OverrideBounds
	// Prices are the tokens that a request takes for each unit it uses, in the order of the file; none for a limit that is
	// passed counts.
	Prices runtime.Prices
	// Exceptions give single keys other numbers, in the order of the file.
	Exceptions []*Exception
	// Priorities are the classes of its requests, in the order of the file.
	Priorities []Priority
	// GoName is the name of the generated method: "SendMessage" for sendMessage.
	GoName string
	// Doc is the author's text, without trailing white space; it may have several lines.
	Doc string
	// Key holds the parts of the key in their order; it is empty for one shared counter.
	Key []KeyPart
	// Pos is the place of the limit's name.
	Pos diag.Pos
	// CapacityGiven is set if the file gives the capacity. Otherwise it is the rate.
	CapacityGiven bool
	// ByDefault has the fields whose values are from the defaults of the file.
	ByDefault map[string]bool
	// Places has the places of the values that the file gives, by the name of the field: "rate".
	Places map[string]diag.Pos
}

// checked is a type of its own so that other packages can read Limit.Policy and cannot write a Limit with one.
type checked struct {
	// Policy has the effective values: Capacity is Rate if the file does not give it, and so on. The capacity that the file
	// gives a limit in flight is its Slots. If they depend on the
	// plan, it is the policy of the first plan that is limited.
	Policy runtime.Policy
}

// Exception is what a limit gives one key in place of its numbers.
type Exception struct {
	// Given is what the file gives: a plan, numbers or a mode.
	Given runtime.Exception
	// Parts are the parts of the key, as the file has them.
	Parts []string
	// Plan is the name of the plan, or "".
	Plan string
	// Counted means that the rate is unlimited, and requests are counted.
	Counted bool
	// Pos is the place of the exception.
	Pos diag.Pos
}

// NewLimit returns a limit with a policy that is otherwise as said, or the error of [runtime.Policy.Validate].
func NewLimit(policy runtime.Policy, said Limit) (*Limit, error) {
	if err := policy.Validate(); err != nil {
		return nil, err
	}
	said.checked = checked{policy}
	return &said, nil
}

// Unlimited reports whether the limit of a plan is unlimited and not blocked.
func (l *Limit) Unlimited() bool { return l.Policy.Mode == runtime.ModeUnlimited }

// Zero reports whether the limit of a plan is 0: every request is denied.
func (l *Limit) Zero() bool { return l.Policy.Inside().Zero() }

// CountsOnly reports whether the rate of the limit, or of the plan, is unlimited and requests are counted.
func (l *Limit) CountsOnly() bool { return l.Policy.Inside().CountsOnly() }

// Numberless reports whether the limit of a plan has no numbers: its rate is unlimited, or it is 0.
func (l *Limit) Numberless() bool { return l.UnlimitedRate || l.Zero() }

// Unblocked returns the limit, for a blocked plan with the rate unlimited as it is without the block: its policy has numbers
// of another plan.
func (l *Limit) Unblocked() *Limit {
	if l == nil || !l.UnlimitedRate || l.Unlimited() {
		return l
	}
	c := *l
	c.Policy.Mode = runtime.ModeUnlimited
	return &c
}

// Each returns the limit of each plan, or the limit itself if it is the same for all plans.
func (l *Limit) Each() []*Limit {
	if len(l.Plans) == 0 {
		return []*Limit{l}
	}
	return l.Plans
}

// ForPlan returns the limit of a plan, or the limit itself if it is the same for all plans; nil if it lacks
// the plan, or is nil.
func (l *Limit) ForPlan(name string) *Limit {
	if l == nil || len(l.Plans) == 0 {
		return l
	}
	if i := slices.IndexFunc(l.Plans, func(of *Limit) bool { return of.Plan == name }); i >= 0 {
		return l.Plans[i]
	}
	return nil
}

// PlanNames returns the names of the plans of the limit.
func (l *Limit) PlanNames() []string {
	return words.Of(l.Plans, func(of *Limit) string { return of.Plan })
}

// Handle returns the type of package limiter that has only the verbs of the limit, the method of its Limiter that returns
// it, or from which limiter.Priced makes it, and the verb that most callers use.
func (l *Limit) Handle() (method, handle, verb string) {
	switch {
	case l.Policy.Kind == runtime.InFlight:
		return "Slots", "SlotLimit", "Acquire"
	case len(l.Prices) > 0:
		return "Limit", "PricedLimit", "Allow"
	case l.Policy.Capacity == 0:
		return "ReserveOnly", "ReserveOnlyLimit", "Reserve"
	case l.Policy.Reserves():
		return "Reservable", "ReservableLimit", "Allow"
	}
	return "Limit", "Limit", "Allow"
}

// CallerNumber is a number that callers give a limit with each request.
type CallerNumber struct {
	// Field is the name in limits.yaml, and GoName that of the field of the generated struct.
	Field, GoName string
	// Most is the most that callers can give.
	Most int64
}

// Unit is what the limit counts, in a word.
func (l *Limit) Unit() string { return Unit(&l.Policy) }

// Unit is what a policy counts, in a word: "token" or "slot".
func Unit(p *runtime.Policy) string {
	if p.Kind == runtime.InFlight {
		return "slot"
	}
	return "token"
}

// CallerNumbers returns the numbers that callers give, in the order of the fields of the generated struct. A capacity that
// the file does not give is the rate that callers give, and no field.
func (l *Limit) CallerNumbers() (list []CallerNumber) {
	most := l.Policy.AtMost
	if most.Rate > 0 {
		list = append(list, CallerNumber{"rate", "Rate", most.Rate})
	}
	if most.Capacity > 0 && (l.CapacityGiven || most.Rate == 0) {
		list = append(list, CallerNumber{"capacity", "Capacity", most.Capacity})
	}
	if most.Slots > 0 {
		list = append(list, CallerNumber{"capacity", "Slots", most.Slots})
	}
	if most.MaxReserved > 0 {
		list = append(list, CallerNumber{"maxReserved", "MaxReserved", most.MaxReserved})
	}
	return list
}

// CallerFields returns the names of the numbers that callers give.
func (l *Limit) CallerFields() []string {
	return words.Of(l.CallerNumbers(), func(n CallerNumber) string { return n.Field })
}

// NumbersType is the name of the generated struct with the numbers that callers give.
func (l *Limit) NumbersType() string { return l.GoName + "Numbers" }

// NumbersParameter is the name of the parameter with them.
func (l *Limit) NumbersParameter() string { return l.Policy.Name + "Numbers" }

// UsageType is the name of the generated struct with what a request uses, for a limit with prices.
func (l *Limit) UsageType() string { return l.GoName + "Usage" }

// Priority is a class of the requests of a limit.
type Priority struct {
	runtime.Priority
	// GoName is the name of the generated constant: "APICallsBatch".
	GoName string
	// Pos is the place of the name.
	Pos diag.Pos
}

// PriorityType is the name of the generated type of the classes, and PriorityParameter that of the parameter.
func (l *Limit) PriorityType() string { return l.GoName + "Priority" }

// PriorityParameter is the name of the parameter with the class of a request.
func (l *Limit) PriorityParameter() string { return l.Policy.Name + "Priority" }

// Alone returns a policy without classes that allows what the limit allows if all requests are of one class.
func (l *Limit) Alone(of Priority) runtime.Policy {
	p := l.Policy
	p.Priority = of.Priority
	p.Capacity, p.Priority = p.Full(), runtime.Priority{}
	if !p.Kind.Linear() {
		p.Rate = p.Capacity
	}
	if of.Leaves > 0 {
		p.MaxReserved = 0
	}
	return p
}

// Left returns how many tokens each class of requests leaves to the others, but for classes that leave none.
func (l *Limit) Left() (list []int64) {
	for _, class := range l.Priorities {
		if class.Leaves > 0 {
			list = append(list, l.LeftBy(class))
		}
	}
	return list
}

// LeftBy returns how many tokens a class of requests leaves to the others.
func (l *Limit) LeftBy(class Priority) int64 { return l.Policy.Capacity - l.Alone(class).Capacity }

// Plan is one of the plans of a file.
type Plan struct {
	// Name is the text that ParsePlan of the generated code accepts: "free".
	Name string
	// GoName is the name of the generated constant: "PlanFree".
	GoName string
	// Pos is the place of the name.
	Pos diag.Pos
}

// PlanNames returns the names of plans.
func PlanNames(plans []Plan) []string {
	return words.Of(plans, func(plan Plan) string { return plan.Name })
}

// PlanGoName returns the name of the constant of a plan: PlanProYearly for pro-yearly.
func PlanGoName(name string) string {
	out := "Plan"
	for _, word := range PlanWords(name) {
		out += GoName(word)
	}
	return out
}

// PlanWords splits the name of a plan.
func PlanWords(name string) []string {
	return strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' || r == ' ' || r == '.' || r == '+' })
}

// Unqualified reports whether a type has the name of its package, as Go code writes it, and not the import path:
// "uuid.UUID".
func Unqualified(typ string) bool {
	from, _, _ := strings.Cut(typ, ".")
	return UnqualifiedForm.MatchString(typ) && !slices.Contains(TopPackages, from)
}

// TopPackages are the packages of the standard library whose path is their name, and that have types with MarshalText.
var TopPackages = []string{"net", "regexp", "time"}

// KeyPart is one named and typed part of a limit's key.
type KeyPart struct {
	// Name is a Go identifier that is not a keyword.
	Name string
	// Type is the type as the file has it: "int64", "netip.Addr/64", "hashed string", "example.com/ids.UserID", or several with
	// their names, as [AlternativesType] writes them.
	Type string
}

// AlternativesType is the type of a part that has one of several types: "[userID: int64, addr: netip.Addr/64]".
func AlternativesType(of []KeyPart) string {
	return "[" + strings.Join(words.Of(of, func(k KeyPart) string { return k.Name + ": " + k.Type }), ", ") + "]"
}

// Alternatives returns the names and types of a part that has one of several; none for other parts.
func (k KeyPart) Alternatives() (list []KeyPart) {
	inner, ok := strings.CutPrefix(k.Type, "[")
	if !ok {
		return nil
	}
	for _, of := range strings.Split(strings.TrimSuffix(inner, "]"), ", ") {
		name, typ, _ := strings.Cut(of, ": ")
		list = append(list, KeyPart{Name: name, Type: typ})
	}
	return list
}

// Single returns the alternatives of a part, or the part itself if it has one type.
func (k KeyPart) Single() []KeyPart {
	if list := k.Alternatives(); len(list) > 0 {
		return list
	}
	return []KeyPart{k}
}

// Constructor is the name of the generated function that makes an alternative of a part: CallerUserID.
func (k KeyPart) Constructor(of KeyPart) string { return k.GoType() + GoName(of.Name) }

// TypeInWords is the type for people: "int64", or "userID int64 or addr netip.Addr/64".
func (k KeyPart) TypeInWords() string {
	if list := k.Alternatives(); len(list) > 0 {
		return words.List(words.Of(list, func(of KeyPart) string { return of.Name + " " + of.Type }), "or")
	}
	return k.Type
}

// PartNames returns the names of the parts of a key.
func PartNames(key []KeyPart) []string {
	return words.Of(key, func(part KeyPart) string { return part.Name })
}

// GoType returns the type of the parameter of the generated method: "netip.Addr" for "netip.Addr/64". That of a part with
// alternatives is generated, with the name of the part.
func (k KeyPart) GoType() string {
	switch {
	case strings.HasPrefix(k.Type, "["):
		return GoName(k.Name)
	case k.Hashed(), k.Folded():
		return "string"
	case k.PrefixBits() > 0:
		return AddrType
	}
	return k.Type
}

// Hashed reports whether only a hash of the part, or of one of its alternatives, is stored.
func (k KeyPart) Hashed() bool {
	return slices.ContainsFunc(k.Single(),
		func(of KeyPart) bool { return of.Type == HashedString || of.Type == HashedFoldedString })
}

// Folded reports whether texts that differ in case only are one part.
func (k KeyPart) Folded() bool { return k.Type == FoldedString || k.Type == HashedFoldedString }

// AnyFolded reports whether the part, or one of its alternatives, is Folded.
func (k KeyPart) AnyFolded() bool { return slices.ContainsFunc(k.Single(), KeyPart.Folded) }

// PrefixBits returns how many bits of an IPv6 address are the part, or 0 if the type has no such number.
func (k KeyPart) PrefixBits() int {
	parts := AddrPrefixForm.FindStringSubmatch(k.Type)
	if parts == nil {
		return 0
	}
	bits, _ := strconv.Atoi(parts[1])
	return bits
}

const (
	// AddrType is the Go type of an address, HashedString the type of a part of which only a hash is stored, and FoldedString
	// that of a part without upper case.
	AddrType           = "netip.Addr"
	HashedString       = "hashed string"
	FoldedString       = "folded string"
	HashedFoldedString = "hashed folded string"
	// KeyTypesInWords lists the types of the parts of keys.
	KeyTypesInWords = "`string`, `folded string`, `hashed string`, `hashed folded string`, `bool`, `int`, `int64`, `uint64`, `netip.Addr`, `netip.Addr/64`, `import/path.Type`, or `Type` for one of the generated package"

	elementPattern = `[a-zA-Z0-9_~-]+(\.[a-zA-Z0-9_~-]+)*`
)

var (
	// OwnTypes are the types that every generated package declares. No type of a key can have such a name.
	OwnTypes = []string{"Limits", "Decision", "Decisions", "Reservations", "Balance", "Reservation", "Item",
		"ReserveItem", "LimitedError"}
	// OwnNames are the other exported names that a generated package can declare and that are not of limits, groups or plans.
	OwnNames = []string{
		"Limit", "ReservableLimit", "ReserveOnlyLimit", "SlotLimit", "PricedLimit", "PricedReservation", "Overrides", "Slot", "Override", "Block", "OverrideEnd", "OverrideEntry",
		"Plan", "Plans", "ParsePlan", "New", "Policies", "Catalog", "ForGood",
		"ErrLimited", "ErrExceedsCapacity", "ErrInvalidCount", "ErrNotReserved", "ErrInvalidPlan", "ErrInvalidPriority", "ErrSlotLost", "ErrInvalidNumbers", "ErrInvalidOverride", "ErrNoOverride",
	}
	// KeyTypes are the types of parts of keys that are not of the user's own packages.
	KeyTypes = []string{"string", FoldedString, HashedString, HashedFoldedString, "bool", "int", "int64", "uint64",
		AddrType, "netip.Addr/64"}
	// TypeForm matches a type with its import path.
	TypeForm = regexp.MustCompile(`^` + elementPattern + `(/` + elementPattern + `)*\.[A-Z][a-zA-Z0-9_]*$`)
	// UnimportedForm matches the import paths that Go refuses in every module: packages that cannot be imported,
	// elements that begin with a dash or a tilde, and names that Windows reserves or shortens.
	UnimportedForm = regexp.MustCompile(`^(netip|C|main|unsafe|builtin|cmd)\.|^(cmd|internal|vendor)/|/vendor/|(^|/)[-~]|(^|/)[^./]*~[0-9]+[./]|` +
		`(^|/)([cC][oO][nN]|[pP][rR][nN]|[aA][uU][xX]|[nN][uU][lL]|[cC][oO][mM][1-9]|[lL][pP][tT][1-9])[./]`)
	// UnqualifiedForm matches a type with the name of its package in place of the import path, or with one of [TopPackages].
	UnqualifiedForm = regexp.MustCompile(`^[a-z][a-zA-Z0-9_]*\.[A-Z]`)
	// AddrPrefixForm matches the type of an address of which 1 to 128 bits count.
	AddrPrefixForm = regexp.MustCompile(`^netip\.Addr/([1-9][0-9]?|1[01][0-9]|12[0-8])$`)
	// TypedForm matches the name of a part with its type, as in "userID: int64" or "userID int64".
	TypedForm = regexp.MustCompile(`^([a-z][a-zA-Z0-9_]*)(:| +)([a-z0-9]+|netip\.Addr)$`)
)
