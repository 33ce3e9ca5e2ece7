package fields

import (
	"cmp"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/rules"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var planForm = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9]*([-_][a-zA-Z0-9]+)*$`)

// longestPlan is the length of the longest name of a plan, which is printed in columns and in names of constants.
const longestPlan = 40

// maxPlans bounds what every number by plan, and every limit with one, costs.
const maxPlans = 100

const (
	plansHelp = "write plans: [free, pro]"
	planHelp  = "begin with a letter, and use letters and digits, with single dashes or underscores between them"
)

// planList reads the plans of the file.
func (p *parser) planList(file *spec.File, e entry) bool {
	before := len(p.found)
	switch {
	case e.value.Kind != yaml.SequenceNode:
		p.wrongType(e, "a list of names", plansHelp)
	case len(e.value.Content) == 0:
		p.report(e.at, rules.BadPlan, "name at least one, or leave plans out", "plans must not be empty")
	case len(e.value.Content) > maxPlans:
		p.report(e.at, rules.BadPlan, "give customers with numbers of their own overrides", "a file has at most %d plans, not %s", maxPlans, words.Number(int64(len(e.value.Content))))
	default:
		file.Plans = p.readPlans(e.value.Content)
	}
	ok := len(p.found) == before
	if !e.again {
		p.plans, p.plansUnknown = file.Plans, !ok || slices.ContainsFunc(e.value.Content, func(item *yaml.Node) bool { return p.muted[item] })
	}
	return ok
}

func (p *parser) readPlans(items []*yaml.Node) (plans []spec.Plan) {
	names := map[string]diag.Span{}
	for _, item := range items {
		at := p.src.At(item)
		if p.muted[item] || !p.planName(item, at) {
			continue
		}
		plan := spec.Plan{Name: item.Value, GoName: spec.PlanGoName(item.Value), Pos: at.Pos}
		if p.twice(names, plan.Name, at, "the plan ") {
			continue
		}
		p.claim(owner{"the plan " + diag.Quote(plan.Name), at}, "name "+plan.GoName)
		plans = append(plans, plan)
	}
	return plans
}

// planName reports the name of a plan that is not valid.
func (p *parser) planName(item *yaml.Node, at diag.Span) bool {
	switch {
	case !isString(item):
		p.report(at, rules.BadPlan, planHelp, "the name of a plan must be text, not %s", describe(item))
		if item.Kind == yaml.ScalarNode && planForm.MatchString(item.Value) {
			p.meant(strconv.Quote(item.Value)) // such as true, which is a name in quotes
		}
	case len(item.Value) > longestPlan:
		p.report(at, rules.BadPlan, "choose a shorter name", "the name of a plan has at most %d characters, and %s has %d", longestPlan, diag.Quote(item.Value), len([]rune(item.Value)))
	case !planForm.MatchString(item.Value):
		p.report(at, rules.BadPlan, planHelp, "the name of a plan must have letters and digits only, with dashes or underscores between them, not %s", diag.Quote(item.Value))
		if better := strings.Join(spec.PlanWords(item.Value), "-"); planForm.MatchString(better) {
			p.meant(better)
		}
	default:
		return true
	}
	return false
}

// byPlan returns a reader of a field that has either one value for all plans, or a map with a value for each plan. It
// checks the values of a map only: settlePlans reads them again, into the limit of each plan.
func byPlan(read func(*parser, *draft, entry) bool) func(*parser, *draft, entry) bool {
	return func(p *parser, limit *draft, e entry) bool {
		switch {
		case isAtMost(e.value):
			return p.readAtMost(limit, e, read)
		case e.value.Kind == yaml.MappingNode:
			return p.planMap(limit, e, read)
		case e.name == "rate" && isWord(e.value, unlimited):
			p.report(e.at, rules.UnlimitedPlan, "leave the limit out, or let the rate depend on the plan: rate: {free: 10, pro: unlimited}",
				"a limit that is unlimited for all plans has no effect")
			return false
		}
		return read(p, limit, e)
	}
}

// planMap keeps a map of plans, and reports those that the file lacks and the values that the field does not accept.
func (p *parser) planMap(of *draft, e entry, read func(*parser, *draft, entry) bool) bool {
	before := len(p.found)
	entries, _ := p.entries(e.value, e.at, e.name, "")
	hasPlan := slices.ContainsFunc(entries, func(e entry) bool { return slices.Contains(p.planNames(), e.name) })
	if i := slices.IndexFunc(entries, func(e entry) bool { return meantAtMost(e.name) != "" }); i >= 0 && !hasPlan && !p.plansUnknown {
		p.report(entries[i].named, rules.BadNumbers, atMostHelp(e.name), "a number that callers give is written with the words %q", atMost)
		p.meant(atMost)
		return false
	}
	if !e.again {
		of.keepMap(e, entries)
	}
	if len(p.plans) == 0 && !p.plansUnknown {
		p.report(e.at, rules.NoPlans, p.noPlansHelp(e.name, entries), "%s is a map of plans, but the file has no plans", e.name)
		return false
	}
	defer func(limit string) { p.limit = limit }(p.limit)
	limit, legible := p.limit, true
	for _, value := range entries {
		p.limit = limit
		if !p.plansUnknown && !slices.Contains(p.planNames(), value.name) {
			p.report(value.named, rules.UnknownPlan, "the plans are "+words.List(p.planNames(), "and"), "%s has the unknown plan %s", e.name, diag.Quote(value.name))
			p.meant(cmp.Or(meantAtMost(value.name), p.nearest(value.name, p.planNames)))
		}
		p.limit = limit + ": plan " + diag.Label(value.name)
		p.planValue(of, e.name, value, read)
		legible = legible && !p.muted[value.value]
	}
	return len(p.found) == before && legible
}

// planValue checks the value of one plan.
func (p *parser) planValue(of *draft, field string, e entry, read func(*parser, *draft, entry) bool) {
	e.name = field
	switch isUnlimited := isWord(e.value, unlimited); {
	case p.muted[e.value]:
	case isAtMost(e.value):
		p.report(e.at, rules.BadNumbers, atMostHelp(field), "a number that callers give is the same for all plans, or the plans have numbers of their own")
	case field == "rate" && isUnlimited:
	case field == "rate" && p.meantInstead(e, unlimited, unlimitedSynonyms):
	case isUnlimited && field == "capacity" && of.gaveHold:
		p.report(e.at, rules.UnlimitedPlan, "give the plan a number, at most "+words.Number(runtime.MaxSlots), "slots cannot be %s, because their holders are in one row", unlimited)
	case isUnlimited && field != "maxReserved": // which has a word of its own
		p.report(e.at, rules.UnlimitedPlan, "write unlimited as the rate of the plan, and leave the plan out here", "only a rate can be %s, not %s", unlimited, field)
	default:
		// The value is only checked here.
		read(p, new(draft), e)
	}
}

func (p *parser) noPlansHelp(field string, entries []entry) string {
	var names []string
	for _, e := range entries {
		if slices.Contains(p.limitFields, e.name) {
			return e.name + " is a field of the limit: write it beside " + field
		}
		if !planForm.MatchString(e.name) {
			return "add plans: [free, pro] at the top of the file"
		}
		names = append(names, e.name)
	}
	return "add plans: [" + strings.Join(names, ", ") + "] at the top of the file"
}

func (p *parser) planNames() []string { return spec.PlanNames(p.plans) }

// claim keeps Go names for an owner, or reports the first one that another owner has. A name follows its sort: "method
// SendMessage", or "name PlanFree" for a type or a constant.
func (p *parser) claim(own owner, names ...string) {
	for _, name := range names {
		switch other, taken := p.owners[name]; {
		case !taken:
			p.owners[name] = own
		case other.what != own.what:
			p.report(own.at, rules.SameGoName, "set goName on one of them, or rename a plan", "%s and %s both have the Go %s", other.what, own.what, diag.Clip(name))
			p.note(other.at, "the first is here")
			return
		}
	}
}

var (
	// ownMethods are the other methods of the generated type.
	ownMethods = []string{"All", "PeekAll", "ReserveAll", "WithTx"}
	// vettedMethods are the methods whose signature go vet checks on every type.
	vettedMethods = []string{
		"GobDecode", "GobEncode", "MarshalJSON", "MarshalXML", "ReadByte", "ReadRune", "Seek", "UnmarshalJSON",
		"UnmarshalXML", "UnreadByte", "UnreadRune", "WriteByte",
	}
	reservedGoNames = slices.Concat(ownMethods, vettedMethods)
)

// reservedGoName reports a Go name that no limit can have, and returns whether it is one.
func (p *parser) reservedGoName(at diag.Span, name string) bool {
	const help = "choose another name with goName:"
	switch {
	case slices.Contains(ownMethods, name):
		p.report(at, rules.ReservedName, help, "the generated code has another method %s", name)
	case slices.Contains(vettedMethods, name):
		p.report(at, rules.ReservedName, help, "go vet requires a method %s to have the signature of the standard library", name)
	default:
		return false
	}
	return true
}

// exportedName reads the Go name of a method.
func (p *parser) exportedName(into *string, e entry) bool {
	name, ok := p.text(e, "an exported Go identifier")
	switch {
	case !ok || p.reservedGoName(e.at, name):
	case spec.ExportedForm.MatchString(name):
		*into = name
		return true
	default:
		p.report(e.at, rules.BadGoName, "begin with a capital letter and use letters and digits only",
			"goName must be an exported Go identifier, not %s", diag.Quote(name))
		p.meant(spec.GoName(spec.CamelCase(name)))
	}
	return false
}

const maxKeyParts = 8

var partForm = regexp.MustCompile(`^[a-z][a-zA-Z0-9_]*$`)

// keyParts reads a key: the name of one string, or a map from names to types.
func (p *parser) keyParts(limit *draft, e entry) bool {
	switch {
	case isString(e.value):
		if !p.partName(e.value.Value, e.at) {
			return false
		}
		limit.said.Key = []spec.KeyPart{{Name: e.value.Value, Type: "string"}}
		return true
	case e.value.Kind == yaml.MappingNode:
		return p.keyMap(limit, e)
	case e.value.Kind == yaml.SequenceNode:
		p.wrongType(e, "a name or a map from names to types", "write {userID: string, teamID: string}")
	case e.value.Tag == "!!null":
		p.report(e.at, rules.WrongType, "leave key out for one count that all callers share, or name a part: key: userID", "key must be a name, not null")
	default:
		p.wrongType(e, "a name or a map from names to types", "")
	}
	return false
}

func (p *parser) keyMap(limit *draft, e entry) bool {
	entries, _ := p.entries(e.value, e.at, "key", "")
	if len(e.value.Content) == 0 {
		p.report(e.at, rules.WrongType, "leave key out for one count that all callers share", "key must have a part, not be an empty map")
	}
	parts := slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return e.again })
	if len(parts) > maxKeyParts {
		p.report(parts[maxKeyParts].named, rules.TooManyKeyParts, "join some of them into a type of your own with a MarshalText method",
			"a key has at most %d parts, not %d", maxKeyParts, len(parts))
	}
	before := len(p.found)
	for _, part := range entries {
		if p.muted[part.value] || p.missingSpaceAfterColon(part, rules.BadKeyPart) {
			continue
		}
		named, typed := part.again || p.partName(part.name, part.named), p.keyType(part)
		if named && typed {
			limit.said.Key = append(limit.said.Key, spec.KeyPart{Name: part.name, Type: part.value.Value})
		}
	}
	return len(p.found) == before
}

// partName reports the name of a part of a key that no Go parameter can have.
func (p *parser) partName(name string, at diag.Span) bool {
	const help = "choose another name, such as userID"
	switch {
	case token.IsKeyword(name):
		p.report(at, rules.BadKeyPart, help, "a part of a key cannot be named %s, a keyword of Go", diag.Quote(name))
	case slices.Contains(spec.KeyTypes, name):
		p.report(at, rules.BadKeyPart, "give the part a name: {userID: "+name+"}", "a part of a key cannot be named %s, a type", diag.Quote(name))
	case !partForm.MatchString(name):
		p.report(at, rules.BadKeyPart, "name it like a Go parameter, such as userID",
			"a part of a key must be a Go identifier that begins with a lowercase letter, not %s", diag.Quote(name))
		p.meant(meantPart(name))
	default:
		return true
	}
	return false
}

// unusableParts are the identifiers that [parser.partName] refuses.
func unusableParts() []string {
	return slices.Concat(spec.KeyTypes, spec.GoKeywords())
}

// meantPart returns the part of a key that a name which is not an identifier probably means, or "".
func meantPart(name string) string {
	if parts := spec.TypedForm.FindStringSubmatch(name); parts != nil && slices.Contains(spec.KeyTypes, parts[3]) {
		return "{" + parts[1] + ": " + parts[3] + "}"
	}
	return spec.CamelCase(name)
}

// keyType reports a type that no part of a key can have.
func (p *parser) keyType(part entry) bool {
	what := diag.Label(part.name)
	if !isString(part.value) {
		p.report(part.at, rules.BadKeyType, "write {"+what+": string}", "%s must have a type, not %s", what, describe(part.value))
		return false
	}
	written := part.value.Value
	if slices.Contains(spec.KeyTypes, written) || spec.AddrPrefixForm.MatchString(written) || spec.TypeForm.MatchString(written) && !spec.UnimportedForm.MatchString(written) {
		return true
	}
	p.report(part.at, rules.BadKeyType, typeHelp(written), "%s cannot have the type %s", what, diag.Quote(written))
	p.meant(meantType(written))
	return false
}

// commonTypes are types that people try, and the closest supported type.
var commonTypes = map[string]string{
	"text": "string", "str": "string", "[]byte": "string", "integer": "int64", "number": "int64", "int32": "int64", "int16": "int64",
	"int8": "int64", "uint": "uint64", "uint32": "uint64", "uint16": "uint64", "uint8": "uint64", "byte": "uint64", "boolean": "bool",
	"ip": "netip.Addr", "uuid": "string", "UUID": "string", "ip/64": "netip.Addr/64", "cidr": "netip.Addr/64",
	"hash": spec.HashedString, "hashed": spec.HashedString, "sha256": spec.HashedString, "secret": spec.HashedString, "email": spec.HashedString,
	"string hashed": spec.HashedString, "hashed(string)": spec.HashedString,
}

// meantType returns the type that text probably means, or "".
func meantType(text string) string {
	meant, common := commonTypes[text]
	switch {
	case common:
		return meant
	case spec.AddrPrefixForm.MatchString(strings.ReplaceAll(text, " ", "")):
		return strings.ReplaceAll(text, " ", "")
	case strings.HasPrefix(text, spec.AddrType+"/"):
		return ""
	case strings.HasPrefix(text, "netip."):
		return "net/" + text
	}
	return diag.Nearest(text, spec.KeyTypes)
}

// typeHelp returns the remedy for an unsupported type.
func typeHelp(text string) string {
	switch {
	case strings.HasPrefix(text, spec.AddrType+"/"):
		return "the bits of an IPv6 address that count are 1 to 128: write netip.Addr/64"
	case strings.HasPrefix(text, "hashed "):
		return "only a string can be hashed: write " + spec.HashedString
	case spec.UnimportedForm.MatchString(text):
		return "Go cannot import a package from that path"
	case spec.ExportedForm.MatchString(text):
		return "write the type with its import path: example.com/ids." + text
	}
	return "the types are " + strings.ReplaceAll(spec.KeyTypesInWords, "`", "")
}
