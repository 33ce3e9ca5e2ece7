package judge

import (
	"reflect"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// Verbs returns the methods that the generated type of a limit has. Methods that differ only in a final N, which take a
// count, are listed once, without the N.
func Verbs(l *spec.Limit) []string { return slices.Clone(verbs(l)) }

func verbs(l *spec.Limit) []string {
	switch {
	case l.Policy.Capacity == 0:
		return reserveOnlyVerbs
	case l.Policy.Reserves():
		return reservableVerbs
	}
	return limitVerbs
}

var (
	limitVerbs       = verbsOf(reflect.TypeFor[limiter.Limit]())
	reservableVerbs  = verbsOf(reflect.TypeFor[limiter.ReservableLimit]())
	reserveOnlyVerbs = verbsOf(reflect.TypeFor[limiter.ReserveOnlyLimit]())
)

func verbsOf(handle reflect.Type) (verbs []string) {
	for i := range handle.NumMethod() {
		name := handle.Method(i).Name
		// The method N itself, which sets a count, has no twin.
		if _, twin := handle.MethodByName(strings.TrimSuffix(name, "N")); name == "N" || !strings.HasSuffix(name, "N") || !twin {
			verbs = append(verbs, name)
		}
	}
	return verbs
}

// noteVerbs reports methods that appear or disappear, because a limit only has methods that can succeed.
func noteVerbs(j *judgement) {
	j.compareVerbs(j.New.GoName, verbs(j.Old), verbs(j.New))
}

func (j *judgement) compareVerbs(name string, was, is []string) {
	lost := slices.DeleteFunc(slices.Clone(was), func(verb string) bool { return slices.Contains(is, verb) })
	gained := slices.DeleteFunc(slices.Clone(is), func(verb string) bool { return slices.Contains(was, verb) })
	if len(lost) > 0 {
		j.class(review.Breaking)
		j.note(review.Calls, "%s no longer has %s: code that calls %s no longer compiles.", name, methodsInWords(lost), itOrThem(lost))
	}
	if len(gained) > 0 {
		j.note(review.Calls, "%s now has %s.", name, methodsInWords(gained))
	}
}

func methodsInWords(verbs []string) string {
	if len(verbs) == 1 {
		return "the method " + verbs[0]
	}
	return "the methods " + words.List(verbs, "and")
}

func itOrThem(verbs []string) string {
	if len(verbs) == 1 {
		return "it"
	}
	return "them"
}
