// Package lane gives each shard of a database a queue of its own, in which its calls are grouped: no statement of a batch
// needs another shard, and calls for a shard that is slow or down delay no others.
package lane

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/fault"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/group"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/table"
)

// Store is a [runtime.Store] that sends each call to the group of the shard on which its keys lie.
type Store struct {
	places   *table.Places
	newGroup func() *group.Store
	// newAcross makes the group of the calls whose keys lie on several shards. If it is nil, they are refused.
	newAcross func() *group.Store

	mu     sync.Mutex
	groups map[string]*group.Store
}

// New returns a store with a group for each shard, which newGroup makes when the first call needs it, and another one for
// the calls whose keys lie on several shards, unless newAcross is nil.
func New(places *table.Places, newGroup, newAcross func() *group.Store) *Store {
	return &Store{places: places, newGroup: newGroup, newAcross: newAcross, groups: map[string]*group.Store{}}
}

// across is the name of the group for several shards. No shard has it.
const across = "*"

// Do implements [runtime.Store]. A call whose keys lie on several shards is answered with a [*runtime.ShardsError] if no
// group is for it.
func (s *Store) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	answers := make([]runtime.Answer, len(calls))
	rest := make([]int, len(calls))
	for i := range calls {
		rest[i] = i
	}
	err := s.send(ctx, calls, answers, rest)
	outdated := slices.DeleteFunc(rest, func(i int) bool {
		return answers[i].Answered() && !errors.As(answers[i].Err, new(*runtime.ShardsError))
	})
	if len(outdated) == 0 || err != nil && !fault.SeveralShards(err) {
		return answers, err
	}
	// The shards may have been split or merged since the places of the keys were found.
	s.places.Forget(table.FirstParts(calls))
	return answers, s.send(ctx, calls, answers, outdated)
}

// send sends the calls at these indexes to their groups, all at once, and stores their answers.
func (s *Store) send(ctx context.Context, calls []runtime.Call, answers []runtime.Answer, at []int) error {
	places, err := s.places.Of(ctx, table.FirstParts(calls))
	if err != nil {
		return err
	}
	parts := map[string][]int{}
	for _, i := range at {
		place, err := table.PlaceOf(&calls[i], places)
		switch {
		case err != nil && s.newAcross == nil:
			answers[i] = runtime.Answer{Err: err}
			continue
		case err != nil:
			place = across
		}
		parts[place] = append(parts[place], i)
	}
	errs := make(chan error, len(parts))
	for place, at := range parts {
		send := func() { errs <- s.sendTo(ctx, place, calls, answers, at) }
		if len(parts) == 1 {
			send()
		} else {
			go send()
		}
	}
	for range parts {
		if failed := <-errs; err == nil {
			err = failed
		}
	}
	return err
}

// sendTo sends the calls at these indexes to the group of a shard.
func (s *Store) sendTo(ctx context.Context, place string, calls []runtime.Call, answers []runtime.Answer, at []int) error {
	some := make([]runtime.Call, len(at))
	for i, index := range at {
		some[i] = calls[index]
	}
	got, err := s.group(place).Do(ctx, some)
	for i, a := range got {
		answers[at[i]] = a
	}
	return err
}

// group returns the group of a shard.
func (s *Store) group(place string) *group.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[place]
	if g == nil {
		if place == across {
			g = s.newAcross()
		} else {
			g = s.newGroup()
		}
		s.groups[place] = g
	}
	return g
}

// Shutdown waits until nothing is in flight. The error is that of ctx, if it ends first.
func (s *Store) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	var groups []*group.Store
	for _, g := range s.groups {
		groups = append(groups, g)
	}
	s.mu.Unlock()
	var errs []error
	for _, g := range groups {
		errs = append(errs, g.Shutdown(ctx))
	}
	return errors.Join(errs...)
}
