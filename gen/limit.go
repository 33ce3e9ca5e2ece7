package gen

import (
	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// declareLimit writes a limit's method and its policy.
//
//	// SendMessage bounds how fast one user can post.
//	// ...
//	func (l *Limits) SendMessage(userID int64) runtime.ReservableLimit {
//		return l.limiter().Reservable(&policySendMessage, runtime.KeyOf(runtime.Int64(userID)))
//	}
func declareLimit(file *jen.File, n names, l *spec.Limit) {
	handle := handleOf(l)
	file.Line()
	comment(file, docOf(l))
	file.Func().Add(n.receiving()).Id(l.GoName).Params(n.parameters(l)...).Qual(runtimePath, handle.typ).Block(
		jen.Return(n.limiter().Dot(handle.from).Call(jen.Op("&").Id(policyName(l)), n.key(l))),
	)
	file.Line()
	file.Var().Id(policyName(l)).Op("=").Add(policyLiteral(&l.Policy))
}

// handle is a type of package runtime with the verbs that fit a limit, and the method of Limiter that
// returns it.
type handle struct{ typ, from string }

func handleOf(l *spec.Limit) handle {
	switch {
	case l.Policy.Capacity == 0:
		return handle{"ReserveOnlyLimit", "ReserveOnly"}
	case l.Policy.Reserves():
		return handle{"ReservableLimit", "Reservable"}
	}
	return handle{"Limit", "Limit"}
}

// keyParts holds the function of package runtime that makes a part of a key of each type that has one of
// its own.
var keyParts = map[string]string{
	"string":     "String",
	"bool":       "Bool",
	"int":        "Int",
	"int64":      "Int64",
	"uint64":     "Uint64",
	"netip.Addr": "Addr",
}

// parameters are those of a limit's method: one for each part of its key.
func (n names) parameters(l *spec.Limit) []jen.Code {
	parameters := make([]jen.Code, len(l.Key))
	for i, part := range l.Key {
		parameters[i] = jen.Id(n.parameter(l, part.Name)).Add(keyType(part.Type))
	}
	return parameters
}

func keyType(written string) *jen.Statement {
	if from, name, ok := splitType(written); ok {
		return jen.Qual(from, name)
	}
	if written == "netip.Addr" {
		return jen.Qual(netipPath, "Addr")
	}
	return jen.Id(written)
}

// key is the key that a limit's method makes of its parameters:
//
//	runtime.KeyOf(runtime.Int64(userID), runtime.Text(team))
func (n names) key(l *spec.Limit) *jen.Statement {
	if len(l.Key) == 0 {
		return jen.Qual(runtimePath, "Key").Values()
	}
	return jen.Qual(runtimePath, "KeyOf").CallFunc(func(g *jen.Group) {
		for _, part := range l.Key {
			from := keyParts[part.Type]
			if from == "" {
				from = "Text"
			}
			g.Qual(runtimePath, from).Call(jen.Id(n.parameter(l, part.Name)))
		}
	})
}
