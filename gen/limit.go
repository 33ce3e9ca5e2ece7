package gen

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/describe"
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// declareLimit writes everything about a limit.
func declareLimit(file *jen.File, n names, l *spec.Limit) {
	n.declareMethod(file, l)
	if l.Overrides != nil {
		n.declareOverrides(file, l)
	}
	if len(l.Key) > 0 && l.Overrides != nil {
		n.declareOverridesForAll(file, l)
	}
	if len(l.CallerNumbers()) > 0 {
		declareNumbers(file, l)
	}
	if len(l.Prices) > 0 {
		declareUsage(file, l)
	}
	if len(l.Priorities) > 0 {
		declarePriorities(file, l)
	}
	file.Line()
	file.Var().Id(policyName(l)).Op("=").Add(policyVariable(l))
	declareExceptions(file, l)
}

// declareMethod writes the method of a limit:
//
//	func (l *Limits) SendMessage(userID int64) Limit {
//		return l.limiter().Limit(&policySendMessage, runtime.KeyOf(runtime.Int64(userID)))
//	}
//
// If the limit has prices, the handle is for its usage:
//
//	func (l *Limits) LLMSpend(team string) PricedLimit[LLMSpendUsage] {
//		return limiter.Priced[LLMSpendUsage](l.limiter().Limit(&policyLLMSpend, runtime.KeyOf(runtime.String(team))))
//	}
func (n names) declareMethod(file *jen.File, l *spec.Limit) {
	method, handle, _ := l.Handle()
	typ, made := n.handle(handle), n.limiter().Dot(method).Call(n.handleArguments(l)...)
	if len(l.Prices) > 0 {
		typ, made = typ.Types(jen.Id(l.UsageType())), jen.Qual(limiterPath, "Priced").Types(jen.Id(l.UsageType())).Call(made)
	}
	declare(file, docOf(l), n.onLimits(l.GoName).Params(n.parameters(l)...).Add(typ).Block(jen.Return(made)))
}

// declareOverrides writes the first method of [fields.OverridesMethods]:
//
//	func (l *Limits) SendMessageOverrides(userID int64) Overrides {
//		return l.limiter().Overrides(&policySendMessage, runtime.KeyOf(runtime.Int64(userID)))
//	}
func (n names) declareOverrides(file *jen.File, l *spec.Limit) {
	method, of := l.GoName+"Overrides", "[Limits."+l.GoName+"]"
	if len(l.Key) > 0 {
		of = "one key of " + of
	}
	// The policies of all plans have the same name and bounds.
	declare(file, method+" blocks and overrides "+of+" while the program runs.",
		n.onLimits(method).Params(n.keyParameters(l)...).Add(n.handle("Overrides")).Block(
			jen.Return(n.limiter().Dot("Overrides").Call(policyAddresses(l)[0], n.storedKey(l)))))
}

// declareOverridesForAll writes the second method of [fields.OverridesMethods]:
//
//	func (l *Limits) SendMessageOverridesForAll() Overrides {
//		return l.limiter().OverridesForAll(&policySendMessage)
//	}
func (n names) declareOverridesForAll(file *jen.File, l *spec.Limit) {
	method := l.GoName + "OverridesForAll"
	doc := method + " blocks and overrides all keys of [Limits." + l.GoName + "] together. An override of a single key\n" +
		"comes before that of all keys, and a block before both."
	declare(file, doc, n.onLimits(method).Params().Add(n.handle("Overrides")).Block(
		jen.Return(n.limiter().Dot("OverridesForAll").Call(policyAddresses(l)[0]))))
}

// declareNumbers writes the struct with the numbers that callers give:
//
//	type ContractCallsNumbers struct {
//		// Rate is how many tokens are granted per minute: 1 to 10,000.
//		Rate int64
//	}
func declareNumbers(file *jen.File, l *spec.Limit) {
	doc := l.NumbersType() + " are the numbers that callers of [Limits." + l.GoName + "] give, in " + l.Unit() +
		"s. For more than the file\n" +
		"allows, every method of the limit returns [ErrInvalidNumbers]."
	var denies []string
	for _, number := range l.CallerNumbers() {
		// With 0 as MaxReserved, a limit with a capacity has what has accrued.
		if number.GoName != "MaxReserved" || l.Policy.Capacity == 0 {
			denies = append(denies, number.GoName)
		}
	}
	if len(denies) > 0 {
		doc += " With 0 as " + words.List(denies, "or") + ", every request is denied."
	}
	declare(file, doc, jen.Type().Id(l.NumbersType()).StructFunc(func(g *jen.Group) {
		for _, number := range l.CallerNumbers() {
			g.Comment("// " + number.GoName + " is " + meaningOf(l, number.Field) + ": " + numberRange(l, number.Most) + ".")
			g.Id(number.GoName).Int64()
		}
		if l.Policy.AtMost.Unlimited {
			g.Comment("// Unlimited, in place of numbers, lets the request pass uncounted.")
			g.Id("Unlimited").Bool()
		}
	}))
}

// meaningOf says what a number that callers give is.
func meaningOf(l *spec.Limit, field string) string {
	switch {
	case l.Policy.Kind == runtime.InFlight:
		return "how many can be held at once"
	case field == "capacity":
		return "the most tokens that can accumulate"
	case field == "maxReserved":
		return "how many tokens may be reserved before they are granted"
	}
	period := fields.PeriodOf(&l.Policy)
	for _, of := range l.Each() {
		if !of.Numberless() && fields.PeriodOf(&of.Policy) != period {
			period = "period"
		}
	}
	meaning := "how many tokens are granted per " + period
	if !l.CapacityGiven && l.Policy.Kind.Linear() {
		meaning += ", and the capacity"
	}
	return meaning
}

// numberRange is the range of a number that callers give. Each shard needs a token.
func numberRange(l *spec.Limit, most int64) string {
	if n := int64(l.Policy.Shards); n > 1 {
		return "0, or " + words.Number(n) + " to " + words.Number(most)
	}
	return "0 to " + words.Number(most)
}

// docOf returns the text of a method's doc comment: the doc of the author, the rule in words, and the worst case.
func docOf(l *spec.Limit) string {
	d := describe.Limit(l)
	rule := strings.Join(d.Lines(), "\n")
	if len(d.Plans) > 0 {
		// The form of a list in doc comments.
		rule = "  - " + strings.Join(ofPlans(d), "\n  - ")
		if len(d.Sentences) > 0 {
			rule += "\n\n" + strings.Join(d.Sentences, "\n")
		}
	}
	return withDoc(l.GoName, l.Doc, l.GoName+" limits requests by this rule.", rule)
}

// ofPlans returns what differs between the plans of a limit, one text each.
func ofPlans(d *describe.Description) []string {
	return words.Of(d.Plans, func(of describe.Description) string { return of.Plan + ": " + strings.Join(of.Lines(), " ") })
}

// withDoc returns the text of the author, or another one without it, and then the rule.
func withDoc(name, doc, otherwise, rule string) string {
	switch author := strings.TrimSpace(doc); {
	case author == "":
		return otherwise + "\n\n" + rule
	// Go recognizes a deprecation only at the beginning of a paragraph, and by convention it is the last one.
	case strings.HasPrefix(author, "Deprecated:"):
		return otherwise + "\n\n" + rule + "\n\n" + author
	default:
		return named(name, author) + "\n\n" + rule
	}
}

// named returns a doc comment that begins with the name of the method, as Go's convention requires.
func named(name, text string) string {
	first, _ := utf8.DecodeRuneInString(text)
	switch {
	case beginsWithWord(text, name):
		return text
	case unicode.IsLower(first):
		return name + " " + text
	}
	return name + ": " + text
}

func beginsWithWord(text, word string) bool {
	rest, ok := strings.CutPrefix(text, word)
	next, _ := utf8.DecodeRuneInString(rest)
	return ok && !unicode.IsLetter(next) && !unicode.IsDigit(next) && next != '_'
}
