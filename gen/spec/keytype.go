package spec

import (
	"regexp"
	"slices"
	"strings"
)

const (
	elementPattern  = `[a-zA-Z0-9_~-]+(\.[a-zA-Z0-9_~-]+)*`
	typePattern     = `^` + elementPattern + `(/` + elementPattern + `)*\.[A-Z][a-zA-Z0-9_]*$`
	keyTypesInWords = "`string`, `bool`, `int`, `int64`, `uint64`, `netip.Addr` or `import/path.Type`"
)

var (
	typeForm = regexp.MustCompile(typePattern)
	keyTypes = []string{"string", "bool", "int", "int64", "uint64", "netip.Addr"}
)

// keyType reports a type that a part of a key cannot have.
func (p *parser) keyType(part entry) bool {
	what := label(part.name)
	if !isString(part.value) {
		p.report(part.at, badKeyType, didYouMean("{"+what+": string}"), "%s must have a type, not %s", what, describe(part.value))
		return false
	}
	written := part.value.Value
	if slices.Contains(keyTypes, written) || typeForm.MatchString(written) && !strings.HasPrefix(written, "netip.") {
		return true
	}
	p.report(part.at, badKeyType, meantType(written), "%s cannot have the type %s", what, quote(written))
	return false
}

// commonTypes are types that people try, and what to write for them.
var commonTypes = map[string]string{
	"text": "string", "str": "string", "[]byte": "string", "integer": "int64", "number": "int64", "int32": "int64", "int16": "int64",
	"int8": "int64", "uint": "uint64", "uint32": "uint64", "uint16": "uint64", "uint8": "uint64", "byte": "uint64", "boolean": "bool",
	"ip": "netip.Addr", "uuid": "string", "UUID": "string",
}

// meantType asks for the type that was probably meant by text.
func meantType(text string) string {
	if meant, ok := commonTypes[text]; ok {
		return didYouMean(meant)
	}
	if strings.HasPrefix(text, "netip.") {
		return didYouMean("net/" + text)
	}
	if meant := Nearest(text, keyTypes); meant != "" {
		return didYouMean(meant)
	}
	if exportedForm.MatchString(text) {
		return "write its import path too: example.com/ids." + text
	}
	return "the types are " + strings.ReplaceAll(keyTypesInWords, "`", "")
}
