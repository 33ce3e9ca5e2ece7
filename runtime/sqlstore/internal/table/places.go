package table

import (
	"context"
	"sync"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/internal/conn"
)

// Places are the shards of a database on which keys lie, by their first parts, as this process last saw them. A place that
// is out of date costs a round trip, and never changes an answer: the database itself sends each statement to the right
// shard.
type Places struct {
	prepared *Prepared

	mu sync.Mutex
	// recent and older have the places of first parts of keys. When recent is full it becomes older, so that keys in use stay.
	recent, older map[string]string
	// next is the search that others can join, or nil. searching means that a goroutine runs it, and those that come after it.
	next      *search
	searching bool
}

// search is a statement that finds the places of the keys of several calls.
type search struct {
	parts []string
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

// Of returns the place for each first part of a key: the name of a shard, or "" if the table is on one server.
func (p *Places) Of(ctx context.Context, parts []string) (map[string]string, error) {
	places := make(map[string]string, len(parts))
	if p.whole() {
		return places, nil
	}
	var unknown []string
	p.mu.Lock()
	for _, part := range parts {
		place, ok := p.recent[part]
		if !ok {
			if place, ok = p.older[part]; ok {
				p.keepLocked(part, place)
			}
		}
		if ok {
			places[part] = place
		} else {
			unknown = append(unknown, part)
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
	for _, part := range unknown {
		places[part] = s.found[part]
	}
	return places, s.err
}

// Forget has the places for first parts searched again.
func (p *Places) Forget(parts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, part := range parts {
		delete(p.recent, part)
		delete(p.older, part)
	}
}

func (p *Places) keepLocked(part, place string) {
	if p.recent == nil || len(p.recent) >= mostRecent {
		p.recent, p.older = map[string]string{}, p.recent
	}
	p.recent[part] = place
}

// joinLocked adds first parts to the next search, and begins it if none is running. It returns nil if the store is closed.
func (p *Places) joinLocked(ctx context.Context, parts []string) *search {
	if p.next == nil {
		p.next = &search{done: make(chan struct{})}
	}
	s := p.next
	s.parts = append(s.parts, parts...)
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
				found, err = p.prepared.Server.PlacesIn(ctx, in, s.parts)
				return err
			})
			return found, err
		})
		p.mu.Lock()
		for part, place := range s.found {
			p.keepLocked(part, place)
		}
		p.mu.Unlock()
		close(s.done)
	}
}

// PlaceOf returns the place of the keys of a call, given those of their first parts, or a [*runtime.ShardsError] if they
// have several.
func PlaceOf(c *runtime.Call, places map[string]string) (place string, err error) {
	var first *runtime.Request
	for i := range c.Requests {
		q := &c.Requests[i]
		if q.Policy == nil || !q.UsesRows() {
			continue
		}
		at := places[conn.FirstPart(q.Key)]
		if first != nil && at != place {
			return "", &runtime.ShardsError{Limits: [2]string{first.Policy.Name, q.Policy.Name}, Shards: [2]string{place, at}}
		}
		first, place = q, at
	}
	return place, nil
}

// FirstParts returns the first parts of the keys of calls, some perhaps twice.
func FirstParts(calls []runtime.Call) (parts []string) {
	for i := range calls {
		for j := range calls[i].Requests {
			parts = append(parts, conn.FirstPart(calls[i].Requests[j].Key))
		}
	}
	return parts
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
