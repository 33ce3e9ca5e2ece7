package diff

import (
	"cmp"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// sideOfFile has the place of the first plan. The place of the package is not stored.
func sideOfFile(file *spec.File, field string) Side {
	side := Side{File: file, Pos: diag.Pos{Line: 1, Column: 1}, Given: file.Package != ""}
	if field == "plans" {
		if side.Given = len(file.Plans) > 0; side.Given {
			side.Pos = file.Plans[0].Pos
		}
	}
	return side
}

// wholeLimit is the side of a limit that was added, removed or renamed, and wholeGroup that of a group.
func wholeLimit(limit *spec.Limit) Side {
	return Side{Limit: limit, Value: limit.Policy.Name, Given: true, Pos: limit.Pos}
}

func wholeGroup(g *spec.Group) Side {
	return Side{Group: g, Value: g.Name, Given: true, Pos: g.Pos}
}

// wholePlan is the side of a plan that was added or removed.
func wholePlan(l, plan *spec.Limit) Side {
	return Side{Limit: l, Value: plan.Plan, Given: true, Pos: cmp.Or(plan.Places["rate"], plan.Places["capacity"])}
}

func sideOfLimit(limit *spec.Limit, field string) Side {
	return givenIn(limit.Places, field, wholeLimit(limit))
}

// givenIn returns the side of a field of a limit or a group, at the field's place if it is given.
func givenIn(given map[string]diag.Pos, field string, side Side) Side {
	at, ok := given[field]
	if side.Given = ok; ok {
		side.Pos = at
	}
	return side
}

// InForce returns all that a limit decides by, as lines of limits.yaml; for one of its plans, the numbers of that plan.
func InForce(l *spec.Limit, plan string) (lines []string) {
	add := func(of *spec.Limit, prefix string, byPlan bool) {
		for _, f := range values.Limit {
			if v := f.Effective(of); v != "" && f.ByPlan == byPlan && f.Name != "doc" {
				lines = append(lines, prefix+f.Name+": "+v)
			}
		}
	}
	if plan == "" {
		add(l, "", false)
	}
	for _, of := range l.Each() {
		if plan == "" || of.Plan == plan {
			add(of, of.Plan+" ", true)
		}
	}
	return lines
}
