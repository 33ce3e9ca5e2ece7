package spec

import (
	"go/token"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// sameGoNames reports limits that have the same Go method.
func (p *checker) sameGoNames(entries []entry, limits []*draft) {
	first := map[string]int{}
	for i, limit := range limits {
		if entries[i].again || !limitNameForm.MatchString(entries[i].name) {
			// It has a diagnostic already.
			continue
		}
		before, twice := first[limit.goName]
		if !twice {
			first[limit.goName] = i
			continue
		}
		p.report(entries[i].named, sameGoName, "set goName on one of them",
			"%s and %s both have the Go method %s", quote(entries[before].name), quote(entries[i].name), clip(limit.goName))
		p.note(entries[before].named, "the first is here")
	}
}

var (
	// ownMethods are the other methods of the generated type.
	ownMethods = []string{"All", "ReserveAll", "WithTx"}
	// vettedMethods are the methods whose signature go vet checks on every type.
	vettedMethods = []string{
		"GobDecode", "GobEncode", "MarshalJSON", "MarshalXML", "ReadByte", "ReadRune", "Seek", "UnmarshalJSON",
		"UnmarshalXML", "UnreadByte", "UnreadRune", "WriteByte",
	}
	reservedGoNames = slices.Concat(ownMethods, vettedMethods)
)

// reservedGoName reports a Go name that no limit can have, and returns whether it is one.
func (p *reader) reservedGoName(at span, name string) bool {
	const help = "choose another name with goName:"
	switch {
	case slices.Contains(ownMethods, name):
		p.report(at, reservedName, help, "the generated code has another method %s", name)
	case slices.Contains(vettedMethods, name):
		p.report(at, reservedName, help, "go vet requires a method %s to have the signature of the standard library", name)
	default:
		return false
	}
	return true
}

func (p *reader) goName(limit *draft, e entry) bool {
	if name, ok := p.exportedName(e); ok {
		limit.goName = name
		return true
	}
	return false
}

func (p *reader) exportedName(e entry) (string, bool) {
	name, ok := p.text(e, "an exported Go identifier")
	if !ok {
		return "", false
	}
	switch {
	case p.reservedGoName(e.at, name):
	case exportedForm.MatchString(name):
		return name, true
	default:
		p.report(e.at, badGoName, "begin with a capital letter and use letters and digits only",
			"goName must be an exported Go identifier, not %s", quote(name))
		p.meant(goName(camelCase(name)))
	}
	return "", false
}

const maxKeyParts = 8

const partPattern = `^[a-z][a-zA-Z0-9_]*$`

var partForm = regexp.MustCompile(partPattern)

// keyParts reads a key: the name of one string, or a map from names to types.
func (p *reader) keyParts(limit *draft, e entry) bool {
	switch {
	case isString(e.value):
		if !p.partName(e.value.Value, e.at) {
			return false
		}
		limit.key = []KeyPart{{Name: e.value.Value, Type: "string"}}
		return true
	case e.value.Kind == yaml.MappingNode:
		return p.keyMap(limit, e)
	case e.value.Kind == yaml.SequenceNode:
		p.wrongType(e, "a name or a map from names to types", "write {userID: string, teamID: string}")
	case e.value.Tag == "!!null":
		p.report(e.at, wrongType, "leave key out for one count that all callers share, or name a part: key: userID", "key must be a name, not null")
	default:
		p.wrongType(e, "a name or a map from names to types", "")
	}
	return false
}

func (p *reader) keyMap(limit *draft, e entry) bool {
	entries, _ := p.entries(e.value, e.at, "key", "")
	if len(e.value.Content) == 0 {
		p.report(e.at, wrongType, "leave key out for one count that all callers share", "key must have a part, not be an empty map")
	}
	parts := slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return e.again })
	if len(parts) > maxKeyParts {
		p.report(parts[maxKeyParts].named, tooManyKeyParts, "join some of them into a type of your own with a MarshalText method",
			"a key has at most %d parts, not %d", maxKeyParts, len(parts))
	}
	before := len(p.found)
	for _, part := range entries {
		if p.muted[part.value] || p.missingSpaceAfterColon(part, badKeyPart) {
			continue
		}
		named, typed := part.again || p.partName(part.name, part.named), p.keyType(part)
		if named && typed {
			limit.key = append(limit.key, KeyPart{part.name, part.value.Value})
		}
	}
	return len(p.found) == before
}

// partName reports the name of a part of a key that no Go parameter can have.
func (p *reader) partName(name string, at span) bool {
	const help = "choose another name, such as userID"
	switch {
	case token.IsKeyword(name):
		p.report(at, badKeyPart, help, "a part of a key cannot be named %s, a keyword of Go", quote(name))
	case slices.Contains(keyTypes, name):
		p.report(at, badKeyPart, "give the part a name: {userID: "+name+"}", "a part of a key cannot be named %s, a type", quote(name))
	case !partForm.MatchString(name):
		p.report(at, badKeyPart, "name it like a Go parameter, such as userID",
			"a part of a key must be a Go identifier that begins with a lowercase letter, not %s", quote(name))
		p.meant(meantPart(name))
	default:
		return true
	}
	return false
}

// unusableParts are the identifiers that [reader.partName] refuses.
func unusableParts() []string {
	return slices.Concat(keyTypes, goKeywords())
}

// meantPart returns the part of a key that a name which is not an identifier probably means, or "".
func meantPart(name string) string {
	if parts := typedForm.FindStringSubmatch(name); parts != nil && slices.Contains(keyTypes, parts[3]) {
		return "{" + parts[1] + ": " + parts[3] + "}"
	}
	return camelCase(name)
}

// keyType reports a type that no part of a key can have.
func (p *reader) keyType(part entry) bool {
	what := label(part.name)
	if !isString(part.value) {
		p.report(part.at, badKeyType, "write {"+what+": string}", "%s must have a type, not %s", what, describe(part.value))
		return false
	}
	written := part.value.Value
	if slices.Contains(keyTypes, written) || addrPrefixForm.MatchString(written) || typeForm.MatchString(written) && !unimportedForm.MatchString(written) {
		return true
	}
	p.report(part.at, badKeyType, typeHelp(written), "%s cannot have the type %s", what, quote(written))
	p.meant(meantType(written))
	return false
}

// commonTypes are types that people try, and the closest supported type.
var commonTypes = map[string]string{
	"text": "string", "str": "string", "[]byte": "string", "integer": "int64", "number": "int64", "int32": "int64", "int16": "int64",
	"int8": "int64", "uint": "uint64", "uint32": "uint64", "uint16": "uint64", "uint8": "uint64", "byte": "uint64", "boolean": "bool",
	"ip": "netip.Addr", "uuid": "string", "UUID": "string", "ip/64": "netip.Addr/64", "cidr": "netip.Addr/64",
	"hash": hashedString, "hashed": hashedString, "sha256": hashedString, "secret": hashedString, "email": hashedString,
	"string hashed": hashedString, "hashed(string)": hashedString,
}

// meantType returns the type that text probably means, or "".
func meantType(text string) string {
	meant, common := commonTypes[text]
	switch {
	case common:
		return meant
	case addrPrefixForm.MatchString(strings.ReplaceAll(text, " ", "")):
		return strings.ReplaceAll(text, " ", "")
	case strings.HasPrefix(text, addrType+"/"):
		return ""
	case strings.HasPrefix(text, "netip."):
		return "net/" + text
	}
	return Nearest(text, keyTypes)
}

// typeHelp returns the remedy for an unsupported type.
func typeHelp(text string) string {
	switch {
	case strings.HasPrefix(text, addrType+"/"):
		return "the bits of an IPv6 address that count are 1 to 128: write netip.Addr/64"
	case strings.HasPrefix(text, "hashed "):
		return "only a string can be hashed: write " + hashedString
	case unimportedForm.MatchString(text):
		return "Go cannot import a package from that path"
	case exportedForm.MatchString(text):
		return "write the type with its import path: example.com/ids." + text
	}
	return "the types are " + strings.ReplaceAll(keyTypesInWords, "`", "")
}
