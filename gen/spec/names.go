package spec

import (
	"go/token"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"
)

// initialisms are the words that Go names have in capitals: the list of staticcheck, LLM and SMS. It must not change,
// because that would rename generated methods.
var initialisms = map[string]bool{
	"ACL": true, "AMQP": true, "API": true, "ASCII": true, "CPU": true, "CSS": true, "DB": true, "DNS": true,
	"EOF": true, "GID": true, "GUID": true, "HTML": true, "HTTP": true, "HTTPS": true, "ID": true, "IP": true,
	"JSON": true, "LLM": true, "QPS": true, "RAM": true, "RPC": true, "RTP": true, "SIP": true, "SLA": true, "SMS": true,
	"SMTP": true, "SQL": true, "SSH": true, "TCP": true, "TLS": true, "TS": true, "TTL": true, "UDP": true,
	"UI": true, "UID": true, "URI": true, "URL": true, "UTF8": true, "UUID": true, "VM": true, "XML": true,
	"XMPP": true, "XSRF": true, "XSS": true,
}

// goName returns the exported Go name for a camelCase one: APIKeys for apiKeys.
func goName(name string) string {
	var out strings.Builder
	for _, word := range camelWords(name) {
		if upper := strings.ToUpper(word); initialisms[upper] {
			out.WriteString(upper)
		} else {
			out.WriteString(capital(word))
		}
	}
	return out.String()
}

func capital(word string) string {
	head := first(word, 1)
	return strings.ToUpper(head) + word[len(head):]
}

// camelWords splits a name before every capital letter that does not follow another.
func camelWords(name string) []string {
	var words []string
	start := 0
	for i := 1; i < len(name); i++ {
		if isUpper(name[i]) && !isUpper(name[i-1]) {
			words = append(words, name[start:i])
			start = i
		}
	}
	if start < len(name) {
		words = append(words, name[start:])
	}
	return words
}

// leadingCapitals returns how many bytes at the beginning of a word are lowercase in camelCase: all leading capitals,
// except one that begins the next word. It is 3 for LLM, and 4 for HTTPRequests.
func leadingCapitals(word string) int {
	n := 0
	for n < len(word) && isUpper(word[n]) {
		n++
	}
	// The last capital of HTTPRequests begins the next word.
	if n > 1 && n < len(word) && 'a' <= word[n] && word[n] <= 'z' {
		n--
	}
	return max(n, len(first(word, 1)))
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }

// camelCase returns the name of a limit that send-message, SendMessage or send message probably means, or "".
func camelCase(name string) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, word := range words {
		if i > 0 {
			words[i] = goName(word)
			continue
		}
		head := word[:leadingCapitals(word)]
		words[i] = strings.ToLower(head) + word[len(head):]
	}
	if joined := strings.Join(words, ""); limitNameForm.MatchString(joined) && len(joined) <= longest {
		return joined
	}
	return ""
}

// sameGoNames reports limits that have the same Go method.
func (p *parser) sameGoNames(entries []entry, limits []*draft) {
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

const exportedPattern = `^[A-Z][A-Za-z0-9_]*$`

var exportedForm = regexp.MustCompile(exportedPattern)

// reservedGoName reports a Go name that no limit can have, and returns whether it is one.
func (p *parser) reservedGoName(at span, name string) bool {
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

func (p *parser) goName(limit *draft, e entry) bool {
	if name, ok := p.exportedName(e); ok {
		limit.goName = name
		return true
	}
	return false
}

func (p *parser) exportedName(e entry) (string, bool) {
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

// Nearest returns the word that a misspelled one probably means, or "" if no word is similar.
func Nearest(written string, words []string) string {
	best, least := "", 0
	for _, word := range words {
		d, ok := near(fold(written), fold(word))
		if ok && (best == "" || d < least) {
			best, least = word, d
		}
	}
	return best
}

// fold drops differences that are not misspellings: case, and separators of words.
func fold(word string) []rune {
	return []rune(strings.NewReplacer("-", "", "_", "", " ", "", "\t", "").Replace(strings.ToLower(word)))
}

// near returns the distance of two words, and whether one can be a misspelling of the other: one edit, or one for every
// three runes.
func near(a, b []rune) (int, bool) {
	shorter, longer := min(len(a), len(b)), max(len(a), len(b))
	allowed := max(1, shorter/3)
	// The distance is at least the difference in length, which saves computing it for most words.
	if longer-shorter > allowed {
		return 0, false
	}
	d := distance(a, b)
	// If every rune differs, the words have nothing in common, however short they are.
	return d, d <= allowed && d < shorter
}

// distance returns how many runes must be inserted, dropped, replaced or swapped with their neighbour to turn one word
// into the other: the optimal string alignment distance.
func distance(a, b []rune) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range b {
			swap := last[j]
			if a[i] != b[j] {
				swap++
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, swap)
			// Swapped neighbours are one mistake, not two.
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

const maxKeyParts = 8

const partPattern = `^[a-z][a-zA-Z0-9_]*$`

var partForm = regexp.MustCompile(partPattern)

// keyParts reads a key: the name of one string, or a map from names to types.
func (p *parser) keyParts(limit *draft, e entry) bool {
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

func (p *parser) keyMap(limit *draft, e entry) bool {
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
func (p *parser) partName(name string, at span) bool {
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

// unusableParts are the identifiers that [parser.partName] refuses.
func unusableParts() []string {
	return slices.Concat(keyTypes, goKeywords())
}

var typedForm = regexp.MustCompile(`^([a-z][a-zA-Z0-9_]*)(:| +)([a-z0-9]+|netip\.Addr)$`)

// meantPart returns the part of a key that a name which is not an identifier probably means, or "".
func meantPart(name string) string {
	if parts := typedForm.FindStringSubmatch(name); parts != nil && slices.Contains(keyTypes, parts[3]) {
		return "{" + parts[1] + ": " + parts[3] + "}"
	}
	return camelCase(name)
}

const (
	elementPattern = `[a-zA-Z0-9_~-]+(\.[a-zA-Z0-9_~-]+)*`
	// unimportedPattern matches the import paths that Go refuses in every module: packages that cannot be imported,
	// elements that begin with a dash or a tilde, and names that Windows reserves or shortens.
	unimportedPattern = `^(netip|C|main|unsafe|builtin|cmd)\.|^(cmd|internal|vendor)/|/vendor/|(^|/)[-~]|(^|/)[^./]*~[0-9]+[./]|` +
		`(^|/)([cC][oO][nN]|[pP][rR][nN]|[aA][uU][xX]|[nN][uU][lL]|[cC][oO][mM][1-9]|[lL][pP][tT][1-9])[./]`
	typePattern     = `^` + elementPattern + `(/` + elementPattern + `)*\.[A-Z][a-zA-Z0-9_]*$`
	keyTypesInWords = "`string`, `hashed string`, `bool`, `int`, `int64`, `uint64`, `netip.Addr`, `netip.Addr/64` or `import/path.Type`"
	addrType        = "netip.Addr"
	// addrPrefixPattern matches the type of an address of which 1 to 128 bits count.
	addrPrefixPattern = `^netip\.Addr/([1-9][0-9]?|1[01][0-9]|12[0-8])$`
)

var (
	unimportedForm = regexp.MustCompile(unimportedPattern)
	typeForm       = regexp.MustCompile(typePattern)
	addrPrefixForm = regexp.MustCompile(addrPrefixPattern)
	keyTypes       = []string{"string", hashedString, "bool", "int", "int64", "uint64", addrType, "netip.Addr/64"}
)

// keyType reports a type that no part of a key can have.
func (p *parser) keyType(part entry) bool {
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
