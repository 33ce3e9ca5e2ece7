// Package receipt says where tokens were taken, and which were given back.
package receipt

import "sync"

// Receipt says where the tokens of a decision were taken, so that they can be given back, once.
type Receipt struct {
	// Free is how many of the decision's Taken were not taken, because the policy's Mode is ModeShadow.
	Free int64
	// Total is the total of the row after the tokens were taken; 0 if that is unknown.
	Total float64
	// Shard counts from 1, if the tokens were taken from one shard; otherwise it is 0.
	Shard int
	// Leased says that the tokens are a part of those that a lease has taken.
	Leased bool

	// ledger has at place whether the decision was refunded or settled. It is nil before Enter.
	ledger *Ledger
	place  int64
	// key is that of the request that took the tokens, or nil if it is not known. It is a pointer, so that printing a decision
	// prints no key.
	key *string
}

// Ledger records which of the receipts that share it were used, so that no token is given back twice, also by copies of
// a decision. The zero Ledger has none.
type Ledger struct {
	mu      sync.Mutex
	settled map[int64]bool
}

// settle records that the decision at a place is settled, and returns false if it was already.
func (l *Ledger) settle(place int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled[place] {
		return false
	}
	if l.settled == nil {
		l.settled = map[int64]bool{}
	}
	l.settled[place] = true
	return true
}

// reopen records that the decision at a place is not settled.
func (l *Ledger) reopen(place int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.settled, place)
}

// Settle records that the tokens are given back, and returns false if they were already, also by a copy of the receipt.
func (r *Receipt) Settle() bool { return r.ledger == nil || r.ledger.settle(r.place) }

// Reopen records that giving them back has failed.
func (r *Receipt) Reopen() {
	if r.ledger != nil {
		r.ledger.reopen(r.place)
	}
}

// Enter enters the receipt of a request in a ledger, unless it is in one. Every receipt of a ledger has another place. The
// key of the request may be nil, and must not change.
func (r *Receipt) Enter(l *Ledger, place int64, key *string) {
	if r.ledger == nil {
		r.ledger, r.place, r.key = l, place, key
	}
}

// IsOf reports whether the receipt is one of a request for a key, or that is not known, as after it was stored elsewhere.
func (r *Receipt) IsOf(key string) bool { return r.key == nil || *r.key == key }
