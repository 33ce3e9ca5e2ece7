//go:build !linux

package sqlite

// mounted reports whether a file is a mount point by itself. Where that cannot be known, it is false.
func mounted(string) bool { return false }
