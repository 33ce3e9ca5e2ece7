package review

import (
	"reflect"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// judgeVerbs says which verbs a limit loses or gains. A limit has those that can work.
func judgeVerbs(j *judgement, p pair) {
	was, is := verbs(p.old), verbs(p.new)
	lost := slices.DeleteFunc(slices.Clone(was), func(verb string) bool { return slices.Contains(is, verb) })
	gained := slices.DeleteFunc(slices.Clone(is), func(verb string) bool { return slices.Contains(was, verb) })
	if len(lost) > 0 {
		j.class(Breaking)
		j.note(Calls, "%s loses %s: code with such calls no longer compiles.", p.new.GoName, spec.List(lost, "and"))
	}
	if len(gained) > 0 {
		j.note(Calls, "%s gains %s.", p.new.GoName, spec.List(gained, "and"))
	}
}

// The verbs of the types that stand for one key of a limit.
var (
	limitVerbs       = verbsOf(reflect.TypeFor[runtime.Limit]())
	reservableVerbs  = verbsOf(reflect.TypeFor[runtime.ReservableLimit]())
	reserveOnlyVerbs = verbsOf(reflect.TypeFor[runtime.ReserveOnlyLimit]())
)

// verbs returns those of a limit.
func verbs(l *spec.Limit) []string {
	switch {
	case l.Policy.Capacity == 0:
		return reserveOnlyVerbs
	case l.Policy.Reserves():
		return reservableVerbs
	}
	return limitVerbs
}

// verbsOf returns the methods of a type without those that end in N and do the same with a count.
func verbsOf(handle reflect.Type) (verbs []string) {
	for i := range handle.NumMethod() {
		name := handle.Method(i).Name
		if _, twin := handle.MethodByName(strings.TrimSuffix(name, "N")); name == "N" || !strings.HasSuffix(name, "N") || !twin {
			verbs = append(verbs, name)
		}
	}
	return verbs
}
