package spec

import (
	"gopkg.in/yaml.v3"
)

const writeOut = "write the value out: each limit must be readable on its own in a review"

// refuseIndirection reports anchors, aliases, merge keys and tags anywhere under a node. A change of an
// anchor changes limits whose lines a reviewer does not see.
func (p *parser) refuseIndirection(node *yaml.Node) {
	at := p.src.at(node)
	switch {
	case node.Kind == yaml.AliasNode:
		p.refuseAlias(at, node.Value)
		p.settle(node)
	case node.Anchor != "":
		p.report(at, anchor, writeOut, "an anchor, &%s, cannot be used here", clip(node.Anchor))
	case node.Tag == "!!merge" && node.Style&yaml.TaggedStyle == 0:
		p.report(at, mergeKey, writeOut, "a merge key, <<, cannot be used here")
		p.settle(node)
	case node.Style&yaml.TaggedStyle != 0:
		p.report(at, tag, "write the value without a tag", "a tag, %s, cannot be used here", clip(node.Tag))
		p.settle(node)
	}
	for _, child := range node.Content {
		p.refuseIndirection(child)
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
