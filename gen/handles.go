package gen

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// handleAliases are the types of handles. For an alias, go doc prints the comment and no methods, so the comment lists them.
var handleAliases = []alias{
	handleAlias[limiter.Limit]("is one key of a limit"),
	handleAlias[limiter.ReservableLimit]("is one key of a limit whose tokens can also be reserved before they have accrued"),
	handleAlias[limiter.ReserveOnlyLimit]("is one key of a limit with capacity 0, whose tokens can only be reserved"),
	handleAlias[limiter.SlotLimit]("is one key of a limit in flight, whose slots are acquired and released"),
	{limiterPath, "Overrides", verbsOf[limiter.Overrides](verbs, "has the blocks and overrides of one key, or those for all keys together"), overridable},
}

func handleAlias[Handle any](is string) alias {
	name := reflect.TypeFor[Handle]().Name()
	return alias{limiterPath, name, verbsOf[Handle](verbs, is+".\nIt is a small value: keep it, or make one for each call"),
		someLimit(func(l *spec.Limit) bool { _, handle, _ := l.Handle(); return handle == name })}
}

// verb is a method of a handle: its name, its parameters and what it does.
type verb struct{ name, parameters, does string }

// verbs are the methods of handles, in the order in which they are listed.
var verbs = []verb{
	{"Allow", "ctx", "takes a token if one is available"},
	{"AllowN", "ctx, n", "takes n tokens, or none"},
	{"AllowUpTo", "ctx, n", "takes as many tokens as are available, at most n"},
	{"Require", "ctx", "takes a token, and returns a denial as a *LimitedError"},
	{"RequireN", "ctx, n", "takes n tokens, or none"},
	{"Reserve", "ctx", "takes a token, also before it has accrued"},
	{"ReserveN", "ctx, n", "takes n tokens, also before they have accrued"},
	{"Resume", "text", "returns the reservation with a text of MarshalText"},
	{"Acquire", "ctx", "acquires a slot if one is free"},
	{"AcquireN", "ctx, n", "acquires n slots, or none"},
	{"WaitAcquire", "ctx", "waits for a slot"},
	{"WaitAcquireN", "ctx, n", "waits for n slots"},
	{"Wait", "ctx", "takes a token, and returns when it can be used"},
	{"WaitN", "ctx, n", "takes n tokens, and returns when they can be used"},
	{"WaitReserve", "ctx", "takes a token, and returns it when it can be used, to be settled"},
	{"WaitReserveN", "ctx, n", "takes n tokens, and returns them when they can be used"},
	{"Check", "ctx", "decides, and takes nothing"},
	{"CheckN", "ctx, n", "decides for n, and takes nothing"},
	{"Refund", "ctx, d", "gives back the token that d took"},
	{"RefundN", "ctx, d, n", "gives back n of the tokens that d took"},
	{"Charge", "ctx, n", "takes n tokens, available or not"},
	{"Peek", "ctx", "returns what is used and left"},
	{"Reset", "ctx", "forgets what is used"},
	{"Erase", "ctx", "deletes the key from the store"},
	{"N", "n", "is an item that takes n tokens"},
	{"Item", "", "is an item that acquires a slot"},
	{"ItemN", "n", "is an item that acquires n slots"},
	{"Checked", "", "is an item that is checked, and takes nothing"},
	{"CheckedN", "n", "is an item that is checked for n"},
	{"Set", "ctx, override", "puts an override in force"},
	{"Block", "ctx, block", "denies all requests"},
	{"Unblock", "ctx, end", "ends the block and the penalty"},
	{"End", "ctx, end", "ends the block and the override"},
	{"History", "ctx", "returns the log, the oldest entry first"},
}

// verbsOf returns the text of the comment on the alias of a handle, with its methods:
//
//	AllowN(ctx, n) (Decision, error)  takes n tokens, or none
func verbsOf[Handle any](verbs []verb, is string) string {
	handle := reflect.TypeFor[Handle]()
	name := untyped(handle)
	var calls, does []string
	for _, v := range verbs {
		if method, ok := handle.MethodByName(v.name); ok {
			calls, does = append(calls, v.name+"("+v.parameters+") "+results(method.Type)), append(does, v.does)
		}
	}
	width := len(slices.MaxFunc(calls, func(a, b string) int { return len(a) - len(b) }))
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s.\n\n", name, is)
	for i, call := range calls {
		fmt.Fprintf(&text, "\t%-*s  %s\n", width, call, does[i])
	}
	fmt.Fprintf(&text, "\nSee [limiter.%s] for the errors and details of each.", name)
	return text.String()
}

// untyped is the name of a type without its type arguments.
func untyped(of reflect.Type) string {
	name, _, _ := strings.Cut(of.Name(), "[")
	return name
}

// results returns the results of a method by the names of the aliases.
func results(method reflect.Type) string {
	list := make([]string, method.NumOut())
	for i := range list {
		switch of := method.Out(i); of.Kind() {
		case reflect.Pointer:
			list[i] = "*" + untyped(of.Elem())
		case reflect.Slice:
			list[i] = "[]" + of.Elem().Name()
		default:
			list[i] = of.Name()
		}
	}
	if len(list) == 1 {
		return list[0]
	}
	return "(" + strings.Join(list, ", ") + ")"
}

// handle returns the type of a handle: its alias, unless a part of a key has a type of that name in the generated package.
func (n names) handle(name string) *jen.Statement {
	if n.keyTypes[name] {
		return jen.Qual(limiterPath, name)
	}
	return jen.Id(name)
}

// handleName is the handle as a comment names it.
func (n names) handleName(name string) string {
	if n.keyTypes[name] {
		return "limiter." + name
	}
	return name
}

// usages are the calls of the package comment: the name for the result, the verb, the types of handles that have it, and
// what follows.
var usages = []struct {
	result, verb string
	handles      []string
	then         string
}{
	{"d", "Allow", []string{"Limit", "ReservableLimit"}, ""},
	{"d", "Allow", []string{"PricedLimit"}, " // the cost of a struct with what the request uses"},
	{"r", "Reserve", []string{"ReservableLimit", "ReserveOnlyLimit"}, " // later r.Settle or r.Cancel"},
	{"slot", "Acquire", []string{"SlotLimit"}, " // later slot.Release"},
}

// usage returns the code of the package comment: a call of a limit, with what to do about the result, and then a line for
// each other usage.
func usage(f *spec.File, pkg string) string {
	made := "New(store)"
	if pkg != "main" { // which cannot be imported
		made = pkg + "." + made
	}
	text := "\tlimit := " + made + "\n"
	first := true
	for _, u := range usages {
		var having []*spec.Limit
		for _, l := range f.Limits {
			if _, handle, _ := l.Handle(); slices.Contains(u.handles, handle) {
				having = append(having, l)
			}
		}
		if len(having) == 0 {
			continue
		}
		keyed := max(0, slices.IndexFunc(having, func(l *spec.Limit) bool { return len(l.Key) > 0 }))
		text += "\t" + u.result + ", err := limit." + having[keyed].Call(u.verb) + u.then + "\n"
		if first {
			text += "\tswitch {\n\tcase err != nil: // the store could not decide: the request is not allowed\n" +
				"\tcase !" + u.result + ".Allowed: // denied: try again in " + u.result + ".RetryIn()\n\t}\n"
		}
		first = false
	}
	for _, g := range f.Groups {
		if g.Allows() {
			return text + "\tds, err := limit." + g.Call() + " // from several limits, all or none\n"
		}
	}
	return text
}
