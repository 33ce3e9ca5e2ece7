package gen

import (
	"cmp"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// parameters are the parameters of a limit's method: one for each part of its key, and after them those that it shares
// with other limits.
func (n names) parameters(l *spec.Limit) []jen.Code {
	list := n.keyParameters(l)
	for _, shared := range l.Shared() {
		list = append(list, jen.Id(n.shared(l, shared.Name)).Add(sharedType(shared)))
	}
	return list
}

// keyParameters are those for the parts of a limit's key.
func (n names) keyParameters(l *spec.Limit) (list []jen.Code) {
	for _, part := range l.Key {
		list = append(list, jen.Id(n.parameter(l, part.Name)).Add(n.keyType(part)))
	}
	return list
}

// keyType is the type of a part of a key.
func (n names) keyType(part spec.KeyPart) *jen.Statement {
	from, name, ok := splitType(part.GoType())
	switch {
	case part.GoType() == spec.AddrType:
		return jen.Qual("net/netip", "Addr")
	case !ok:
		return jen.Id(part.GoType())
	case from == n.own:
		return jen.Id(name)
	}
	return jen.Qual(from, name)
}

// sharedType is the type of a shared parameter.
func sharedType(shared spec.SharedParameter) *jen.Statement {
	switch shared.Name {
	case spec.AnniversaryParameter:
		return jen.Qual(timePath, "Time")
	case spec.ZoneParameter:
		return jen.Op("*").Qual(timePath, "Location")
	}
	return jen.Id(shared.Type)
}

// handleArguments are the arguments of the method of Limiter that returns a handle: the policy and the key. If the limit
// depends on the plan, both come from one call, because an invalid plan makes the key invalid:
//
//	policiesAPICalls.For(int(plan), runtime.KeyOf(runtime.Int64(org)))
//
// So they do if callers give numbers:
//
//	runtime.Numbers{Rate: apiCallsNumbers.Rate}.For(&policyAPICalls, runtime.KeyOf(runtime.Int64(org)))
//
// Or if keys have exceptions:
//
//	exceptionsAPICalls.For(&policyAPICalls, runtime.KeyOf(runtime.Int64(org)))
//
// Or if requests have classes, around the others:
//
//	prioritiesAPICalls.Of(int(apiCallsPriority)).For(&policyAPICalls, runtime.KeyOf(runtime.Int64(org)))
func (n names) handleArguments(l *spec.Limit) []jen.Code {
	arguments := n.policyAndKey(l)
	if len(l.Priorities) == 0 {
		return arguments
	}
	class := jen.Id(prioritiesName(l)).Dot("Of").Call(jen.Int().Call(jen.Id(n.shared(l, l.PriorityParameter()))))
	return []jen.Code{class.Dot("For").Call(arguments...)}
}

func (n names) policyAndKey(l *spec.Limit) []jen.Code {
	arguments := []jen.Code{jen.Op("&").Id(policyName(l)), n.key(l)}
	if len(l.Plans) > 0 {
		arguments = []jen.Code{jen.Id(policyName(l)).Dot("For").Call(jen.Int().Call(jen.Id(spec.PlanParameter)), n.key(l))}
	}
	if len(l.Exceptions) > 0 {
		return []jen.Code{jen.Id(exceptionsName(l)).Dot("For").Call(arguments...)}
	}
	if len(l.CallerNumbers()) == 0 {
		return arguments
	}
	return []jen.Code{n.callerNumbers(l).Dot("For").Call(arguments...)}
}

// callerNumbers are the numbers of a call:
//
//	runtime.Numbers{Rate: apiCallsNumbers.Rate}
func (n names) callerNumbers(l *spec.Limit) *jen.Statement {
	parameter := n.shared(l, l.NumbersParameter())
	return jen.Qual(runtimePath, "Numbers").ValuesFunc(func(g *jen.Group) {
		if l.Policy.AtMost.Unlimited {
			g.Id("Unlimited").Op(":").Id(parameter).Dot("Unlimited")
		}
		for _, number := range l.CallerNumbers() {
			g.Id(number.GoName).Op(":").Id(parameter).Dot(number.GoName)
			if number.GoName == "Rate" && !l.CapacityGiven && l.Policy.AtMost.Capacity > 0 {
				// A capacity that the file does not give is the rate.
				g.Id("Capacity").Op(":").Id(parameter).Dot("Rate")
			}
		}
	})
}

// key is the key of the parameters of a limit's method:
//
//	runtime.KeyOf(runtime.Int64(userID), runtime.Text(team)).Since(anniversary).In(zone)
func (n names) key(l *spec.Limit) *jen.Statement {
	key := n.storedKey(l)
	if l.Policy.Calendar.Anniversary {
		key.Dot("Since").Call(jen.Id(n.shared(l, spec.AnniversaryParameter)))
	}
	if l.Policy.Calendar.ZonePerKey {
		key.Dot("In").Call(jen.Id(n.shared(l, spec.ZoneParameter)))
	}
	return key
}

func (n names) storedKey(l *spec.Limit) *jen.Statement {
	if len(l.Key) == 0 {
		return jen.Qual(runtimePath, "Key").Values()
	}
	return jen.Qual(runtimePath, "KeyOf").CallFunc(func(g *jen.Group) {
		for _, part := range l.Key {
			parameter := jen.Id(n.parameter(l, part.Name))
			if len(part.Alternatives()) > 0 {
				g.Qual(runtimePath, "OneOf").Call(parameter.Dot("part"))
			} else {
				g.Add(storedPart(part, parameter))
			}
		}
	})
}

// storedPart is a part of a key with the value of a parameter:
//
//	runtime.AddrPrefix(addr, 64)
func storedPart(part spec.KeyPart, parameter *jen.Statement) *jen.Statement {
	if part.Folded() {
		parameter = jen.Qual(foldedPath, "String").Call(parameter)
	}
	if bits := part.PrefixBits(); bits > 0 {
		return jen.Qual(runtimePath, "AddrPrefix").Call(parameter, jen.Lit(bits))
	}
	return jen.Qual(runtimePath, cmp.Or(keyParts[part.Type], "Text")).Call(parameter)
}

// declareAlternatives writes the types of the parts of keys that have one of several types, each once:
//
//	type Caller struct{ part runtime.Part }
//
//	func CallerUserID(userID int64) Caller {
//		return Caller{runtime.Int64(userID).As("userID")}
//	}
func (n names) declareAlternatives(file *jen.File, limits []*spec.Limit) {
	declared := map[string]bool{}
	for _, l := range limits {
		for _, part := range l.Key {
			if list := part.Alternatives(); len(list) > 0 && !declared[part.GoType()] {
				declared[part.GoType()] = true
				n.declareAlternativesOf(file, part, list)
			}
		}
	}
}

func (n names) declareAlternativesOf(file *jen.File, part spec.KeyPart, list []spec.KeyPart) {
	typ := part.GoType()
	constructors := words.Of(list, func(of spec.KeyPart) string { return "[" + part.Constructor(of) + "]" })
	declare(file, typ+" is "+words.List(spec.PartNames(list), "or")+", from "+words.List(constructors, "or")+
		". These never share a count.\n"+
		"With the zero "+typ+", every method of a limit returns an error.",
		jen.Type().Id(typ).Struct(jen.Id("part").Qual(runtimePath, "Part")))
	for _, of := range list {
		parameter := unhidden(of.Name, "Key", []string{"runtime", "folded"}, nil)
		declare(file, part.Constructor(of)+" returns "+parameter+" as a "+typ+".",
			jen.Func().Id(part.Constructor(of)).Params(jen.Id(parameter).Add(n.keyType(of))).Id(typ).Block(
				jen.Return(jen.Id(typ).Values(storedPart(of, jen.Id(parameter)).Dot("As").Call(jen.Lit(of.Name))))))
	}
}
