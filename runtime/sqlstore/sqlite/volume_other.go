//go:build !linux && !darwin && !freebsd

package sqlite

import "os"

// links returns how many names a file has, 1 where that cannot be known.
func links(os.FileInfo) uint64 { return 1 }

// free returns how many bytes can be written to the volume of a folder, and whether that is known.
func free(string) (bytes uint64, ok bool) { return 0, false }
