package spec

import (
	"go/token"
	"regexp"
	"strings"
	"unicode"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
)

var (
	// LimitNameForm matches the name of a limit or a group.
	LimitNameForm = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)
	// ExportedForm matches an exported identifier of Go.
	ExportedForm = regexp.MustCompile(`^[A-Z][A-Za-z0-9_]*$`)
)

// GoKeywords returns the keywords of Go.
func GoKeywords() []string {
	var keywords []string
	// Package token has fewer than 256 tokens and no list of them.
	for t := token.Token(0); t < 1<<8; t++ {
		if t.IsKeyword() {
			keywords = append(keywords, t.String())
		}
	}
	return keywords
}

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

// GoName returns the exported Go name for a camelCase one: APIKeys for apiKeys.
func GoName(name string) string {
	var out strings.Builder
	for _, word := range camelWords(name) {
		if upper := strings.ToUpper(word); initialisms[upper] {
			out.WriteString(upper)
		} else {
			out.WriteString(Capital(word))
		}
	}
	return out.String()
}

// Capital returns a word with a capital letter.
func Capital(word string) string {
	head := diag.First(word, 1)
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

// leadingCapitals returns how many bytes at the beginning of a word are lowercase in CamelCase: all leading capitals,
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
	return max(n, len(diag.First(word, 1)))
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }

// CamelCase returns the name of a limit that send-message, SendMessage or send message probably means, or "".
func CamelCase(name string) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, word := range words {
		if i > 0 {
			words[i] = GoName(word)
			continue
		}
		head := word[:leadingCapitals(word)]
		words[i] = strings.ToLower(head) + word[len(head):]
	}
	if joined := strings.Join(words, ""); LimitNameForm.MatchString(joined) && len(joined) <= diag.Longest {
		return joined
	}
	return ""
}
