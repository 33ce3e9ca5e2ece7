package gen

import (
	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/describe"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// declareCatalog writes the limits as data, and the functions that return them.
//
//	var catalog = runtime.NewCatalog(runtime.PackageOf[Limits](), runtime.Catalog{
//		Limits: []runtime.CatalogLimit{
//			{
//				Name:     "sendMessage",
//				Doc:      "bounds how fast one user can post.",
//				Rules: []string{
//					"Token bucket: 10 per minute, at most 20 at once.",
//					"Worst case: 30 in any minute.",
//				},
//				Key:      []runtime.CatalogKey{{Name: "userID", Type: "int64"}},
//				Policies: []*runtime.Policy{&policySendMessage},
//			},
//		},
//		Plans: []string{"free", "pro"},
//	})
func declareCatalog(file *jen.File, f *spec.File) {
	declareCatalogFunctions(file)
	file.Line()
	owner := jen.Qual(runtimePath, "PackageOf").Types(jen.Id("Limits")).Call()
	file.Var().Id("catalog").Op("=").Qual(runtimePath, "NewCatalog").Call(owner, jen.Qual(runtimePath, "Catalog").CustomFunc(onePerLine, func(g *jen.Group) {
		g.Id("Limits").Op(":").Index().Qual(runtimePath, "CatalogLimit").CustomFunc(onePerLine, func(g *jen.Group) {
			for _, l := range f.Limits {
				g.CustomFunc(onePerLine, func(g *jen.Group) { catalogLimit(g, l) })
			}
		})
		if len(f.Plans) > 0 {
			g.Id("Plans").Op(":").Add(stringsLiteral(f.PlanNames()))
		}
		if len(f.Groups) > 0 {
			g.Id("Groups").Op(":").Index().Qual(runtimePath, "CatalogGroup").CustomFunc(onePerLine, func(g *jen.Group) {
				for _, group := range f.Groups {
					g.CustomFunc(onePerLine, func(g *jen.Group) { catalogGroup(g, group) })
				}
			})
		}
	}))
}

// declareCatalogFunctions writes
//
//	func Policies() []*runtime.Policy { return catalog.Policies() }
//
//	func Catalog() *runtime.Catalog { return catalog }
func declareCatalogFunctions(file *jen.File) {
	declare(file, "Policies returns the policies of all limits, for example for the Sweep of a store, which deletes unused counts.",
		jen.Func().Id("Policies").Params().Index().Op("*").Qual(runtimePath, "Policy").Add(oneLine(jen.Return(jen.Id("catalog").Dot("Policies").Call()))))
	declare(file, "Catalog returns the limits as data, for programs that do not know their methods, such as package operate.",
		jen.Func().Id("Catalog").Params().Op("*").Qual(runtimePath, "Catalog").Add(oneLine(jen.Return(jen.Id("catalog")))))
}

func catalogLimit(g *jen.Group, l *spec.Limit) {
	g.Id("Name").Op(":").Lit(l.Policy.Name)
	if l.Doc != "" {
		g.Id("Doc").Op(":").Lit(l.Doc)
	}
	g.Id("Rules").Op(":").Index().String().CustomFunc(onePerLine, func(g *jen.Group) {
		for _, rule := range rulesOf(l) {
			g.Lit(rule)
		}
	})
	if len(l.Key) > 0 {
		g.Id("Key").Op(":").Index().Qual(runtimePath, "CatalogKey").ValuesFunc(func(g *jen.Group) {
			for _, part := range l.Key {
				g.Add(catalogKey(part))
			}
		})
	}
	g.Id("Policies").Op(":").Index().Op("*").Qual(runtimePath, "Policy").Values(policyAddresses(l)...)
}

func catalogKey(part spec.KeyPart) *jen.Statement {
	return jen.ValuesFunc(func(g *jen.Group) {
		g.Id("Name").Op(":").Lit(part.Name)
		g.Id("Type").Op(":").Lit(part.Type)
		if part.Folded() {
			g.Id("Fold").Op(":").Qual(foldedPath, "String")
		}
		if list := part.Alternatives(); len(list) > 0 {
			g.Id("Alternatives").Op(":").Index().Qual(runtimePath, "CatalogKey").ValuesFunc(func(g *jen.Group) {
				for _, of := range list {
					g.Add(catalogKey(of))
				}
			})
		}
	})
}

// rulesOf returns the rule of a limit as its doc comment has it, one plan or sentence each.
func rulesOf(l *spec.Limit) []string {
	d := describe.Limit(l)
	if len(d.Plans) == 0 {
		return d.Lines()
	}
	return append(ofPlans(d), d.Sentences...)
}

func catalogGroup(g *jen.Group, group *spec.Group) {
	g.Id("Name").Op(":").Lit(group.Name)
	if group.Doc != "" {
		g.Id("Doc").Op(":").Lit(group.Doc)
	}
	if len(group.Takes) > 0 {
		g.Id("Takes").Op(":").Add(stringsLiteral(spec.LimitNames(group.Takes)))
	}
	if len(group.Checks) > 0 {
		g.Id("Checks").Op(":").Add(stringsLiteral(spec.LimitNames(group.Checks)))
	}
}

func stringsLiteral(list []string) *jen.Statement {
	return jen.Index().String().ValuesFunc(func(g *jen.Group) {
		for _, text := range list {
			g.Lit(text)
		}
	})
}
