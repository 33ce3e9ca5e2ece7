package gen

import (
	"bytes"
	"slices"
	"strings"
)

const (
	modulePath  = "github.com/ratelimitgen/ratelimitgen"
	runtimePath = modulePath + "/runtime"
	contextPath = "context"
	timePath    = "time"
	netipPath   = "net/netip"
)

// groupImports puts the imports of a source that has them in one block into two groups: the standard
// library, and all others.
func groupImports(source []byte) []byte {
	const open, end = "import (\n", "\n)"
	start := bytes.Index(source, []byte(open))
	if start < 0 {
		return source
	}
	start += len(open)
	length := bytes.Index(source[start:], []byte(end))
	lines := strings.Split(string(source[start:start+length]), "\n")
	others := slices.DeleteFunc(slices.Clone(lines), isStandard)
	standard := slices.DeleteFunc(lines, func(line string) bool { return !isStandard(line) })
	grouped := strings.Join(standard, "\n") + "\n\n" + strings.Join(others, "\n")
	return slices.Concat(source[:start], []byte(grouped), source[start+length:])
}

// isStandard reports whether a line imports a package of the standard library: as go get has it, one
// without a dot in the first element of its path.
func isStandard(line string) bool {
	_, path, _ := strings.Cut(line, `"`)
	first, _, _ := strings.Cut(strings.TrimSuffix(path, `"`), "/")
	return !strings.Contains(first, ".")
}
