package gen

import (
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// declareCatalog writes the limits as data, and the functions that return them.
//
//	var catalog = runtime.NewCatalog(runtime.PackageOf[Limits](), runtime.Catalog{
//		Limits: []runtime.CatalogLimit{
//			{
//				Name:     "sendMessage",
//				Doc:      "bounds how fast one user can post.",
//				Key:      []runtime.CatalogKey{{Name: "userID", Type: "int64"}},
//				Policies: []*runtime.Policy{&policySendMessage},
//			},
//		},
//		Plans: []string{"free", "pro"},
//	})
func declareCatalog(file *jen.File, n names, f *spec.File) {
	file.Add(n.source(catalogFunctions))
	file.Line()
	owner := jen.Qual(runtimePath, "PackageOf").Types(jen.Id("Limits")).Call()
	file.Var().Id("catalog").Op("=").Qual(runtimePath, "NewCatalog").Call(owner, jen.Qual(runtimePath, "Catalog").CustomFunc(onePerLine, func(g *jen.Group) {
		g.Id("Limits").Op(":").Index().Qual(runtimePath, "CatalogLimit").CustomFunc(onePerLine, func(g *jen.Group) {
			for _, l := range f.Limits {
				g.CustomFunc(onePerLine, func(g *jen.Group) { n.catalogLimit(g, l) })
			}
		})
		if len(f.Plans) > 0 {
			g.Id("Plans").Op(":").Add(stringsLiteral(f.PlanNames()))
		}
		if len(f.Groups) > 0 {
			g.Id("Groups").Op(":").Index().Qual(runtimePath, "CatalogGroup").CustomFunc(onePerLine, func(g *jen.Group) {
				for _, of := range f.Groups {
					g.CustomFunc(onePerLine, func(g *jen.Group) { catalogGroup(g, of) })
				}
			})
		}
	}))
}

const catalogFunctions = `
// Policies returns the policies of all limits, for example for the Sweep of a store, which deletes unused counts.
func Policies() []*runtime.Policy { return catalog.Policies() }

// Catalog returns the limits as data, for programs that do not know their methods, such as package operate.
func Catalog() *runtime.Catalog { return catalog }
`

func (n names) catalogLimit(g *jen.Group, l *spec.Limit) {
	g.Id("Name").Op(":").Lit(l.Policy.Name)
	if l.Doc != "" {
		g.Id("Doc").Op(":").Lit(l.Doc)
	}
	if len(l.Key) > 0 {
		g.Id("Key").Op(":").Index().Qual(runtimePath, "CatalogKey").ValuesFunc(func(g *jen.Group) {
			for _, part := range l.Key {
				g.Values(jen.Id("Name").Op(":").Lit(part.Name), jen.Id("Type").Op(":").Lit(part.Type))
			}
		})
	}
	g.Id("Policies").Op(":").Index().Op("*").Qual(runtimePath, "Policy").Values(n.source(strings.Join(policyAddresses(l), ", ")))
}

func catalogGroup(g *jen.Group, of *spec.Group) {
	g.Id("Name").Op(":").Lit(of.Name)
	if of.Doc != "" {
		g.Id("Doc").Op(":").Lit(of.Doc)
	}
	if len(of.Takes) > 0 {
		g.Id("Takes").Op(":").Add(stringsLiteral(spec.LimitNames(of.Takes)))
	}
	if len(of.Checks) > 0 {
		g.Id("Checks").Op(":").Add(stringsLiteral(spec.LimitNames(of.Checks)))
	}
}

func stringsLiteral(list []string) *jen.Statement {
	return jen.Index().String().ValuesFunc(func(g *jen.Group) {
		for _, text := range list {
			g.Lit(text)
		}
	})
}
