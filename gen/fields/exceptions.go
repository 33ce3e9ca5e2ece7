package fields

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/folded"
)

var exceptionsField = limitField{
	name: "exceptions", synonyms: []string{"exception", "allowlist", "denylist", "blocklist", "perkey"},
	about:   "Gives single keys other numbers or a plan, or a `mode`, without an end. They are compiled into the package.",
	more:    "Every part of the key is named, with the value as text in the form in which Go prints it. An exception for a time, or without a deploy, is an override, which can give the key as much as its exception does.",
	accepts: fmt.Sprintf("a list of up to %s maps with the parts of the key, a `reason`, and `plan`, `mode`, or numbers; not with a `hashed string` in the key or numbers that callers give", words.Number(maxExceptions)),
	absent:  "none",
	example: "[{userID: 7, rate: 500, reason: migration}]",
	schema:  exceptionsSchema(),
	read:    (*parser).readExceptions,
	change:  ids.ExceptionsChanged,
	items:   true,
	effective: func(l *spec.Limit) string {
		return Listed(words.Of(l.Exceptions, func(x *spec.Exception) string { return ExceptionText(l, x) }))
	},
	sentences: func(l *spec.Limit) []string {
		switch n := len(l.Exceptions); n {
		case 0:
			return nil
		case 1:
			return []string{"One key has other numbers."}
		default:
			return []string{words.Number(int64(n)) + " keys have other numbers."}
		}
	},
}

const (
	maxExceptions = 10_000
	// longestReason is that of an override.
	longestReason  = 1000
	exceptionsHelp = "write exceptions: [{userID: 7, rate: 500, reason: migration}], with the parts of the key"
)

// exceptionDraft is an exception while it is read.
type exceptionDraft struct {
	spec.Exception
	limit *spec.Limit
	// counts means that the limit counts requests without a limit.
	counts bool
}

// exceptionFields are the fields of an exception beside the parts of the key.
var exceptionFields = []field[exceptionDraft, spec.Exception]{
	{
		name:      "plan",
		about:     "The plan whose numbers the key has, whatever plan the caller passes.",
		accepts:   "a plan of the file",
		example:   "enterprise",
		schema:    object{"type": "string", "pattern": planForm.String()},
		read:      (*parser).readExceptionPlan,
		effective: func(x *spec.Exception) string { return x.Plan },
	},
	{
		name: "rate", synonyms: []string{"limit"},
		about:   "The rate of the key. If the capacity of the limit is its rate, so is the capacity of the key.",
		accepts: fmt.Sprintf("1 to %s tokens, or `%s`", words.Number(runtime.MaxTokens), unlimited),
		example: "500",
		schema:  wordSchema(1, runtime.MaxTokens, unlimited),
		read: func(p *parser, x *exceptionDraft, e document.Entry) bool {
			if x.Given.Numbers.Unlimited = document.IsWord(e.Value, unlimited); x.Given.Numbers.Unlimited {
				return true
			}
			return p.exceptionNumber(&x.Given.Numbers.Rate, e)
		},
		effective: func(x *spec.Exception) string {
			switch {
			case x.Counted:
				return unlimited + " and counted"
			case x.Given.Numbers.Unlimited:
				return unlimited
			}
			return numberUnlessZero(x.Given.Numbers.Rate)
		},
	},
	{
		name: "capacity", synonyms: []string{"burst", "max"},
		about:   "The capacity of the key, or the slots of a limit in flight.",
		accepts: fmt.Sprintf("1 to %s", words.Number(runtime.MaxTokens)),
		example: "1_000",
		schema:  numberSchema(1, runtime.MaxTokens),
		read: func(p *parser, x *exceptionDraft, e document.Entry) bool {
			into := &x.Given.Numbers.Capacity
			if x.limit.Policy.Kind == runtime.InFlight {
				into = &x.Given.Numbers.Slots
			}
			return p.exceptionNumber(into, e)
		},
		effective: func(x *spec.Exception) string {
			if x.Counted {
				return ""
			}
			return numberUnlessZero(x.Given.Numbers.Full())
		},
	},
	{
		name:    "maxReserved",
		about:   "How many tokens the key may reserve, if the limit has reservations.",
		accepts: fmt.Sprintf("1 to %s tokens, or `%s`", words.Number(mostReserved), unbounded),
		example: "100",
		schema:  wordSchema(1, mostReserved, unbounded),
		read: func(p *parser, x *exceptionDraft, e document.Entry) bool {
			if document.IsWord(e.Value, unbounded) {
				x.Given.Numbers.MaxReserved = runtime.Unbounded
				return true
			}
			return p.exceptionNumber(&x.Given.Numbers.MaxReserved, e)
		},
		effective: func(x *spec.Exception) string {
			return unboundedOr(x.Given.Numbers.MaxReserved, numberUnlessZero(x.Given.Numbers.MaxReserved))
		},
	},
	{
		name:    "mode",
		about:   "The mode of the key: `block` denies every request.",
		accepts: "`shadow`, `off` or `block`",
		example: "block",
		schema:  orFalse(object{"enum": diag.Texts(exceptionModes)}),
		read: func(p *parser, x *exceptionDraft, e document.Entry) (ok bool) {
			if document.IsString(e.Value) {
				x.Given.Mode, ok = diag.Named(exceptionModes, e.Value.Value)
			}
			if !ok {
				p.doc.Report(e.At, ids.BadExceptions, "", "mode must be %s, not %s", words.List(diag.Texts(exceptionModes), "or"),
					document.Describe(e.Value))
				p.doc.Offer(meantWord(p, e.Value.Value, exceptionModes, modeSynonyms))
			}
			return ok
		},
		effective: func(x *spec.Exception) string {
			if x.Given.Mode == runtime.ModeEnforce {
				return ""
			}
			return x.Given.Mode.String()
		},
	},
	{
		name: "reason", synonyms: []string{"why", "comment", "doc"}, required: true,
		about:     "Why the key has the exception, for reviewers and operators.",
		accepts:   fmt.Sprintf("text of at most %s bytes", words.Number(longestReason)),
		example:   "migration",
		schema:    object{"type": "string", "pattern": `\S`, "maxLength": longestReason},
		read:      (*parser).readReason,
		effective: func(x *spec.Exception) string { return x.Given.Reason },
	},
}

var exceptionModes = []runtime.Mode{runtime.ModeShadow, runtime.ModeOff, runtime.ModeBlock}

// exceptionsSchema is the schema of a list of exceptions, whose parts of keys it cannot know.
func exceptionsSchema() object {
	one := mapSchema(exceptionFields)
	one["additionalProperties"] = object{"type": []string{"string", "integer", "boolean"}}
	one["minProperties"] = 3
	return object{"type": "array", "minItems": 1, "maxItems": maxExceptions, "items": one}
}

// readExceptions checks the form of the list. [parser.finishExceptions] reads it when the key and the numbers are known.
func (p *parser) readExceptions(l *draft, e document.Entry) bool {
	switch {
	case e.Value.Kind != yaml.SequenceNode:
		p.doc.WrongType(e, "a list of maps", exceptionsHelp)
	case len(e.Value.Content) == 0:
		p.doc.Report(e.At, ids.BadExceptions, "leave it out, or "+exceptionsHelp, "exceptions must not be empty")
	case len(e.Value.Content) > maxExceptions:
		p.doc.Report(e.At, ids.BadExceptions, "give so many customers plans, or numbers of the caller: rate: {at most: 10_000}",
			"a limit has at most %s exceptions, not %s", words.Number(maxExceptions), words.Number(int64(len(e.Value.Content))))
	default:
		return true
	}
	return false
}

// finishExceptions reads the exceptions of a limit that is complete otherwise.
func (p *parser) finishExceptions(l *draft, limit *spec.Limit) {
	e, ok := l.given["exceptions"]
	if !ok {
		return
	}
	refuse := func(help, format string, args ...any) {
		p.doc.Report(e.Named, ids.BadExceptions, help, format, args...)
	}
	hashed := slices.IndexFunc(limit.Key, spec.KeyPart.Hashed)
	taken := slices.IndexFunc(limit.Key,
		func(part spec.KeyPart) bool { return slices.Contains(names(exceptionFields), part.Name) })
	switch {
	case len(limit.Key) == 0:
		refuse("leave exceptions out", "a limit without a key has no exceptions, because all callers share its count")
		return
	case hashed >= 0:
		refuse("give operators overrides, or make the key a plain string",
			"a limit whose key has a hashed string, %s, has no exceptions: the file would show what the hash hides", limit.Key[hashed].Name)
		return
	case len(limit.CallerNumbers()) > 0:
		refuse("leave exceptions out: the caller gives each key its numbers",
			"a limit with numbers that callers give has no exceptions")
		return
	case taken >= 0:
		refuse("rename the part of the key",
			"a limit with exceptions cannot have a part of the key named %s, a field of exceptions", limit.Key[taken].Name)
		return
	}
	defer p.doc.Enter("exceptions")()
	fields := append(keyFields(limit.Key), exceptionFields...)
	first := map[string]diag.Span{}
	for _, item := range e.Value.Content {
		if x := p.readException(fields, exceptionDraft{limit: limit, counts: l.counts()}, item, first); x != nil {
			limit.Exceptions = append(limit.Exceptions, x)
		}
	}
}

// keyFields are the parts of a key as fields of an exception.
func keyFields(key []spec.KeyPart) (list []field[exceptionDraft, spec.Exception]) {
	for i, part := range key {
		list = append(list, field[exceptionDraft, spec.Exception]{name: part.Name, required: true, example: "...", read: func(p *parser, x *exceptionDraft, e document.Entry) bool {
			text, ok := p.readPart(part, e)
			x.Parts[i] = text
			return ok
		}})
	}
	return list
}

// readPart returns the value of a part of a key as text.
func (p *parser) readPart(part spec.KeyPart, e document.Entry) (string, bool) {
	text := e.Value.Value
	isText, number := document.IsString(e.Value), e.Value.Tag == "!!int"
	switch part.Type {
	case "int", "int64", "uint64":
		if !number || !wholeForm.MatchString(text) {
			p.doc.WrongType(e, "of the type "+part.Type, "")
			return "", false
		}
		return strings.ReplaceAll(text, "_", ""), true
	case "bool":
		if e.Value.Tag != "!!bool" {
			p.doc.WrongType(e, "of the type bool", "write true or false")
			return "", false
		}
		return text, true
	}
	if !isText {
		help := ""
		if e.Value.Kind == yaml.ScalarNode && e.Value.Tag != "!!null" {
			help = fmt.Sprintf("write it in quotes: %q", text)
		}
		p.doc.WrongType(e, "text, because its type is "+part.Type, help)
	}
	return text, isText
}

// catalogKey returns a part of a key as the generated catalog has it.
func catalogKey(part spec.KeyPart) runtime.CatalogKey {
	k := runtime.CatalogKey{Name: part.Name, Type: part.Type}
	if part.Folded() {
		k.Fold = folded.String
	}
	for _, of := range part.Alternatives() {
		k.Alternatives = append(k.Alternatives, catalogKey(of))
	}
	return k
}

// readException reads one exception, or returns nil if it has an error.
func (p *parser) readException(fields []field[exceptionDraft, spec.Exception], x exceptionDraft, item *yaml.Node,
	first map[string]diag.Span) *spec.Exception {
	limit := x.limit
	at := p.doc.Source.At(item)
	before := len(p.doc.Found)
	entries, ok := p.doc.Entries(item, at, "an exception", exceptionsHelp)
	if !ok {
		return nil
	}
	x.Parts, x.Pos = make([]string, len(limit.Key)), at.Pos
	given := readFields(p, fields, &x, entries, diag.Spanning(at.Pos, "{"), p.doc.Complete(item))
	if len(p.doc.Found) > before {
		return nil
	}
	catalog := runtime.CatalogLimit{Name: limit.Policy.Name}
	for _, part := range limit.Key {
		catalog.Key = append(catalog.Key, catalogKey(part))
	}
	key, err := catalog.ParseKey(x.Parts)
	place := given[limit.Key[0].Name]
	if err != nil {
		p.doc.Report(place.At, ids.BadExceptions, "", "%v", err)
		return nil
	}
	x.Given.Key = key.String()
	if before, twice := first[x.Given.Key]; twice {
		p.doc.Report(place.At, ids.Duplicate, "", "the key %s has an exception already", diag.Quote(KeyText(limit, &x.Exception)))
		p.doc.Note(before, "first given here")
		return nil
	}
	first[x.Given.Key] = place.At
	if !p.checkException(&x, given, place) {
		return nil
	}
	if x.counts && x.Given.Numbers.Unlimited {
		x.Counted, x.Given.Numbers = true, runtime.Numbers{Rate: runtime.MaxTokens, Capacity: runtime.MaxTokens}
	}
	return &x.Exception
}

// checkException reports what the limit cannot give a key.
func (p *parser) checkException(x *exceptionDraft, given map[string]document.Entry, place document.Entry) bool {
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { _, ok := given[name]; return ok })
	}
	numbers := has("rate", "capacity", "maxReserved")
	refuse := func(e document.Entry, help, format string, args ...any) bool {
		p.doc.Report(e.At, ids.BadExceptions, help, format, args...)
		return false
	}
	policy, all := &x.limit.Policy, &x.Given.Numbers
	sliding, inFlight := !policy.Kind.Linear() && policy.Kind != runtime.InFlight, policy.Kind == runtime.InFlight
	switch what := []bool{has("plan"), numbers, has("mode")}; {
	case !has("plan", "mode") && !numbers:
		return refuse(place, "give a plan, a rate, a capacity or a mode", "an exception gives the key something")
	case what[0] && what[1] || what[1] && what[2] || what[0] && what[2]:
		return refuse(place, "leave the others out", "an exception has either a plan, or numbers, or a mode")
	case has("plan"):
		if len(x.limit.Plans) == 0 {
			return refuse(given["plan"], "give numbers", "%s is the same for all plans", policy.Name)
		}
		return true
	case has("mode"):
		return true
	case all.Unlimited && has("capacity", "maxReserved"):
		return refuse(given["rate"], "leave the other numbers out", "an unlimited key has no other numbers")
	case inFlight && has("rate"):
		return refuse(given["rate"], "give a capacity", "a limit in flight has no rate")
	case sliding && has("capacity"):
		return refuse(given["capacity"], "leave it out", "a sliding window has no capacity of its own")
	case all.Unlimited:
		return true
	}
	for _, of := range x.limit.Each() {
		if of.Numberless() {
			continue
		}
		for _, number := range []struct {
			name   string
			own, n int64
		}{{"rate", of.Policy.Rate, all.Rate}, {"capacity", of.Policy.Full(), all.Full()}, {"maxReserved", of.Policy.MaxReserved, all.MaxReserved}} {
			e := given[number.name]
			switch {
			case number.n == 0:
			case number.own == 0:
				return refuse(e, "leave it out", "the limit has %s 0, which exceptions cannot change", number.name)
			case number.n < int64(of.Policy.Shards):
				return refuse(e, "give at least "+words.Number(int64(of.Policy.Shards)),
					"%s %s over %d shards leaves a shard without a token", number.name, words.Number(number.n), of.Policy.Shards)
			}
		}
		if err := of.Policy.Inside().With(x.Given).Validate(); err != nil {
			text := strings.TrimPrefix(err.Error(), runtime.ErrInvalidPolicy.Error()+": ")
			if !errors.Is(err, runtime.ErrInvalidPolicy) {
				text = err.Error()
			}
			return refuse(place, "", "the limit cannot have these numbers: %s", text)
		}
	}
	return true
}

func (p *parser) exceptionNumber(into *int64, e document.Entry) (ok bool) {
	*into, ok = p.readWhole(e, 1, runtime.MaxTokens, wholeHelp{})
	if isZero(e.Value) {
		p.doc.Help("to deny every request, write mode: block")
	}
	return ok
}

func (p *parser) readExceptionPlan(x *exceptionDraft, e document.Entry) bool {
	i := slices.Index(p.planNames(), e.Value.Value)
	if i < 0 || !document.IsString(e.Value) {
		help := "the file has no plans"
		if len(p.plans) > 0 {
			help = "the plans are " + words.List(p.planNames(), "and")
		}
		p.doc.Report(e.At, ids.UnknownPlan, help, "an exception has the unknown plan %s", document.Describe(e.Value))
		p.doc.Offer(p.doc.Nearest(e.Value.Value, p.planNames))
		return false
	}
	x.Plan, x.Given.Plan = e.Value.Value, i+1
	return true
}

func (p *parser) readReason(x *exceptionDraft, e document.Entry) bool {
	text, ok := p.doc.Text(e, "text")
	switch {
	case !ok:
		return false
	case strings.TrimSpace(text) == "" || len(text) > longestReason || strings.ContainsFunc(text, document.Illegible) ||
		strings.Contains(text, "\n"):
		p.doc.Report(e.At, ids.BadExceptions, "say why in a line", "a reason has 1 to %s bytes, in one line",
			words.Number(longestReason))
		return false
	}
	x.Given.Reason = text
	return true
}

// KeyText is the key of an exception in words: "org 42".
func KeyText(l *spec.Limit, x *spec.Exception) string {
	var parts []string
	for i, part := range l.Key {
		parts = append(parts, part.Name+" "+x.Parts[i])
	}
	return strings.Join(parts, ", ")
}

// GivenText is what an exception gives in words: "rate 500, capacity 1,000".
func GivenText(x *spec.Exception) string {
	n, parts := x.Given.Numbers, []string{}
	for _, number := range []struct {
		name string
		n    int64
	}{{"rate", n.Rate}, {"capacity", n.Full()}, {"maxReserved", n.MaxReserved}} {
		if number.n > 0 {
			parts = append(parts, number.name+" "+unboundedOr(number.n, words.Number(number.n)))
		}
	}
	switch {
	case x.Plan != "":
		return "plan " + x.Plan
	case x.Counted:
		return "rate " + unlimited + " and counted"
	case n.Unlimited:
		return "rate " + unlimited
	case x.Given.Mode != runtime.ModeEnforce:
		return "mode " + x.Given.Mode.String()
	}
	return strings.Join(parts, ", ")
}

// ExceptionText is an exception as limits.yaml writes it.
func ExceptionText(l *spec.Limit, x *spec.Exception) string {
	var parts []string
	for i, part := range l.Key {
		parts = append(parts, part.Name+": "+x.Parts[i])
	}
	return "{" + strings.Join(parts, ", ") + ", " + effectiveMap(exceptionFields, x)[1:]
}
