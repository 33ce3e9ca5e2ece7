package gen

import (
	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// declareGroup writes a group's method, its handle with the verbs that can succeed, and the types of their results.
func declareGroup(file *jen.File, n names, of *spec.Group) {
	g := group{of, n, of.GoName + "Group", of.GoName + "Decisions", of.GoName + "Reservations"}
	g.declareMethod(file)
	g.declareHandle(file)
	g.declareUsage(file)
	for _, verb := range g.Verbs() {
		g.declareVerb(file, verb)
	}
	if g.Allows() {
		g.declareDecisions(file)
		g.declareNewDecisions(file)
	}
	if g.Reserves() {
		g.declareReservations(file)
		g.declareNewReservations(file)
	}
}
