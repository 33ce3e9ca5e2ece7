// Wording counts, per 1,000 words of comments and documents, turns of phrase that slow a reader down: code that "tells"
// or "knows" what it returns or stores, and clauses without a noun, such as "what is taken". It prints the total of each
// folder, and exits with 1 if that of all folders together is above the bound.
//
// Usage: go run ./.ci/wording [-v] [-max 1] [DIR ...]
package main

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// phrases are counted. In the comments of net/http, database/sql, context, go/types and time there are 0.2 to 0.4 of
// them per 1,000 words.
var phrases = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`\bwhat (is|are|was|were|has|have|had|it|they|he|others|nobody|somebody|comes|came|stands|goes|remains|of)\b`,
	`\b(tells|told|untold|asks|knows) `,
	`\b(nobody|whom|anew|nought|as often as not|to be had|as it were)\b[^\]]`,
	`\bif there (is|are) (none|some)\b`,
	`\b(those|he|one|everybody|somebody|anybody) who\b`,
	`(^|[.:] )of (a|an|the|all|each|every|some|these|those|it|them|such|what|which|one|two|several|any) `,
	`, for (it|they|he|a|an|the|there|this|that|these|those|then|if|in|to|only|otherwise|some|all|no|not|one|each|what|here|we)\b [a-z]+ (is|are|was|were|has|have|had|may|might|can|could|would|does|do|did|must|will|says?|needs?|takes?|makes?|gives?)\b`,
	`\b(stands (for|in|before|behind|there|at)|is to say|are to say)\b`,
}, "|"))

type count struct{ words, found int }

func main() {
	verbose := flag.Bool("v", false, "print each phrase with its place")
	most := flag.Float64("max", 1, "the most phrases per 1,000 words")
	flag.Parse()
	dirs := flag.Args()
	if len(dirs) == 0 {
		dirs = []string{"."}
	}
	counts := map[string]count{}
	for _, dir := range dirs {
		if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if name := d.Name(); d.IsDir() && path != dir && (strings.HasPrefix(name, ".") || name == "node_modules") {
				return filepath.SkipDir
			}
			texts, err := textsOf(path)
			for _, t := range texts {
				c := counts[filepath.Dir(path)]
				c.words += len(strings.Fields(t.text))
				for _, at := range phrases.FindAllStringIndex(t.text, -1) {
					c.found++
					if *verbose {
						fmt.Printf("%s:%d: %q\n", path, t.line, t.text[at[0]:min(len(t.text), at[1]+30)])
					}
				}
				counts[filepath.Dir(path)] = c
			}
			return err
		}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	var all count
	for _, dir := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Compare(a, b) }) {
		c := counts[dir]
		fmt.Printf("%6.2f  %6d words  %s\n", c.perThousand(), c.words, dir)
		all = count{all.words + c.words, all.found + c.found}
	}
	fmt.Printf("%6.2f  %6d words  together\n", all.perThousand(), all.words)
	if all.perThousand() > *most {
		fmt.Fprintf(os.Stderr, "more than %v per 1,000 words: see -v for the places\n", *most)
		os.Exit(1)
	}
}

func (c count) perThousand() float64 { return 1000 * float64(c.found) / float64(max(1, c.words)) }

// text is one comment, or one paragraph of a document.
type text struct {
	line int
	text string
}

// textsOf returns the prose of a file: the comments of Go code, and Markdown without its code blocks.
func textsOf(path string) ([]text, error) {
	switch filepath.Ext(path) {
	case ".go":
		return comments(path)
	case ".md":
		return paragraphs(path)
	}
	return nil, nil
}

func comments(path string) ([]text, error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(f) {
		return nil, err
	}
	var all []text
	for _, c := range f.Comments {
		all = append(all, text{files.Position(c.Pos()).Line, strings.Join(strings.Fields(c.Text()), " ")})
	}
	return all, nil
}

func paragraphs(path string) ([]text, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []text
	code := false
	for i, line := range strings.Split(string(b), "\n") {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			code = !code
		case !code:
			all = append(all, text{i + 1, line})
		}
	}
	return all, nil
}
