package document

import (
	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
)

// RefuseIndirection reports anchors, aliases, merge keys and tags anywhere under a node. Editing an anchor would change
// limits on lines that a reviewer does not see.
func (d *Document) RefuseIndirection(node *yaml.Node) {
	at := d.Source.At(node)
	switch word := d.Source.Between(at); {
	case node.Kind == yaml.AliasNode:
		d.refuseAlias(at, node.Value)
		d.Mute(node)
	case node.Anchor != "":
		d.Report(at, ids.Anchor, writeOut, "anchors such as &%s are not allowed", diag.Clip(node.Anchor))
		d.Mute(node)
	case node.Style&yaml.TaggedStyle != 0, diag.IsTag(node, word):
		d.Report(at, ids.Tag, "write the value without a tag", "tags such as %s are not allowed", diag.Clip(word))
		d.Mute(node)
	case node.Tag == mergeTag:
		node.Tag = "!!str" // "<<" is special only as the name of a field
	}
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 {
			d.refuseMerge(child)
		}
		d.RefuseIndirection(child)
	}
}

const mergeTag = "!!merge"

// refuseMerge reports the name of a field that is a merge key.
func (d *Document) refuseMerge(name *yaml.Node) {
	if name.Tag == mergeTag && name.Style&yaml.TaggedStyle == 0 && name.Anchor == "" {
		d.Report(d.Source.At(name), ids.MergeKey, writeOut, "merge keys (<<) are not allowed")
		d.Mute(name)
	}
}

func (d *Document) refuseAlias(at diag.Span, name string) {
	d.Report(at, ids.Anchor, writeOut, "aliases such as *%s are not allowed", diag.Clip(name))
}

const writeOut = "write the value out, so that each limit can be reviewed on its own"
