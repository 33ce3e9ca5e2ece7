package spec

import (
	"go/token"
	"regexp"
	"slices"

	"gopkg.in/yaml.v3"
)

// maxKeyParts is the largest number of parts of a key.
const maxKeyParts = 8

const partPattern = `^[a-z][a-zA-Z0-9_]*$`

var partForm = regexp.MustCompile(partPattern)

// keyParts reads a key: the name of one string, or a map from names to types.
func (p *parser) keyParts(limit *Limit, e entry) bool {
	switch {
	case isString(e.value):
		if !p.partName(e.value.Value, e.at) {
			return false
		}
		limit.Key = []KeyPart{{Name: e.value.Value, Type: "string"}}
		return true
	case e.value.Kind == yaml.MappingNode:
		return p.keyMap(limit, e)
	case e.value.Kind == yaml.SequenceNode:
		p.wrongType(e, "a name or a map from names to types", "write {userID: string, teamID: string}")
	case e.value.Tag == "!!null":
		p.report(e.at, wrongType, "leave key out for one count that everybody shares, or name it: key: userID", "key must be a name, not nothing")
	default:
		p.wrongType(e, "a name or a map from names to types", "")
	}
	return false
}

func (p *parser) keyMap(limit *Limit, e entry) bool {
	entries, _ := p.entries(e.value, e.at, "key", "")
	if len(e.value.Content) == 0 {
		p.report(e.at, wrongType, "leave key out for one count that everybody shares", "key must name a part, not be an empty map")
	}
	parts := slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return e.again })
	if len(parts) > maxKeyParts {
		p.report(parts[maxKeyParts].named, tooManyKeyParts, "join some of them into a type of your own with a MarshalText method",
			"a key has at most %d parts, not %d", maxKeyParts, len(parts))
	}
	before := len(p.found)
	for _, part := range entries {
		if p.settled[part.value] || p.tightColon(part, badKeyPart) {
			continue
		}
		named, typed := part.again || p.partName(part.name, part.named), p.keyType(part)
		if named && typed {
			limit.Key = append(limit.Key, KeyPart{part.name, part.value.Value})
		}
	}
	return len(p.found) == before
}

// partName reports a part of a key whose name cannot be the name of a Go parameter.
func (p *parser) partName(name string, at span) bool {
	const help = "choose another name, such as userID"
	switch {
	case token.IsKeyword(name):
		p.report(at, badKeyPart, help, "a part of a key cannot be named %s, a keyword of Go", quote(name))
	case slices.Contains(keyTypes, name):
		p.report(at, badKeyPart, "name the part too: {userID: "+name+"}", "a part of a key cannot be named %s, a type", quote(name))
	case !partForm.MatchString(name):
		p.report(at, badKeyPart, "name it like a Go parameter, such as userID",
			"a part of a key must be a Go identifier that begins with a small letter, not %s", quote(name))
		p.meant(meantPart(name))
	default:
		return true
	}
	return false
}

// unusableParts are the identifiers that [parser.partName] refuses.
func unusableParts() []string {
	return slices.Concat(keyTypes, goKeywords())
}

var typedForm = regexp.MustCompile(`^([a-z][a-zA-Z0-9_]*)(:| +)([a-z0-9]+|netip\.Addr)$`)

// meantPart returns what was probably meant by a name that is no identifier; "" if there is nothing.
func meantPart(name string) string {
	if parts := typedForm.FindStringSubmatch(name); parts != nil && slices.Contains(keyTypes, parts[3]) {
		return "{" + parts[1] + ": " + parts[3] + "}"
	}
	return camelCase(name)
}
