package table

import (
	"context"
	"sync"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
)

// Places are the shards of a database on which keys lie, as this process last saw them. A place that is out of date costs a round trip,
// and never changes an answer: the database itself sends each statement to the right shard.
type Places struct {
	prepared *Prepared

	mu sync.Mutex
	// recent and older have the places of keys. When recent is full it becomes older, so that keys in use stay.
	recent, older map[string]string
	// next is the search that keys can join, or nil. searching means that a goroutine runs it, and those that come after it.
	next      *search
	searching bool
}

// search is a statement that finds the places of the keys of several calls.
type search struct {
	keys []string
	// done is closed when found and err are set.
	done  chan struct{}
	found map[string]string
	err   error
}

// mostRecent is how many places are kept in one of the two maps.
const mostRecent = 1 << 15

// NewPlaces returns the places of the keys of a store.
func NewPlaces(on *Prepared) *Places { return &Places{prepared: on} }

// whole reports whether the table is known to be on one server.
func (p *Places) whole() bool {
	return p.prepared.Executor.Load() != nil && !p.prepared.Server.Sharded()
}

// Of returns the place of each key: the name of a shard, or "" if the table is on one server.
func (p *Places) Of(ctx context.Context, keys []string) (map[string]string, error) {
	places := make(map[string]string, len(keys))
	if p.whole() {
		return places, nil
	}
	var unknown []string
	p.mu.Lock()
	for _, key := range keys {
		place, ok := p.recent[key]
		if !ok {
			if place, ok = p.older[key]; ok {
				p.keepLocked(key, place)
			}
		}
		if ok {
			places[key] = place
		} else {
			unknown = append(unknown, key)
		}
	}
	var s *search
	if len(unknown) > 0 {
		s = p.joinLocked(ctx, unknown)
	}
	p.mu.Unlock()
	switch {
	case len(unknown) == 0:
		return places, nil
	case s == nil:
		return nil, runtime.ErrClosed
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for _, key := range unknown {
		places[key] = s.found[key]
	}
	return places, s.err
}

// Forget has the places of keys searched again.
func (p *Places) Forget(keys []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range keys {
		delete(p.recent, key)
		delete(p.older, key)
	}
}

func (p *Places) keepLocked(key, place string) {
	if p.recent == nil || len(p.recent) >= mostRecent {
		p.recent, p.older = map[string]string{}, p.recent
	}
	p.recent[key] = place
}

// joinLocked adds keys to the next search, and begins it if none is running. It returns nil if the store is closed.
func (p *Places) joinLocked(ctx context.Context, keys []string) *search {
	if p.next == nil {
		p.next = &search{done: make(chan struct{})}
	}
	s := p.next
	s.keys = append(s.keys, keys...)
	if !p.searching {
		ctx := context.WithoutCancel(ctx)
		if !p.prepared.Server.Gate.InBackground(func() { p.run(ctx) }) {
			p.next = nil
			return nil
		}
		p.searching = true
	}
	return s
}

// run runs searches until none is next.
func (p *Places) run(ctx context.Context) {
	for s := p.begin(); s != nil; s = p.begin() {
		s.found, s.err = Using(ctx, p.prepared, func(ctx context.Context, x *conn.Executor) (found map[string]string, err error) {
			err = p.prepared.Server.Single(ctx, x, func(in conn.Session) error {
				found, err = p.prepared.Server.PlacesIn(ctx, in, s.keys)
				return err
			})
			return found, err
		})
		p.mu.Lock()
		for key, place := range s.found {
			p.keepLocked(key, place)
		}
		p.mu.Unlock()
		close(s.done)
	}
}

// PlaceOf returns the place of the keys of a call, or a [*runtime.ShardsError] if they have several.
func PlaceOf(c *runtime.Call, places map[string]string) (place string, err error) {
	var first *runtime.Request
	for i := range c.Requests {
		q := &c.Requests[i]
		if q.Policy == nil || !q.UsesRows() {
			continue
		}
		at := places[q.Key]
		if first != nil && at != place {
			return "", &runtime.ShardsError{Limits: [2]string{first.Policy.Name, q.Policy.Name}, Shards: [2]string{place, at}}
		}
		first, place = q, at
	}
	return place, nil
}

// KeysOf returns the keys of calls, some perhaps twice.
func KeysOf(calls []runtime.Call) (keys []string) {
	for i := range calls {
		for j := range calls[i].Requests {
			keys = append(keys, calls[i].Requests[j].Key)
		}
	}
	return keys
}

// begin returns the next search, or nil without one.
func (p *Places) begin() *search {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.next
	p.next = nil
	p.searching = s != nil
	return s
}
