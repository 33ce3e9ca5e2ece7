package gen

import (
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// catalogSource is the limits as data, and the functions that return them.
const catalogSource = `
// Policies returns the policies of all limits, for example for the Sweep of a store, which deletes unused counts.
func Policies() []*runtime.Policy { return catalog.Policies() }

// Catalog returns the limits as data, for programs that do not know their methods, such as package operate.
func Catalog() *runtime.Catalog { return catalog }

var catalog = runtime.NewCatalog(runtime.PackageOf[Limits](), $catalog)
`

// catalogOf is the source of the limits as data:
//
//	runtime.Catalog{
//		Limits: []runtime.CatalogLimit{
//			{
//				Name:     "sendMessage",
//				Doc:      "bounds how fast one user can post.",
//				Key:      []runtime.CatalogKey{{Name: "userID", Type: "int64"}},
//				Policies: []*runtime.Policy{&policySendMessage},
//			},
//		},
//		Plans: []string{"free", "pro"},
//	}
func catalogOf(f *spec.File) string {
	groups := ""
	if len(f.Groups) > 0 {
		groups = onePerLine("Groups: []runtime.CatalogGroup", words.Of(f.Groups, catalogGroup)...)
	}
	return onePerLine("runtime.Catalog", onePerLine("Limits: []runtime.CatalogLimit", words.Of(f.Limits, catalogLimit)...), textsField("Plans", f.PlanNames()), groups)
}

func catalogLimit(l *spec.Limit) string {
	key := ""
	if len(l.Key) > 0 {
		parts := words.Of(l.Key, func(part spec.KeyPart) string {
			return "{" + quotedField("Name", part.Name) + ", " + quotedField("Type", part.Type) + "}"
		})
		key = "Key: []runtime.CatalogKey{" + strings.Join(parts, ", ") + "}"
	}
	return onePerLine("", quotedField("Name", l.Policy.Name), quotedField("Doc", l.Doc), key,
		"Policies: []*runtime.Policy{"+strings.Join(policyAddresses(l), ", ")+"}")
}

func catalogGroup(g *spec.Group) string {
	return onePerLine("", quotedField("Name", g.Name), quotedField("Doc", g.Doc),
		textsField("Takes", spec.LimitNames(g.Takes)), textsField("Checks", spec.LimitNames(g.Checks)))
}

// textsField is a field with several texts, or "" without any.
func textsField(name string, list []string) string {
	if len(list) == 0 {
		return ""
	}
	return name + ": []string{" + strings.Join(words.Of(list, strconv.Quote), ", ") + "}"
}
