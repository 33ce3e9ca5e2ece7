package lease

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/receipt"
)

// Store is a [runtime.Store] that takes blocks from another, its backend. It may be used by many goroutines at once.
//
// There is one way to spend a block, TakeLocal. Handles of package limiter call it first, because it is a few atomic
// operations without an allocation. Do calls it for everything else: for calls that did not come from a handle, and after
// a block has been taken.
type Store struct {
	backend runtime.Store
	clock   func() time.Time

	mu   sync.RWMutex
	keys map[id]*key
	// peak is the largest size that the map has had.
	peak   int
	closed bool
	// transfers counts the goroutines that take blocks or refund them.
	transfers sync.WaitGroup
}

// id names a key of a limit.
type id struct {
	policy *runtime.Policy
	key    string
}

// New returns a store that takes blocks from a backend. Blocks end by the clock of this process, and also by clock if that
// is not nil.
func New(backend runtime.Store, clock func() time.Time) *Store {
	return &Store{backend: backend, clock: clock, keys: map[id]*key{}}
}

// key is one key of a limit, in this process. The lock of the store guards everything but block and
// crossed.
type key struct {
	id
	block atomic.Pointer[block]
	// crossed is the highest threshold that takes of blocks have crossed and no request has got yet: the next one that takes
	// tokens does.
	crossed atomic.Uint32
	// transfer is nil unless a block is being taken or refunded.
	transfer *transfer
	// resets counts the calls that are resetting the key. Until they return, no block is taken.
	resets int
	// bypass is until when the key has no block, because there are not enough tokens for one.
	bypass time.Time
	// timer ends the block, or the bypass.
	timer *time.Timer
}

// block is tokens that have been taken.
type block struct {
	left atomic.Int64
	// end is when the block can no longer be spent by this process's clock, and endByStore by the store's clock.
	end, endByStore time.Time
	// refund is the request that refunds the block, and ledger has the decisions on its tokens that were refunded.
	refund runtime.Request
	ledger receipt.Ledger
	// windowEnd is when the window ends in which the block was taken, by this process's clock; zero without windows.
	windowEnd time.Time
}

// transfer is a block on its way from the backend, or back. Others wait for it: requests for a block that is being taken,
// and resets for both directions. Without that, tokens from before a reset could be spent or refunded after it.
type transfer struct {
	// done is closed when the block has been taken or refunded, or that has failed.
	done chan struct{}
	err  error
}
