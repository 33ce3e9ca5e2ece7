package operate

import "github.com/ratelimitgen/ratelimitgen/runtime"

// Program is a program whose limits are operated.
type Program struct {
	// Catalog is that of the generated package.
	Catalog *runtime.Catalog
	// Store has the counts. Lists need a [runtime.RowLister], and the log and changes a store that keeps overrides.
	Store runtime.Store
	// Secret is that of the fingerprints that logs, lists of denied keys and the console print. Without it, no key of a
	// fingerprint can be found.
	Secret []byte
}
