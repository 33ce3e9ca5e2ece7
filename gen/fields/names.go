package fields

import (
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

// goNames checks the names and types of a file, which become those of the generated Go package, and knows the owner of each name.
type goNames struct {
	*document
	owners map[string]owner
}

// owner is a limit, its overrides or its numbers, a group, or a plan, each of which has Go names.
type owner struct {
	what string
	at   diag.Span
}

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
			n.report(own.at, rules.SameGoName, "set goName on one of them, or rename a plan", "%s and %s both have the Go %s", other.what, own.what, diag.Clip(name))
			n.note(other.at, "the first is here")
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
	if slices.Contains(spec.KeyTypes, written) || spec.AddrPrefixForm.MatchString(written) || spec.TypeForm.MatchString(written) && !spec.UnimportedForm.MatchString(written) {
		return true
	}
	n.report(part.at, rules.BadKeyType, typeHelp(written), "%s cannot have the type %s", what, diag.Quote(written))
	n.meant(meantType(written))
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
