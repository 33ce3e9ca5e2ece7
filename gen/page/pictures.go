package page

import (
	"github.com/ratelimitgen/ratelimitgen/gen/draw"
)

// PictureFile is a drawing as a file of its own.
type PictureFile struct {
	// Name is the name of the file without extension: "sendMessage-tokens".
	Name string
	SVG  []byte
}

// Pictures returns the drawings of the page: for each limit, and each of its plans, the tokens over time and the envelope.
// Each has the colors of the viewer's system.
func (p *Page) Pictures() (list []PictureFile) {
	limits := p.limits()
	for i := range limits {
		l := &limits[i]
		for _, pair := range l.renamed.PairPlans(l.old, l.new) {
			file, title := l.shown().Policy.Name, l.shown().Policy.Name
			if pair.Plan != "" {
				file, title = file+"-"+pair.Plan, title+", plan "+pair.Plan
			}
			policies := policiesOf(pair)
			if !anyLimited(policies) {
				continue
			}
			if picture, ok := p.tokensPicture(title, pair); ok {
				list = append(list, PictureFile{file + "-tokens", picture.Standalone()})
			}
			if picture, ok := draw.Envelope(title, policies...); ok {
				list = append(list, PictureFile{file + "-envelope", picture.Standalone()})
			}
		}
	}
	return list
}
