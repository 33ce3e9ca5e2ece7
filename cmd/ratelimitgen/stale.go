package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen"
	"github.com/ratelimitgen/ratelimitgen/gen/printable"
)

// stale is a file that is not as it should be.
type stale struct {
	path, problem string
	// fix says what puts it right.
	fix string
}

// compare prints what is not as generate would leave it, and how it differs. The error is the answer no
// if there is anything.
func (g *generation) compare(s streams, code []byte) error {
	now, err := readOutput(g.output)
	if err != nil {
		return err
	}
	found, err := g.orphans()
	if err != nil {
		return err
	}
	if problem := g.problem(now, code); problem != "" {
		found = append([]stale{{shown(g.output), problem, g.fix(now)}}, found...)
	}
	for _, f := range found {
		fmt.Fprintf(s.out, "%s %s; %s\n", f.path, f.problem, f.fix)
	}
	if len(found) == 0 {
		g.say(s, "%s is up to date", shown(g.output))
		return nil
	}
	if now.exists && !now.foreign() {
		fmt.Fprint(s.out, unified(shown(g.output), string(now.lines()), string(code)))
	}
	return no{}
}

// problem says why the output is not as it should be, "" if it is.
func (g *generation) problem(now output, code []byte) string {
	switch {
	case !now.exists:
		return "is missing"
	case now.foreign():
		return "was not written by ratelimitgen"
	case !now.holds(code):
		return "is not what " + shown(g.source) + " says"
	}
	return ""
}

// orphans returns the other generated files in the directory of the output. A package can hold only one,
// so they are left over from a source or an output that was renamed.
func (g *generation) orphans() ([]stale, error) {
	directory := filepath.Dir(g.output)
	entries, err := os.ReadDir(directory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, pathError(err)
	}
	var found []stale
	for _, entry := range entries {
		if !isRegular(filepath.Join(directory, entry.Name())) || !isSource(entry.Name()) || entry.Name() == filepath.Base(g.output) {
			continue
		}
		path := filepath.Join(directory, entry.Name())
		text, err := readHeader(path)
		if err != nil {
			return nil, err
		}
		if source, ours := gen.SourceOf(text); ours {
			found = append(found, stale{shown(path), orphaned(directory, source), "run: rm " + quoted(slash(path))})
		}
	}
	return found, nil
}

// readHeader returns the beginning of a Go file, which says who wrote it.
func readHeader(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, pathError(err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 64<<10))
	return text, pathError(err)
}

// isRegular reports whether a path, or what it links to, is a regular file: opening others can wait for ever.
func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// isSource reports whether go build looks at a file of this name.
func isSource(name string) bool {
	return filepath.Ext(name) == ".go" && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "_") &&
		!strings.HasSuffix(name, "_test.go")
}

// orphaned says why a generated file is left over.
func orphaned(directory, source string) string {
	if _, err := os.Stat(filepath.Join(directory, filepath.FromSlash(source))); errors.Is(err, fs.ErrNotExist) {
		return "is left over: " + shown(source) + " is gone"
	}
	return "is left over: it is not the output of this command, and a package can hold only one"
}

// fix says how the output, which is not as it should be, comes to be so.
func (g *generation) fix(now output) string {
	if now.foreign() {
		return makeWay
	}
	return "run: " + g.command()
}

// command is the call of generate that writes the output.
func (g *generation) command() string {
	words := []string{"go tool ratelimitgen generate"}
	if g.output != outputFor(g.source) {
		words = append(words, "-o", quoted(slash(g.output)))
	}
	if g.pkg != "" {
		words = append(words, "-package", g.pkg)
	}
	return strings.Join(append(words, quoted(slash(g.source))), " ")
}

// quoted returns a path as one word of a shell command; in bash's $'...' if there is anything in it that must
// not be printed.
func quoted(path string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-"
	if strings.Trim(path, plain) == "" {
		return path
	}
	if escaped := strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(path); printable.Line(path) != path {
		return "$'" + printable.Line(escaped) + "'"
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
