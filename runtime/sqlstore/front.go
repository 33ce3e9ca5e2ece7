package sqlstore

import (
	"context"
	"errors"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/denycache"
	"github.com/ratelimitgen/ratelimitgen/runtime/group"
	"github.com/ratelimitgen/ratelimitgen/runtime/lease"
)

// front is what stands before the database: what this process holds and remembers, for limits that ask for it,
// and then the group, in which calls that arrive together go together.
type front struct {
	leases *lease.Store
	// group is nil if each call goes by itself.
	group *group.Store
}

func newFront(behind runtime.Store, lanes int, o Options) front {
	var f front
	// A database with one writer is better off with a queue here than with one of its own.
	if o.Batch != 1 || lanes == 1 {
		f.group = group.New(behind, group.Options{Lanes: lanes, Batch: o.Batch})
		behind = f.group
	}
	f.leases = lease.New(denycache.New(behind, o.Clock), o.Clock)
	return f
}

func (f front) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	return f.leases.Do(ctx, calls)
}

// Spend implements [runtime.Spender].
func (f front) Spend(p *runtime.Policy, key string, n int64) (runtime.Decision, bool) {
	return f.leases.Spend(p, key, n)
}

func (f front) close() error {
	err := f.leases.Close()
	if f.group != nil {
		err = errors.Join(err, f.group.Close())
	}
	return err
}
