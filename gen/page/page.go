// Package page writes a page about the limits of a file: one HTML file that explains each limit in words, numbers and
// drawings, and with a playground; and for two versions of the file, the old against the new.
//
// # The model
//
// [Page.Write] writes the page. It is one file for any number of limits, because that can be sent, kept by a CI run and
// opened without a server; so a large page, of more than [mostDrawn] limits, has its drawings and playgrounds compressed,
// and the browser unpacks those of a limit that is opened. The words and numbers are those of packages fields and review,
// and the drawings those of package draw, on the story of [draw.StandardStory] or on the requests of a [Recording]. The
// playgrounds run the algorithm of meter.Rule.Step in JavaScript.
//
// # Guarantees
//
// The page is one file that loads nothing: its security policy forbids it. The same input yields the same bytes. It is
// well-formed XML, readable without JavaScript, but for the drawings of a large page, and every drawing has a table with its
// data. It contains no key of a recording.
//
// # Non-guarantees
//
// The playgrounds treat a limit with shards as one row, and use the mean length for windows of a calendar after the first
// [calendarWindows]. Leases, caches and failing stores are not shown.
package page

import (
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/judge"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// Page is the content of a page.
type Page struct {
	// File is the file; it must be valid.
	File *spec.File
	// Old, if not nil, is the version that File is compared with.
	Old *spec.File
	// Remark is a sentence about the two files, such as that one was moved; "" for most pages.
	Remark string
	// Recording, if not nil, has requests to draw in place of the standard story.
	Recording *Recording

	reviewed *review.Review
}

// review returns the review of the changes since Old, which is made once.
func (p *Page) review() *review.Review {
	if p.reviewed == nil {
		p.reviewed = judge.Review(p.Old, p.File)
	}
	return p.reviewed
}

// mostOpen is how many limits are open at first. With more, a page would be too long to read from top to bottom.
const mostOpen = 24

// mostDrawn is how many limits have their drawings in the page as they are. With more, which would be megabytes, they are
// packed.
const mostDrawn = 200
