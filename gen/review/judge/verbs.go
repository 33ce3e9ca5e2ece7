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
func Verbs(l *spec.Limit) (verbs []string) {
	method, _, _ := l.Handle()
	returns, _ := reflect.TypeFor[*limiter.Limiter]().MethodByName(method)
	handle := returns.Type.Out(0)
	if len(l.Prices) > 0 {
		handle = reflect.TypeFor[limiter.PricedLimit[limiter.Usage]]()
	}
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
	j.compareVerbs(j.New.GoName, Verbs(j.Old), Verbs(j.New))
}

func (j *judgement) compareVerbs(name string, was, is []string) {
	if lost := lacking(is, was); len(lost) > 0 {
		them := "them"
		if len(lost) == 1 {
			them = "it"
		}
		j.class(review.Breaking)
		j.note(review.Calls, "%s no longer has %s: code that calls %s no longer compiles.", name, methodsInWords(lost), them)
	}
	if gained := lacking(was, is); len(gained) > 0 {
		j.note(review.Calls, "%s now has %s.", name, methodsInWords(gained))
	}
}

// lacking returns the texts of a list that another one lacks.
func lacking(other, list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(text string) bool { return slices.Contains(other, text) })
}

func methodsInWords(verbs []string) string {
	if len(verbs) == 1 {
		return "the method " + verbs[0]
	}
	return "the methods " + words.List(verbs, "and")
}
