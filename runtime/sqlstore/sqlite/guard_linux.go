package sqlite

import (
	"os"
	"strings"
)

// mounted reports whether a file is a mount point by itself, as with "docker run -v /data/limits.db:/limits.db".
func mounted(path string) bool {
	// Without /proc nothing can be known.
	table, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 && mountPoint.Replace(fields[4]) == path {
			return true
		}
	}
	return false
}

// mountPoint decodes what the kernel writes in place of spaces, tabs, newlines and backslashes.
var mountPoint = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
