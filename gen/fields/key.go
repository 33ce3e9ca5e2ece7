package fields

import (
	"fmt"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

var keyField = limitField{
	name:      "key",
	about:     "What requests are counted per. Every part becomes a parameter of the method.",
	accepts:   "a name, such as `userID`, for one string, or a map from names to types: " + spec.KeyTypesInWords,
	more:      "`netip.Addr/64` counts the first 64 bits (1 to 128) of an IPv6 address; an IPv4 address counts whole. A `hashed string`, such as an API key, is stored as its SHA-256, from which a telephone number can be found by trying all of them, or with the option `limiter.HashKeys` as an HMAC with a secret. Of a `folded string`, such as an e-mail address, upper and lower case, and the ways to write an accent, are one key. A type of your own needs a MarshalText method. A part of several types, such as `{caller: [userID: int64, addr: netip.Addr/64]}`, is a user or an address: the parameter is made by `CallerUserID` or `CallerAddr`, which limits with the same part share. Operators and traces write `userID:7`.",
	absent:    "one count, shared by all callers",
	example:   "{userID: int64}",
	schema:    keySchema,
	read:      (*parser).readKey,
	change:    ids.KeyChanged,
	effective: KeyOf,
}

const maxKeyParts = 8

var partForm = regexp.MustCompile(`^[a-z][a-zA-Z0-9_]*$`)

// readKey reads a key: the name of one string, or a map from names to types.
func (p *parser) readKey(l *draft, e document.Entry) bool {
	switch {
	case document.IsString(e.Value):
		if !p.partName(e.Value.Value, e.At) {
			return false
		}
		l.limit.Key = []spec.KeyPart{{Name: e.Value.Value, Type: "string"}}
		return true
	case e.Value.Kind == yaml.MappingNode:
		return p.readKeyMap(l, e)
	case e.Value.Kind == yaml.SequenceNode:
		p.doc.WrongType(e, "a name or a map from names to types",
			"write key: {"+strings.Join(typedParts(e.Value.Content), ", ")+"}")
	case e.Value.Tag == "!!null":
		p.doc.Report(e.At, ids.WrongType, "leave key out for one count that all callers share, or name a part: key: userID",
			"key must be a name, not null")
	default:
		p.doc.WrongType(e, "a name or a map from names to types", "")
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

func (p *parser) readKeyMap(l *draft, e document.Entry) bool {
	entries, _ := p.doc.Entries(e.Value, e.At, "key", "")
	if len(e.Value.Content) == 0 {
		p.doc.Report(e.At, ids.WrongType, "leave key out for one count that all callers share",
			"key must have a part, not be an empty map")
	}
	parts := slices.DeleteFunc(slices.Clone(entries), func(e document.Entry) bool { return e.Again })
	if len(parts) > maxKeyParts {
		p.doc.Report(parts[maxKeyParts].Named, ids.TooManyKeyParts,
			"join some of them into a type of your own with a MarshalText method",
			"a key has at most %d parts, not %d", maxKeyParts, len(parts))
	}
	before := len(p.doc.Found)
	for _, part := range entries {
		if p.doc.Muted(part.Value) || p.doc.MissingSpaceAfterColon(part, ids.BadKeyPart) {
			continue
		}
		named, read := part.Again || p.partName(part.Name, part.Named), spec.KeyPart{Name: part.Name, Type: part.Value.Value}
		typed := false
		if part.Value.Kind == yaml.SequenceNode {
			read.Type, typed = p.alternatives(part)
			if typed && named && !part.Again {
				p.claimAlternatives(part, read)
			}
		} else {
			typed = p.keyType(part)
		}
		if named && typed {
			l.limit.Key = append(l.limit.Key, read)
		}
	}
	return len(p.doc.Found) == before
}

const (
	maxAlternatives  = 8
	alternativesHelp = "write a name and a type for each: [userID: int64, addr: netip.Addr/64]"
)

// alternatives reads a part that has one of several types.
func (p *parser) alternatives(part document.Entry) (typ string, ok bool) {
	what, nodes := diag.Label(part.Name), part.Value.Content
	if p.doc.Muted(part.Value) {
		return "", false
	}
	if len(nodes) < 2 || len(nodes) > maxAlternatives {
		p.doc.Report(part.At, ids.BadKeyType, alternativesHelp, "a list of the types of %s has 2 to %d, not %d", what,
			maxAlternatives, len(nodes))
		return "", false
	}
	ok = true
	var list []spec.KeyPart
	first := map[string]diag.Span{}
	for _, node := range nodes {
		at := p.doc.Source.At(node)
		if node.Kind != yaml.MappingNode || len(node.Content) != 2 {
			p.doc.Report(at, ids.BadKeyType, alternativesHelp, "an alternative of %s must be a name and a type, not %s", what,
				document.Describe(node))
			return "", false
		}
		entries, _ := p.doc.Entries(node, at, "an alternative", alternativesHelp)
		if len(entries) != 1 {
			return "", false
		}
		of := entries[0]
		named, typed := p.partName(of.Name, of.Named), p.keyType(of)
		again := p.doc.Twice(first, of.Name, of.Named, "")
		ok = ok && named && typed && !again
		list = append(list, spec.KeyPart{Name: of.Name, Type: of.Value.Value})
	}
	return spec.AlternativesType(list), ok
}

// claimAlternatives claims the Go names of a part that has one of several types. Parts with the same name and types share
// them.
func (p *parser) claimAlternatives(e document.Entry, part spec.KeyPart) {
	own := owner{what: "the key part " + part.Name + " of " + part.TypeInWords(), at: e.Named, part: true}
	names := []string{part.GoType()}
	for _, of := range part.Alternatives() {
		names = append(names, part.Constructor(of))
	}
	for _, name := range names {
		if slices.Contains(spec.OwnTypes, name) || slices.Contains(spec.OwnNames, name) {
			p.doc.Report(e.Named, ids.SameGoName, "give the part another name", "the generated code and %s both have the Go name %s",
				own.what, name)
			return
		}
	}
	p.claim(own, words.Of(names, func(name string) string { return "name " + name })...)
}

// partName reports the name of a part of a key that no Go parameter can have.
func (p *parser) partName(name string, at diag.Span) bool {
	const help = "choose another name, such as userID"
	switch {
	case token.IsKeyword(name):
		p.doc.Report(at, ids.BadKeyPart, help, "a part of a key cannot be named %s, a keyword of Go", diag.Quote(name))
	case slices.Contains(spec.KeyTypes, name):
		p.doc.Report(at, ids.BadKeyPart, "give the part a name: {userID: "+name+"}", "a part of a key cannot be named %s, a type",
			diag.Quote(name))
	case !partForm.MatchString(name):
		p.doc.Report(at, ids.BadKeyPart, "name it like a Go parameter, such as userID",
			"a part of a key must be a Go identifier that begins with a lowercase letter, not %s", diag.Quote(name))
		p.doc.Offer(meantPart(name))
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
func (p *parser) keyType(part document.Entry) bool {
	what := diag.Label(part.Name)
	if !document.IsString(part.Value) {
		p.doc.Report(part.At, ids.BadKeyType, "write {"+what+": string}", "%s must have a type, not %s", what,
			document.Describe(part.Value))
		return false
	}
	written := part.Value.Value
	switch {
	case slices.Contains(spec.KeyTypes, written), spec.AddrPrefixForm.MatchString(written),
		spec.ExportedForm.MatchString(written) && !slices.Contains(noOwnTypes, written):
		return true
	case spec.TypeForm.MatchString(written) && !spec.UnimportedForm.MatchString(written) && !spec.Unqualified(written):
		return true
	}
	p.doc.Report(part.At, ids.BadKeyType, typeHelp(written), "%s cannot have the type %s", what, diag.Quote(written))
	p.doc.Offer(p.meantType(written))
	return false
}

// commonTypes are types that people try, and the closest supported type.
var commonTypes = map[string]string{
	"text": "string", "str": "string", "[]byte": "string", "integer": "int64", "number": "int64", "int32": "int64", "int16": "int64",
	"int8": "int64", "uint": "uint64", "uint32": "uint64", "uint16": "uint64", "uint8": "uint64", "byte": "uint64", "boolean": "bool",
	"ip": "netip.Addr", "uuid": "string", "UUID": "string", "ip/64": "netip.Addr/64", "cidr": "netip.Addr/64",
	"hash": spec.HashedString, "hashed": spec.HashedString, "sha256": spec.HashedString, "secret": spec.HashedString, "email": spec.HashedString,
	"string hashed": spec.HashedString, "hashed(string)": spec.HashedString,
	"folded": spec.FoldedString, "string folded": spec.FoldedString, "folded(string)": spec.FoldedString, "citext": spec.FoldedString, "lowercase": spec.FoldedString,
	"folded hashed string": spec.HashedFoldedString, "hashed folded": spec.HashedFoldedString,
}

// noOwnTypes are names that a type of the generated package cannot have in a key.
var noOwnTypes = slices.Concat(slices.Sorted(maps.Keys(commonTypes)), spec.OwnTypes)

// knownTypes are types that are common in keys, as Go code writes them, with the import path of their package.
var knownTypes = map[string]string{
	"uuid.UUID": "github.com/google/uuid", "uuid.NullUUID": "github.com/google/uuid", "ulid.ULID": "github.com/oklog/ulid/v2", "xid.ID": "github.com/rs/xid",
	"ksuid.KSUID": "github.com/segmentio/ksuid", "snowflake.ID": "github.com/bwmarrin/snowflake",
}

// meantType returns the type that text probably means, or "".
func (p *parser) meantType(text string) string {
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
	return p.doc.Nearest(text, func() []string { return spec.KeyTypes })
}

// typeHelp returns the remedy for an unsupported type.
func typeHelp(text string) string {
	switch {
	case strings.HasPrefix(text, spec.AddrType+"/"):
		return "the bits of an IPv6 address that count are 1 to 128: write netip.Addr/64"
	case strings.HasPrefix(text, "hashed "):
		return "only a string can be hashed: write " + spec.HashedString
	case strings.HasPrefix(text, "folded "):
		return "only a string can be folded: write " + spec.FoldedString
	case slices.Contains(spec.OwnTypes, text):
		return "rename the type: the generated package declares " + text + " itself"
	case spec.UnimportedForm.MatchString(text):
		return "Go cannot import a package from that path"
	case spec.Unqualified(text):
		return "write the type with its import path, as in example.com/" + text +
			", or the name alone if it is in the generated package"
	}
	return "the types are " + strings.ReplaceAll(spec.KeyTypesInWords, "`", "")
}

var typeSchema = object{"anyOf": typeSchemas}

var typeSchemas = []any{
	object{"enum": spec.KeyTypes},
	object{"type": "string", "pattern": spec.AddrPrefixForm.String()},
	object{"type": "string", "pattern": spec.ExportedForm.String(), "not": object{"enum": noOwnTypes}},
	object{"type": "string", "pattern": spec.TypeForm.String(), "not": object{"anyOf": []any{
		object{"pattern": spec.UnimportedForm.String()},
		object{"pattern": spec.UnqualifiedForm.String(),
			"not": object{"pattern": "^(" + strings.Join(spec.TopPackages, "|") + `)\.`}},
	}}},
}

var partSchema = object{"type": "string", "pattern": partForm.String(), "not": object{"enum": unusableParts()}}

// keySchema is the schema of a name or a map. It has two types, because editors would show the errors of both schemas of
// an anyOf.
var keySchema = object{
	"type":                 []string{"string", "object"},
	"pattern":              partForm.String(),
	"not":                  object{"enum": unusableParts()},
	"minProperties":        1,
	"maxProperties":        maxKeyParts,
	"propertyNames":        partSchema,
	"additionalProperties": object{"anyOf": append(slices.Clone(typeSchemas), alternativesSchema)},
}

// alternativesSchema is the schema of a list of types, each with a name.
var alternativesSchema = object{
	"type":     "array",
	"minItems": 2,
	"maxItems": maxAlternatives,
	"items":    object{"type": "object", "minProperties": 1, "maxProperties": 1, "propertyNames": partSchema, "additionalProperties": typeSchema},
}

// KeyOf is a map of names to types, whether the file names one string or has a map.
func KeyOf(l *spec.Limit) string {
	if len(l.Key) == 0 {
		return ""
	}
	return "{" + strings.Join(words.Of(l.Key, func(part spec.KeyPart) string { return part.Name + ": " + part.Type }), ", ") + "}"
}

// keySentences describes the parts of the key that are not stored as they are passed. They are no sentences of the field
// key, because they come last.
func keySentences(l *spec.Limit) (sentences []string) {
	for _, part := range l.Key {
		if alternatives := part.Alternatives(); len(alternatives) > 0 {
			sentences = append(sentences, fmt.Sprintf("As %s, %s never share a count.", part.Name,
				words.List(spec.PartNames(alternatives), "and")))
		}
		for _, of := range part.Single() {
			sentences = append(sentences, storedSentences(of)...)
		}
	}
	return sentences
}

// storedSentences describes a part, or an alternative of one, that is not stored as it is passed.
func storedSentences(part spec.KeyPart) (sentences []string) {
	if part.Folded() {
		sentences = append(sentences, fmt.Sprintf("Upper and lower case of %s are one key.", part.Name))
	}
	if part.Hashed() {
		sentences = append(sentences, fmt.Sprintf("Only a hash of %s is stored.", part.Name))
	}
	if bits := part.PrefixBits(); bits > 0 {
		sentences = append(sentences, fmt.Sprintf("For an IPv6 address, the first %s of %s count.",
			words.Count(int64(bits), "bit"), part.Name))
	}
	return sentences
}
