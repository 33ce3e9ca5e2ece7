package gen

import (
	"path"
	"slices"
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

const packageDoc = `Package $package has the rate limits of $file.

$usage
Each limit is a method of [Limits]. It returns a handle for one key, such as a [$Handle], which has the verbs.`

const versionGuard = `// An error on the next line means that package runtime is older than the ratelimitgen that generated this file.
// Update the package, or run go generate again:
//
//	go get ` + modulePath + `@latest
const _ = runtime.GeneratedCodeVersion1
`

// declareFrame writes the comments above the package clause, and the names of the runtime that callers use.
func declareFrame(file *jen.File, n names, f *spec.File, o Options) {
	file.HeaderComment(headerStart + o.Source + headerEnd)
	_, handle, _ := f.Limits[0].Handle()
	doc := strings.NewReplacer("$package", o.Package, "$file", path.Base(o.Source), "$usage", usage(f, o.Package), "$Handle", n.handle(handle))
	for _, line := range commentLines(doc.Replace(packageDoc)) {
		file.PackageComment(line)
	}
	file.Add(n.source(versionGuard))
	comment(file, "The types that callers use.")
	file.Type().DefsFunc(func(g *jen.Group) {
		declareAliases(g, f, typeAliases)
		declareAliases(g, f, slices.DeleteFunc(slices.Clone(handleAliases), func(a alias) bool { return n.handle(a.name) != a.name }))
	})
	file.Line()
	comment(file, "The errors to test for with [errors.Is]. Other errors mean that the request could not be decided.")
	file.Var().DefsFunc(func(g *jen.Group) { declareAliases(g, f, errorAliases) })
	if overridable(f) {
		file.Add(n.source("\n// ForGood returns the Until of an override or block that has no end.\nfunc ForGood() time.Time { return runtime.ForGood() }\n"))
	}
}

// limitsType is the type that has the limits as methods, its constructor and its other methods.
const limitsType = `
// Limits has a method for each limit and group. The zero Limits and a nil *Limits have no store: every request fails.
type Limits limiter.Limiter

// New returns the limits, with their counts in store. Options such as [limiter.Observe] have them observed.
func New(store runtime.Store, options ...limiter.Option) *Limits {
	return (*Limits)(limiter.New(store, options...))
}

// All takes tokens from several limits at once: from all of them or, if one denies, from none. An item is the
// handle that a method of Limits returns, for one token, or its N(n), for n tokens. Its Checked() must have a token,
// and gives none up.
func ($l *Limits) All(ctx context.Context, items ...Item) (Decisions, error) {
	return $l.limiter().All(ctx, items...)
}

// ReserveAll takes tokens from several limits at once, if necessary before they have accrued: from all of them or, if
// one denies, from none. The tokens may be used after the Delay of the reservations, the largest of all.
func ($l *Limits) ReserveAll(ctx context.Context, items ...ReserveItem) (*Reservations, error) {
	return $l.limiter().ReserveAll(ctx, items...)
}

// PeekAll returns what is used and left of several limits, in the order of the items, as for a page of what a customer
// has used. It takes no tokens, and no observer sees it.
func ($l *Limits) PeekAll(ctx context.Context, items ...ReserveItem) ([]Balance, error) {
	return $l.limiter().PeekAll(ctx, items...)
}

// WithTx returns the limits inside a transaction of the caller, in the database of the store. Their tokens are
// taken if and only if tx commits.
func ($l *Limits) WithTx(tx runtime.Tx) *Limits {
	return (*Limits)($l.limiter().WithTx(tx))
}

// WithConn is WithTx for a transaction that was begun by a statement on a connection.
func ($l *Limits) WithConn(conn *sql.Conn) *Limits {
	return (*Limits)($l.limiter().WithConn(conn))
}

func ($l *Limits) limiter() *limiter.Limiter {
	return (*limiter.Limiter)($l)
}
`

// declareLimit writes a limit's method and its policy.
func declareLimit(file *jen.File, n names, l *spec.Limit) {
	method, handle, _ := l.Handle()
	file.Line()
	comment(file, docOf(l))
	file.Add(n.source(`func ($l *Limits) $Method($parameters) $Handle {
	return $l.limiter().$Of($arguments)
}
`, "$Method", l.GoName, "$parameters", n.parameters(l), "$Handle", n.handle(handle), "$Of", method, "$arguments", n.handleArguments(l)))
	declareOverrides(file, n, l)
	declareNumbers(file, n, l)
	file.Line()
	file.Var().Id(policyName(l)).Op("=").Add(policyVariable(l))
}

const keyOverrides = `
// $MethodOverrides blocks and overrides $key while the program runs.
func ($l *Limits) $MethodOverrides($parameters) $Overrides {
	return $l.limiter().Overrides($policy, $stored)
}
`

const allOverrides = `
// $MethodOverridesForAll blocks and overrides all keys of [Limits.$Method] together. An override of a single key
// comes before that of all keys, and a block before both.
func ($l *Limits) $MethodOverridesForAll() $Overrides {
	return $l.limiter().OverridesForAll($policy)
}
`

// declareOverrides writes the methods of [fields.OverridesMethods].
func declareOverrides(file *jen.File, n names, l *spec.Limit) {
	if l.Overrides == nil {
		return
	}
	text, key := keyOverrides, "[Limits."+l.GoName+"]"
	if len(l.Key) > 0 {
		text, key = text+allOverrides, "one key of "+key
	}
	// The policies of all plans have the same name and bounds.
	file.Add(n.source(text, "$Method", l.GoName, "$Overrides", n.handle("Overrides"), "$key", key, "$policy", policyAddresses(l)[0],
		"$parameters", n.keyParameters(l), "$stored", n.storedKey(l)))
}

// declareNumbers writes the struct with the numbers that callers give.
func declareNumbers(file *jen.File, n names, l *spec.Limit) {
	var fields []string
	for _, of := range l.CallerNumbers() {
		fields = append(fields, "// "+of.GoName+" is "+meaningOf(l, of.Field)+": "+numberRange(l, of.Most)+".", of.GoName+" int64")
	}
	if len(fields) == 0 {
		return
	}
	file.Add(n.source(numbersStruct, "$Numbers", l.NumbersType(), "$unit", l.Unit(), "$Method", l.GoName, "$fields", strings.Join(fields, "\n")))
}

const numbersStruct = `
// $Numbers are the numbers that callers of [Limits.$Method] give, in $units. All are required: for one that is
// 0, or more than the file allows, every method of the limit returns [ErrInvalidNumbers].
type $Numbers struct {
	$fields
}
`

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
		if !of.Unlimited() && fields.PeriodOf(&of.Policy) != period {
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
	return words.Number(int64(max(1, l.Policy.Shards))) + " to " + words.Number(most)
}

// docOf returns the text of a method's doc comment: the doc of the author, the rule in words, and the worst case.
func docOf(l *spec.Limit) string {
	d := describe.Limit(l)
	rule := strings.Join(d.Lines(), "\n")
	if len(d.Plans) > 0 {
		// The form of a list in doc comments.
		var plans []string
		for _, of := range d.Plans {
			plans = append(plans, "  - "+of.Plan+": "+strings.Join(of.Lines(), " "))
		}
		rule = strings.Join(plans, "\n")
		if len(d.Sentences) > 0 {
			rule += "\n\n" + strings.Join(d.Sentences, "\n")
		}
	}
	return withDoc(l.GoName, l.Doc, l.GoName+" limits requests by this rule.", rule)
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
