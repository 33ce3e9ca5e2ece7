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

const planHelp = "begin with a letter, and use letters and digits, with single dashes or underscores between them"

// planName reports the name of a plan that is not valid.
func (n goNames) planName(item *yaml.Node, at diag.Span) bool {
	switch {
	case !isString(item):
		n.report(at, rules.BadPlan, planHelp, "the name of a plan must be text, not %s", describe(item))
		if item.Kind == yaml.ScalarNode && planForm.MatchString(item.Value) {
			n.meant(strconv.Quote(item.Value)) // such as true, which is a name in quotes
		}
	case len(item.Value) > longestPlan:
		n.report(at, rules.BadPlan, "choose a shorter name", "the name of a plan has at most %d characters, and %s has %d", longestPlan, diag.Quote(item.Value), len([]rune(item.Value)))
	case !planForm.MatchString(item.Value):
		n.report(at, rules.BadPlan, planHelp, "the name of a plan must have letters and digits only, with dashes or underscores between them, not %s", diag.Quote(item.Value))
		if better := strings.Join(spec.PlanWords(item.Value), "-"); planForm.MatchString(better) {
			n.meant(better)
		}
	default:
		return true
	}
	return false
}

// claim keeps Go names for an owner, or reports the first one that another owner has. A name follows its sort: "method
// SendMessage", or "name PlanFree" for a type or a constant.
func (n goNames) claim(own owner, names ...string) {
	for _, name := range names {
		switch other, taken := n.owners[name]; {
		case !taken:
			n.owners[name] = own
		case other.what != own.what:
			help := "set goName on one of them"
			switch {
			case own.plan && other.plan:
				help = "rename one of the plans, which have no goName"
			case own.plan:
				help = "rename the plan, or set goName on " + other.what
			case other.plan:
				help = "set goName on it, or rename the plan"
			}
			n.report(own.at, rules.SameGoName, help, "%s and %s both have the Go %s", other.what, own.what, diag.Clip(name))
			n.note(other.at, "the first is here")
			return
		}
	}
}

var (
	// ownMethods are the other methods of the generated type.
	ownMethods = []string{"All", "PeekAll", "ReserveAll", "WithConn", "WithTx"}
	// vettedMethods are the methods whose signature go vet checks on every type.
	vettedMethods = []string{
		"GobDecode", "GobEncode", "MarshalJSON", "MarshalXML", "ReadByte", "ReadRune", "Seek", "UnmarshalJSON",
		"UnmarshalXML", "UnreadByte", "UnreadRune", "WriteByte",
	}
	reservedGoNames = slices.Concat(ownMethods, vettedMethods)
)

// reservedGoName reports a Go name that no limit can have, and returns whether it is one.
func (n goNames) reservedGoName(at diag.Span, name string) bool {
	const help = "choose another name with goName:"
	switch {
	case slices.Contains(ownMethods, name):
		n.report(at, rules.ReservedName, help, "the generated code has another method %s", name)
	case slices.Contains(vettedMethods, name):
		n.report(at, rules.ReservedName, help, "go vet requires a method %s to have the signature of the standard library", name)
	default:
		return false
	}
	return true
}

// exportedName reads the Go name of a method.
func (n goNames) exportedName(into *string, e entry) bool {
	name, ok := n.text(e, "an exported Go identifier")
	switch {
	case !ok || n.reservedGoName(e.at, name):
	case spec.ExportedForm.MatchString(name):
		*into = name
		return true
	default:
		n.report(e.at, rules.BadGoName, "begin with a capital letter and use letters and digits only",
			"goName must be an exported Go identifier, not %s", diag.Quote(name))
		n.meant(spec.GoName(spec.CamelCase(name)))
	}
	return false
}

// limitName reports the name of a limit or group that is not camelCase or too long.
func (n goNames) limitName(e entry, what string) {
	if spec.LimitNameForm.MatchString(e.name) {
		if len(e.name) > runtime.MaxKey {
			n.report(e.named, rules.NameTooLong, "choose a shorter name: goName would shorten the method's name only",
				"the name of a %s has at most %d bytes, and %s has %s", what, runtime.MaxKey, diag.Quote(e.name), words.Number(int64(len(e.name))))
		}
		return
	}
	n.report(e.named, rules.BadName, "begin with a lowercase letter and use letters and digits only",
		"the name of a %s must be camelCase, not %s", what, diag.Quote(e.name))
	if better := spec.CamelCase(e.name); !slices.Contains(reservedGoNames, spec.GoName(better)) {
		n.meant(better)
	}
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
		p.wrongType(e, "a name or a map from names to types", "write key: {"+strings.Join(typedParts(e.value.Content), ", ")+"}")
	case e.value.Tag == "!!null":
		p.report(e.at, rules.WrongType, "leave key out for one count that all callers share, or name a part: key: userID", "key must be a name, not null")
	default:
		p.wrongType(e, "a name or a map from names to types", "")
	}
	return false
}

// typedParts returns the parts of a key that a list names, each with a type.
func typedParts(items []*yaml.Node) (parts []string) {
	for i, item := range items {
		name := spec.CamelCase(item.Value)
		if item.Kind != yaml.ScalarNode || !partForm.MatchString(name) || slices.Contains(unusableParts(), name) {
			name = "part" + strconv.Itoa(i+1)
		}
		if part := name + ": string"; i < maxKeyParts && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return []string{"userID: string"}
	}
	return parts
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
func (n goNames) partName(name string, at diag.Span) bool {
	const help = "choose another name, such as userID"
	switch {
	case token.IsKeyword(name):
		n.report(at, rules.BadKeyPart, help, "a part of a key cannot be named %s, a keyword of Go", diag.Quote(name))
	case slices.Contains(spec.KeyTypes, name):
		n.report(at, rules.BadKeyPart, "give the part a name: {userID: "+name+"}", "a part of a key cannot be named %s, a type", diag.Quote(name))
	case !partForm.MatchString(name):
		n.report(at, rules.BadKeyPart, "name it like a Go parameter, such as userID",
			"a part of a key must be a Go identifier that begins with a lowercase letter, not %s", diag.Quote(name))
		n.meant(meantPart(name))
	default:
		return true
	}
	return false
}

// unusableParts are the identifiers that [goNames.partName] refuses.
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
func (n goNames) keyType(part entry) bool {
	what := diag.Label(part.name)
	if !isString(part.value) {
		n.report(part.at, rules.BadKeyType, "write {"+what+": string}", "%s must have a type, not %s", what, describe(part.value))
		return false
	}
	written := part.value.Value
	switch {
	case slices.Contains(spec.KeyTypes, written), spec.AddrPrefixForm.MatchString(written), commonTypes[written] == "" && spec.ExportedForm.MatchString(written):
		return true
	case spec.TypeForm.MatchString(written) && !spec.UnimportedForm.MatchString(written) && !spec.Unqualified(written):
		return true
	}
	n.report(part.at, rules.BadKeyType, typeHelp(written), "%s cannot have the type %s", what, diag.Quote(written))
	n.meant(n.meantType(written))
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

// knownTypes are types that are common in keys, as Go code writes them, with the import path of their package.
var knownTypes = map[string]string{
	"uuid.UUID": "github.com/google/uuid", "uuid.NullUUID": "github.com/google/uuid", "ulid.ULID": "github.com/oklog/ulid/v2", "xid.ID": "github.com/rs/xid",
	"ksuid.KSUID": "github.com/segmentio/ksuid", "snowflake.ID": "github.com/bwmarrin/snowflake",
}

// meantType returns the type that text probably means, or "".
func (n goNames) meantType(text string) string {
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
	case knownTypes[text] != "":
		return knownTypes[text] + text[strings.IndexByte(text, '.'):]
	}
	return n.nearest(text, func() []string { return spec.KeyTypes })
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
	case spec.Unqualified(text):
		return "write the type with its import path, as in example.com/" + text + ", or the name alone if it is in the generated package"
	}
	return "the types are " + strings.ReplaceAll(spec.KeyTypesInWords, "`", "")
}

// maxPlans bounds what every number by plan, and every limit with one, costs.
const maxPlans = 100

// planList reads the plans of the file.
func (p *parser) planList(file *spec.File, e entry) bool {
	before := len(p.found)
	switch {
	case e.value.Kind != yaml.SequenceNode:
		p.wrongType(e, "a list of names", "write plans: [free, pro]")
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
		p.claim(owner{what: "the plan " + diag.Quote(plan.Name), at: at, plan: true}, "name "+plan.GoName)
		plans = append(plans, plan)
	}
	return plans
}

func (p *parser) planNames() []string { return spec.PlanNames(p.plans) }

// planReader reads a field of a limit that has one value for all plans, a value for each, or the most that callers can give.
type planReader struct {
	*parser
	of *draft
	// read reads a single value.
	read reader[draft]
}

// byPlan returns the reader of such a field.
func byPlan(read reader[draft]) reader[draft] {
	return func(p *parser, limit *draft, e entry) bool {
		r := planReader{p, limit, read}
		switch {
		case isAtMost(e.value):
			return r.fromCallers(e)
		case e.value.Kind == yaml.MappingNode:
			return r.each(e)
		case e.name == "rate" && isString(e.value) && slices.Contains(boundless, string(diag.Fold(e.value.Value))):
			p.report(e.at, rules.UnlimitedPlan, "leave the limit out, or let the rate depend on the plan: rate: {free: 10, pro: unlimited}",
				"a limit that is unlimited for all plans has no effect")
			return false
		}
		return read(p, limit, e)
	}
}

// each keeps a map of plans, and reports those that the file lacks and the values that the field does not accept. It only checks
// the values: settlePlans reads them again, into the limit of each plan.
func (r planReader) each(e entry) bool {
	before := len(r.found)
	entries, _ := r.entries(e.value, e.at, e.name, "")
	hasPlan := slices.ContainsFunc(entries, func(e entry) bool { return slices.Contains(r.planNames(), e.name) })
	if i := slices.IndexFunc(entries, func(e entry) bool { return meantAtMost(e.name) != "" }); i >= 0 && !hasPlan && !r.plansUnknown {
		r.report(entries[i].named, rules.BadNumbers, atMostHelp(e.name), "a number that callers give is written with the words %q", atMost)
		r.meant(atMost)
		return false
	}
	if !e.again {
		r.of.keepMap(e, entries)
	}
	if len(r.plans) == 0 && !r.plansUnknown {
		r.report(e.at, rules.NoPlans, r.noPlansHelp(e.name, entries), "%s is a map of plans, but the file has no plans", e.name)
		return false
	}
	legible, plans := true, r.planNames()
	for _, value := range entries {
		if !r.plansUnknown && !slices.Contains(plans, value.name) {
			r.report(value.named, rules.UnknownPlan, "", "%s has the unknown plan %s", e.name, diag.Quote(value.name))
			if r.described() {
				r.help("the plans are " + words.List(plans, "and"))
			}
			meant := cmp.Or(meantAtMost(value.name), r.nearest(value.name, r.planNames))
			r.meant(meant)
			if plans := r.of.maps[e.name].meant; !e.again {
				plans[meant] = true
				plans[anyPlan] = plans[anyPlan] || !r.described()
			}
		}
		r.onePlan(e.name, value)
		legible = legible && !r.muted[value.value]
	}
	return len(r.found) == before && legible
}

// onePlan checks the value of one plan.
func (r planReader) onePlan(field string, e entry) {
	defer r.enter("plan " + diag.Label(e.name))()
	e.name = field
	switch isUnlimited := isWord(e.value, unlimited); {
	case r.muted[e.value]:
	case isAtMost(e.value):
		r.report(e.at, rules.BadNumbers, atMostHelp(field), "a number that callers give is the same for all plans, or the plans have numbers of their own")
	case field == "rate" && isUnlimited:
	case field == "rate" && r.meantInstead(e, unlimited, unlimitedSynonyms):
	case isUnlimited && field == "capacity" && r.of.gaveHold:
		r.report(e.at, rules.UnlimitedPlan, "give the plan a number, at most "+words.Number(runtime.MaxSlots), "slots cannot be %s, because their holders are in one row", unlimited)
	case isUnlimited && field != "maxReserved": // which has a word of its own
		r.report(e.at, rules.UnlimitedPlan, "write unlimited as the rate of the plan, and leave the plan out here", "only a rate can be %s, not %s", unlimited, field)
	default:
		r.read(r.parser, &draft{written: r.of.written}, e)
	}
}

func (r planReader) noPlansHelp(field string, entries []entry) string {
	var names []string
	for _, e := range entries {
		if slices.Contains(r.limitFields, e.name) {
			return e.name + " is a field of the limit: write it beside " + field
		}
		if !planForm.MatchString(e.name) {
			return "add plans: [free, pro] at the top of the file"
		}
		names = append(names, e.name)
	}
	return "add plans: [" + strings.Join(names, ", ") + "] at the top of the file"
}

// atMost is the only name in the map of a number that callers give: rate: {at most: 10_000}. No plan can have it.
const atMost = "at most"

// isAtMost reports whether a value is the map of a number that callers give.
func isAtMost(value *yaml.Node) bool {
	if value.Kind == yaml.MappingNode {
		for i := 0; i < len(value.Content); i += 2 {
			if isWord(value.Content[i], atMost) {
				return true
			}
		}
	}
	return false
}

// meantAtMost returns "at most" for a name that means it, and otherwise "".
func meantAtMost(name string) string {
	switch string(diag.Fold(name)) {
	case "atmost", "most", "max", "maximum", "upto", "limit":
		return atMost
	}
	return ""
}

func atMostHelp(field string) string { return "write " + field + ": {" + atMost + ": 10_000}" }

// mostOf returns where the policy has the number of a field, and the most that callers can give. The capacity of a limit in
// flight is its slots.
func (l *draft) mostOf(field string) (number, most *int64) {
	p := &l.policy
	switch field {
	case "rate":
		return &p.Rate, &p.AtMost.Rate
	case "capacity":
		if l.written.is(runtime.InFlight) {
			return &p.Slots, &p.AtMost.Slots
		}
		return &p.Capacity, &p.AtMost.Capacity
	case "maxReserved":
		return &p.MaxReserved, &p.AtMost.MaxReserved
	}
	return nil, nil
}

// fromCallers reads the most of a number that callers give.
func (r planReader) fromCallers(e entry) bool {
	number, most := r.of.mostOf(e.name)
	if number == nil {
		r.report(e.at, rules.BadNumbers, "give one "+e.name+", or one for each plan", "callers cannot give the %s", e.name)
		return false
	}
	before := len(r.found)
	entries, _ := r.entries(e.value, e.at, e.name, "")
	for _, of := range entries {
		switch {
		case of.name != atMost:
			r.report(of.named, rules.BadNumbers, atMostHelp(e.name), "%s is either by plan or from callers: beside %q, it has nothing else", e.name, atMost)
		case of.again || r.muted[of.value]:
		case isWord(of.value, unlimited) || isWord(of.value, unboundedWord):
			r.report(of.at, rules.BadNumbers, atMostHelp(e.name), "the most that callers can give is a number, not %s", of.value.Value)
		default:
			of.name = e.name
			if r.read(r.parser, r.of, of) && *number == 0 {
				r.report(of.at, rules.BadNumbers, "leave "+e.name+" out, or write "+e.name+": 0", "callers can give a number only if it can be 1 or more")
			}
		}
	}
	*most = *number
	return len(r.found) == before
}
