package registry

import (
	"errors"
	"fmt"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// CheckForget returns nil if the rows of a name can be deleted, and otherwise an error: [runtime.ErrInUse] if a policy has
// the name, or that it is empty.
func CheckForget(name string, policies []*runtime.Policy) error {
	if name == "" {
		return errors.New("forget: the name of the limit is empty")
	}
	for _, p := range policies {
		if p != nil && p.Name == name {
			return fmt.Errorf("forget limit %q: %w: remove it from limits.yaml first, or Reset its keys", name, runtime.ErrInUse)
		}
	}
	return nil
}
