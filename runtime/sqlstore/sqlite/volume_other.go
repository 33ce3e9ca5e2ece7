//go:build !linux && !darwin && !freebsd

package sqlite

import "os"

// links returns how many names a file has: 1, because this system does not report it.
func links(os.FileInfo) uint64 { return 1 }

// free returns how many bytes can be written to the volume of a folder, which this system does not report.
func free(string) (bytes uint64, ok bool) { return 0, false }
