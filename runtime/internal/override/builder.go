package override

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

type sinceFunc = func(ctx context.Context, id int64) ([]runtime.OverrideEntry, error)

// builder makes a snapshot from an earlier one and the entries after it.
type builder struct {
	last runtime.OverrideEntry
	// shards is from's until the first change, and owned are the parts that are not shared with from.
	shards *parts
	owned  [len(parts{})]bool
	from   *Snapshot
	// erased is the newest erasure after which the log must be read from its beginning, and reread the newest before it
	// was.
	erased, reread int64
}

// noShards has no entries.
var noShards = func() (p parts) {
	for i := range p {
		p[i].ends = math.MaxInt64
	}
	return p
}()

// builder returns a builder on top of s, which may be nil.
func (s *Snapshot) builder() *builder {
	if s == nil {
		return &builder{shards: &noShards}
	}
	return &builder{last: s.last, shards: s.shards, from: s}
}

// read reads the log from the last entry to its end. It can be called again after an error.
func (b *builder) read(ctx context.Context, since sinceFunc) error {
	for {
		entries, err := since(ctx, max(1, b.last.ID))
		if err != nil {
			return fmt.Errorf("read the overrides: %w", err)
		}
		full := len(entries) >= Page
		switch {
		case b.last.ID == 0:
		case len(entries) == 0, entries[0].ID == b.last.ID && entries[0] != b.last:
			// The log has lost entries, as after a failover or a restored backup: it must be read from its beginning.
			*b = builder{shards: &noShards, from: b.from}
			continue
		case entries[0].ID == b.last.ID:
			entries = entries[1:]
		}
		// The first page from the beginning is one statement, which finds erased entries as they are now.
		began := b.last.ID == 0
		for _, e := range entries {
			b.add(e)
			if e.What == runtime.OverrideErased && !began {
				b.erased = e.ID
			}
		}
		switch {
		case full:
		case b.erased > b.reread:
			// Entries that were read before have the key, and may lack their end, which was erased too.
			*b = builder{shards: &noShards, from: b.from, reread: b.erased}
		default:
			return nil
		}
	}
}

// add puts an entry in force. If the earlier snapshot has the entry, it keeps its policies.
func (b *builder) add(e runtime.OverrideEntry) {
	b.last = e
	block, override := e.Replaces()
	if !block && !override {
		return
	}
	at := limitKey{e.Limit, e.Key}
	hash := at.hash()
	p := b.writable(b.shards.index(hash))
	for i := p.search(hash); i < len(p.entries) && p.entries[i].hash == hash; {
		if o := p.entries[i]; o.isOf(at) && (block && o.isBlock() || override && !o.isBlock()) {
			p.entries = slices.Delete(p.entries, i, i+1)
		} else {
			i++
		}
	}
	if e.Ends() {
		return
	}
	o := &inForce{compact: compactOf(&e)}
	if b.from != nil {
		earlier := b.from.of(e.Limit, e.Key)
		for _, known := range [...]*inForce{earlier.block, earlier.override} {
			if known != nil && known.compact == o.compact {
				o = known
			}
		}
	}
	p.entries = slices.Insert(p.entries, p.search(hash), slot{hash, o})
	p.ends = min(p.ends, o.until)
}

// writable returns a part that no snapshot has.
func (b *builder) writable(i int) *part {
	if b.owned == [len(b.owned)]bool{} {
		shards := *b.shards
		b.shards = &shards
	}
	p := &b.shards[i]
	if !b.owned[i] {
		b.owned[i] = true
		p.entries = slices.Clone(p.entries)
	}
	return p
}

// drop removes entries that have ended.
func (b *builder) drop(now int64) {
	for i := range b.shards {
		if b.shards[i].ends > now {
			continue
		}
		p := b.writable(i)
		p.entries = slices.DeleteFunc(p.entries, func(o slot) bool { return o.live(now) == nil })
		p.ends = math.MaxInt64
		for _, o := range p.entries {
			p.ends = min(p.ends, o.until)
		}
	}
}

// Page is how many entries [Reader.OverridesSince] returns at once.
const Page = 1000
