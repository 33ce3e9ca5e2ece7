package page

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
)

// packs collects the drawings and playgrounds of a large page, compressed: the browser unpacks those of a limit that is
// opened. They are some kilobytes for each limit, and much alike.
type packs struct {
	// page has the templates of fragments.
	page *template.Template
	// fragments are those of the pack that is being filled, as HTML, and written is how many the packs before it have.
	fragments []string
	written   int
	gzip      *gzip.Writer
}

// fragmentsPerPack bounds how much a browser unpacks to open one limit.
const fragmentsPerPack = 100

// Drawings packs drawings, and returns the number of their fragment.
func (p *packs) Drawings(drawings []drawing) (int, error) { return p.add("drawings", drawings) }

// Play packs the configuration of a playground, and returns the number of its fragment.
func (p *packs) Play(config string) (int, error) { return p.add("play", config) }

// add packs what a template of the page writes.
func (p *packs) add(name string, data any) (int, error) {
	var html bytes.Buffer
	if err := p.page.ExecuteTemplate(&html, name, data); err != nil {
		return 0, err
	}
	p.fragments = append(p.fragments, html.String())
	return p.written + len(p.fragments) - 1, nil
}

// Full returns the pack that is being filled as an element of the page if it is full, or "".
func (p *packs) Full() (template.HTML, error) {
	if len(p.fragments) < fragmentsPerPack {
		return "", nil
	}
	return p.Last()
}

// Last returns the pack that is being filled as an element of the page, and begins the next one.
func (p *packs) Last() (template.HTML, error) {
	var packed bytes.Buffer
	if p.gzip == nil {
		p.gzip, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed)
	}
	p.gzip.Reset(&packed)
	encoder := json.NewEncoder(p.gzip)
	encoder.SetEscapeHTML(false) // it is inside of base64
	if err := encoder.Encode(p.fragments); err != nil {
		return "", err
	}
	if err := p.gzip.Close(); err != nil {
		return "", err
	}
	first := p.written
	p.written, p.fragments = p.written+len(p.fragments), p.fragments[:0]
	return template.HTML(fmt.Sprintf(`<script type="text/plain" class="pack" data-first="%d">%s</script>`, first,
		base64.StdEncoding.EncodeToString(packed.Bytes()))), nil
}
