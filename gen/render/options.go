// Package render prints what the commands check and diff find: [Problems] and a [review.Review], as text, as JSON and as
// annotations of GitHub, and a review as Markdown. Each renderer is a function of a writer, a document and [Options], and
// returns the error of the writer.
package render

import "github.com/ratelimitgen/ratelimitgen/gen/review"

// Options are what a reader sees besides the document. Each format uses some of them.
type Options struct {
	// Color colors text.
	Color bool
	// LinkBase is the address of the new file, to which Markdown links; "" for no links.
	LinkBase string
	// Sharing is how many reviews share one comment, for Markdown; 0 means that it has this one only.
	Sharing int
	// Level is the level of the annotation of a subject: "error", "warning" or "notice".
	Level func(s *review.Subject) string
	// Place returns a path relative to the root of the repository, because annotations of other paths are not shown beside the
	// code.
	Place func(path string) string
}
