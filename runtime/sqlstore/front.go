package sqlstore

import (
	"context"
	"errors"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/denycache"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/lease"
)

// front is what stands before the database: what this process holds and remembers, for limits that ask for it,
// and then the group, in which calls that arrive together go together.
type front struct {
	leases *lease.Store
	group  *group.Store
}

func newFront(behind runtime.Store, lanes int, o Options) front {
	// A database with one writer is better off with a queue here than with one of its own.
	if o.Batch == 1 && lanes != 1 {
		lanes = group.NoLanes
	}
	g := group.New(behind, group.Options{Lanes: lanes, Batch: o.Batch})
	return front{lease.New(denycache.New(g, o.Clock), o.Clock), g}
}

func (f front) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	return f.leases.Do(ctx, calls)
}

// TakeLocal implements [runtime.LocalTaker].
func (f front) TakeLocal(p *runtime.Policy, key string, n int64) (runtime.Decision, bool) {
	return f.leases.TakeLocal(p, key, n)
}

// close waits for calls in flight, and gives back what is leased, until ctx ends.
func (f front) close(ctx context.Context) error {
	return errors.Join(f.leases.Shutdown(ctx), f.group.Shutdown(ctx))
}
