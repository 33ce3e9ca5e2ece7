package group

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/bounds"
)

// batch is the calls of several callers that wait for the same flight.
type batch struct {
	calls   []runtime.Call
	callers []caller
	// keys are those of the calls, or nil if there is one lane. row is the hash of the row that all calls are about, or 0 if
	// they are about several.
	keys *keySet
	row  uint64
	// remaining is how many callers have not left.
	remaining int
	// created is when the first caller joined.
	created time.Time
	// in is nil until the batch begins.
	in *flight

	// ended is set by the goroutine that sets answers and err, and then closes done.
	ended   atomic.Bool
	done    chan struct{}
	answers []runtime.Answer
	err     error
}

// caller is one caller of [Store.Do].
type caller struct {
	ctx context.Context
	// The caller's calls are calls[from:to] of the batch.
	from, to int
	// late: the context had ended when the batch began, and the calls were dropped.
	late bool
}

func newBatch(capacity int) *batch {
	return &batch{
		calls: make([]runtime.Call, 0, capacity), callers: make([]caller, 0, capacity),
		created: time.Now(), done: make(chan struct{}),
	}
}

// joinLocked adds the calls of a caller, and returns the caller's index.
func (b *batch) joinLocked(ctx context.Context, calls []runtime.Call, key uint64) (i int) {
	from := len(b.calls)
	b.calls = append(b.calls, calls...)
	b.callers = append(b.callers, caller{ctx: ctx, from: from, to: len(b.calls)})
	if b.keys != nil {
		b.keys.add(key)
	}
	switch {
	case len(calls) != 1 || len(calls[0].Requests) != 1 || severalRows(&calls[0].Requests[0]):
		b.row = 0
	case from == 0:
		b.row = key
	case b.row != key:
		b.row = 0
	}
	b.remaining++
	return len(b.callers) - 1
}

// severalRows reports whether there are more rows of the key, some of which may not be locked.
func severalRows(r *runtime.Request) bool { return r.Policy != nil && r.Policy.Shards > 1 }

// beginLocked drops the calls of late callers, and returns the context of one of the others: nil if there are none, or
// the batch has waited for too long. The batch has then ended.
func (b *batch) beginLocked(now time.Time) (live context.Context) {
	late := false
	for i := range b.callers {
		c := &b.callers[i]
		// Err is called once for each caller: it may change at any time, and the caller's calls all go or all stay.
		if c.late = c.ctx.Err() != nil; !c.late && live == nil {
			live = c.ctx
		}
		late = late || c.late
	}
	if live == nil || !now.Before(b.created.Add(bounds.Timeout)) {
		b.end(nil, errTimeout)
		return nil
	}
	if late {
		b.dropLate()
	}
	return live
}

func (b *batch) dropLate() {
	var kept []runtime.Call
	for i := range b.callers {
		c := &b.callers[i]
		calls := b.calls[c.from:c.to]
		c.from, c.to = len(kept), len(kept)
		if !c.late {
			kept = append(kept, calls...)
			c.to = len(kept)
		}
	}
	b.calls = kept
}

// end sets the result of the batch and wakes its callers. It returns false if the batch has a result already.
func (b *batch) end(answers []runtime.Answer, err error) bool {
	if !b.ended.CompareAndSwap(false, true) {
		return false
	}
	b.answers, b.err = answers, err
	close(b.done)
	return true
}

// wait waits for the answers or the end of ctx, and reports which came.
func (b *batch) wait(ctx context.Context) (answered bool) {
	ended := ctx.Done()
	if ended == nil {
		// A receive costs half as much as a select.
		<-b.done
		return true
	}
	select {
	case <-b.done:
		return true
	case <-ended:
		return false
	}
}

func (b *batch) answered() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// answersOf returns the answers to the calls of the ith caller. If all of them have been answered the error is nil,
// even if the backend has failed for other calls of the batch.
func (b *batch) answersOf(i int) ([]runtime.Answer, error) {
	c := b.callers[i]
	switch {
	case c.late:
		return nil, fmt.Errorf("%s: %w", phaseQueued, c.ctx.Err())
	case c.to > len(b.answers):
		return nil, b.err
	}
	answers := b.answers[c.from:c.to:c.to]
	if b.err != nil && slices.ContainsFunc(answers, func(a runtime.Answer) bool { return !a.Answered() }) {
		return answers, b.err
	}
	return answers, nil
}

// keySet is a set of keys, by their hashes. It may report keys that are not in it.
type keySet [32]uint64

func (s *keySet) add(hash uint64) { s[hash/64%uint64(len(s))] |= 1 << (hash % 64) }

func (s *keySet) has(hash uint64) bool { return s[hash/64%uint64(len(s))]&(1<<(hash%64)) != 0 }

func (s *keySet) addAll(o *keySet) {
	for i, word := range o {
		s[i] |= word
	}
}

// meets reports whether the sets have a key in common.
func (s *keySet) meets(o *keySet) bool {
	for i, word := range o {
		if s[i]&word != 0 {
			return true
		}
	}
	return false
}
