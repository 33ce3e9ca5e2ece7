package spec

import (
	"gopkg.in/yaml.v3"
)

const writeOut = "write the value out: each limit must be readable on its own in a review"

// refuseIndirection reports anchors, aliases, merge keys and tags anywhere under a node. A change of an
// anchor changes limits whose lines a reviewer does not see.
func (p *parser) refuseIndirection(node *yaml.Node) {
	at := p.src.at(node)
	switch word := p.src.between(at); {
	case node.Kind == yaml.AliasNode:
		p.refuseAlias(at, node.Value)
		p.settle(node)
	case node.Anchor != "":
		p.report(at, anchor, writeOut, "an anchor, &%s, cannot be used here", clip(node.Anchor))
		p.settle(node)
	case node.Style&yaml.TaggedStyle != 0, isTag(node, word):
		p.report(at, tag, "write the value without a tag", "a tag, %s, cannot be used here", clip(word))
		p.settle(node)
	case node.Tag == mergeTag:
		node.Tag = "!!str" // it means more than its text only as the name of a field
	}
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 {
			p.refuseMerge(child)
		}
		p.refuseIndirection(child)
	}
}

const mergeTag = "!!merge"

// refuseMerge reports the name of a field that is a merge key.
func (p *parser) refuseMerge(name *yaml.Node) {
	if name.Tag == mergeTag && name.Style&yaml.TaggedStyle == 0 && name.Anchor == "" {
		p.report(p.src.at(name), mergeKey, writeOut, "a merge key, <<, cannot be used here")
		p.settle(name)
	}
}

func (p *parser) refuseAlias(at span, name string) {
	p.report(at, anchor, writeOut, "an alias, *%s, cannot be used here", clip(name))
}

func (p *parser) settle(node *yaml.Node) {
	if p.settled == nil {
		p.settled = map[*yaml.Node]bool{}
	}
	p.settled[node] = true
}
