package spec

import (
	"regexp"
	"slices"
	"strings"
)

const (
	elementPattern = `[a-zA-Z0-9_~-]+(\.[a-zA-Z0-9_~-]+)*`
	// unimportedPattern is the import paths that Go refuses, whatever the module: packages that are not for
	// import, elements that begin with a dash or a tilde, and names that Windows reserves or shortens.
	unimportedPattern = `^(netip|C|main|unsafe|builtin|cmd)\.|^(cmd|internal|vendor)/|/vendor/|(^|/)[-~]|(^|/)[^./]*~[0-9]+[./]|` +
		`(^|/)([cC][oO][nN]|[pP][rR][nN]|[aA][uU][xX]|[nN][uU][lL]|[cC][oO][mM][1-9]|[lL][pP][tT][1-9])[./]`
	typePattern     = `^` + elementPattern + `(/` + elementPattern + `)*\.[A-Z][a-zA-Z0-9_]*$`
	keyTypesInWords = "`string`, `bool`, `int`, `int64`, `uint64`, `netip.Addr` or `import/path.Type`"
)

var (
	unimportedForm = regexp.MustCompile(unimportedPattern)
	typeForm       = regexp.MustCompile(typePattern)
	keyTypes       = []string{"string", "bool", "int", "int64", "uint64", "netip.Addr"}
)

// keyType reports a type that a part of a key cannot have.
func (p *parser) keyType(part entry) bool {
	what := label(part.name)
	if !isString(part.value) {
		p.report(part.at, badKeyType, "write {"+what+": string}", "%s must have a type, not %s", what, describe(part.value))
		return false
	}
	written := part.value.Value
	if slices.Contains(keyTypes, written) || typeForm.MatchString(written) && !unimportedForm.MatchString(written) {
		return true
	}
	p.report(part.at, badKeyType, typeHelp(written), "%s cannot have the type %s", what, quote(written))
	p.meant(meantType(written))
	return false
}

// commonTypes are types that people try, and what to write for them.
var commonTypes = map[string]string{
	"text": "string", "str": "string", "[]byte": "string", "integer": "int64", "number": "int64", "int32": "int64", "int16": "int64",
	"int8": "int64", "uint": "uint64", "uint32": "uint64", "uint16": "uint64", "uint8": "uint64", "byte": "uint64", "boolean": "bool",
	"ip": "netip.Addr", "uuid": "string", "UUID": "string",
}

// meantType returns the type that was probably meant by text; "" if there is none.
func meantType(text string) string {
	meant, common := commonTypes[text]
	switch {
	case common:
		return meant
	case strings.HasPrefix(text, "netip."):
		return "net/" + text
	}
	return Nearest(text, keyTypes)
}

// typeHelp says what to write in place of text.
func typeHelp(text string) string {
	switch {
	case unimportedForm.MatchString(text):
		return "Go cannot import a package from that path"
	case exportedForm.MatchString(text):
		return "write its import path too: example.com/ids." + text
	}
	return "the types are " + strings.ReplaceAll(keyTypesInWords, "`", "")
}
