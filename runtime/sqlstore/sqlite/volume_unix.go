//go:build linux || darwin || freebsd

package sqlite

import (
	"os"
	"syscall"
)

// links returns how many names a file has.
func links(info os.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink)
	}
	return 1
}

// free returns how many bytes can be written to the volume of a folder, and whether that is known.
func free(folder string) (bytes uint64, ok bool) {
	var stat syscall.Statfs_t
	if syscall.Statfs(folder, &stat) != nil {
		return 0, false
	}
	return uint64(max(0, stat.Bavail)) * uint64(stat.Bsize), true
}
