package spec

import (
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// kind reads the kind of a limit.
func (p *parser) kind(limit *Limit, e entry) bool {
	kind, ok := oneOf(e, runtime.Kinds())
	if !ok {
		p.report(e.at, badKind, "", "kind must be %s, not %s", words.List(kindNames(), "or"), describe(e.value))
		p.meant(meantKind(e.value.Value))
	}
	limit.Policy.Kind = kind
	return ok
}

// meantKind returns the kind that was probably meant by text: a near one, or the only one with the word.
func meantKind(text string) string {
	if meant := Nearest(text, kindNames()); meant != "" {
		return meant
	}
	var having []string
	for _, kind := range kindNames() {
		if slices.Contains(strings.Fields(kind), strings.ToLower(text)) {
			having = append(having, kind)
		}
	}
	if len(having) == 1 {
		return having[0]
	}
	return ""
}
