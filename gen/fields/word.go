package fields

import (
	"fmt"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// wordOf completes a field with the place of one of several words in the policy. The synonyms are used for suggestions only.
func wordOf[W fmt.Stringer](broken *ids.Meaning, known []W, synonyms map[string]W, place func(*runtime.Policy) *W, f limitField) limitField {
	f.schema = object{"enum": diag.Texts(known)}
	f.read = func(p *parser, l *draft, e document.Entry) (ok bool) {
		if document.IsString(e.Value) {
			*place((*runtime.Policy)(&l.policy)), ok = diag.Named(known, e.Value.Value)
		}
		if !ok {
			p.doc.Report(e.At, broken, "", "%s must be %s, not %s", e.Name, words.List(diag.Texts(known), "or"),
				document.Describe(e.Value))
			p.doc.Offer(meantWord(p, e.Value.Value, known, synonyms))
		}
		return ok
	}
	if f.effective == nil {
		f.effective = func(l *spec.Limit) string { return (*place(&l.Policy)).String() }
	}
	return f
}

// falseToo lets the schema of a field with the word off accept false, as which editors by YAML 1.1 read it.
func falseToo(f limitField) limitField {
	f.schema = orFalse(f.schema)
	return f
}

// orFalse is a schema of a value or of false, because editors that use YAML 1.1 read off as false. The double negation keeps
// editors from proposing false, and the description keeps them from showing the title of the field twice.
func orFalse(value object) object {
	isFalse := object{"description": "off by YAML 1.1", "not": object{"not": object{"const": false}}}
	return object{"anyOf": []object{value, isFalse}}
}

// meantWord returns the word that text probably means: one that it contains, one with that synonym, or a similar one; ""
// if no word is similar.
func meantWord[W fmt.Stringer](p *parser, text string, known []W, synonyms map[string]W) string {
	if !p.doc.Described() {
		return ""
	}
	text = strings.ToLower(text)
	for _, w := range known {
		if strings.Contains(text, w.String()) {
			return w.String()
		}
	}
	if w, ok := synonyms[text]; ok {
		return w.String()
	}
	return p.doc.Nearest(text, func() []string { return diag.Texts(known) })
}
