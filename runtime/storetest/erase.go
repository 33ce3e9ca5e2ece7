package storetest

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/internal/ability"
	"github.com/ratelimitgen/ratelimitgen/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// erasures are the clauses for a [runtime.Eraser]. Other stores cannot erase keys, and pass them.
func erasures() []clause {
	p := one(overridable())
	all := []clause{
		{
			name: "EraseCount", rule: "an erased key has no rows, and is like a new one; other keys keep theirs",
			policies: slices.Concat(every(), one(precise())), check: (*subject).eraseCount,
		},
		{
			name: "EraseShardsLeft", rule: "rows of shards that the limit no longer has are erased too",
			policies: one(shards(runtime.TokenBucket)), check: func(s *subject, p *runtime.Policy) {
				s.play(p, []step{take(10)})
				s.erase(p.Name, "k")
				s.rowsOf(p, "k", 0)
			},
		},
		{
			name: "EraseDuringTakes", rule: "a request that meets an erasure is decided as if it came before or after it",
			policies: slices.Concat(kinds(), sharded(), one(precise())), check: (*subject).eraseDuringTakes,
		},
		{name: "EraseShared", rule: "the count of a limit without a key is not erased", policies: p, check: func(s *subject, p *runtime.Policy) {
			if _, err := s.tryToErase(p.Name, "", runtime.OverrideEnd{}); !errors.Is(err, runtime.ErrInvalidKey) {
				s.broken("the error is %v", err)
			}
		}},
		{
			name: "EraseInForce", rule: "a key with a block or an override in force is not erased",
			policies: p, check: withLog((*operator).eraseInForce),
		},
		{
			name: "EraseLog", rule: "entries of an erased key stay in the log, without their key, reason and author, and others are not changed",
			policies: p, check: withLog((*operator).eraseLog),
		},
		{
			name: "EraseSeenByOthers", rule: "a process that had not read the end of a block before it was erased does not keep the block",
			policies: p, check: withLog((*operator).eraseSeenByOthers),
		},
		{
			name: "EraseDuringWrites", rule: "IDs stay dense while keys are erased, and no block is lost",
			policies: p, check: withLog((*operator).eraseDuringWrites),
		},
	}
	for i, c := range all {
		all[i].check = func(s *subject, p *runtime.Policy) {
			if _, ok := ability.Of[runtime.Eraser](s.store); ok {
				c.check(s, p)
			}
		}
	}
	return all
}

// tryToErase erases a key.
func (s *subject) tryToErase(limit, key string, why runtime.OverrideEnd) (runtime.Erased, error) {
	eraser, _ := ability.Of[runtime.Eraser](s.store) // see erasures
	return eraser.Erase(s.ctx, limit, key, why)
}

// erase erases a key, which must be possible.
func (s *subject) erase(limit, key string) runtime.Erased {
	s.Helper()
	done, err := s.tryToErase(limit, key, runtime.OverrideEnd{})
	if err != nil {
		s.Fatalf("Erase: %v", err)
	}
	return done
}

// rowsOf fails the clause if a key has fewer rows, or with 0 if it has any.
func (s *subject) rowsOf(p *runtime.Policy, key string, least int) {
	s.Helper()
	lister, ok := ability.Of[runtime.RowLister](s.store)
	if !ok {
		return
	}
	if n := len(s.list(lister, p)[key]); n < least || least == 0 && n > 0 {
		s.broken("%s: key %q has %d rows", p.Name, key, n)
	}
}

func (s *subject) eraseCount(p *runtime.Policy) {
	s.play(p, []step{take(1), pause(time.Second), take(1), pause(time.Second), take(1), take(2).of("bystander")})
	s.rowsOf(p, "k", 1)
	limit := limiter.New(s.store).Limit(p, keyOf("k"))
	if err := limit.Erase(s.ctx); err != nil {
		s.Fatalf("Erase: %v", err)
	}
	s.rowsOf(p, "k", 0)
	s.rowsOf(p, "bystander", 1)
	s.play(p, []step{left(float64(p.Capacity)), take(p.Capacity), take(1).denied()})
	s.play(p, []step{take(p.Capacity).of("bystander").denied()})
	s.erase(p.Name, "k")
	if done := s.erase(p.Name, "k"); done != (runtime.Erased{}) {
		s.broken("%s: of a key that was erased, %+v was erased", p.Name, done)
	}
}

func (s *subject) eraseDuringTakes(p *runtime.Policy) {
	atOnce(5, 10, func(i int) {
		if i < 10 {
			s.erase(p.Name, "k")
			return
		}
		answers, err := s.store.Do(s.ctx, []runtime.Call{call(request(p, runtime.Request{Count: 1}))})
		if err != nil || answers[0].Err != nil {
			s.Errorf("%s: a take that meets an erasure returns %v, %v", p.Name, answers, err)
		}
	})
	s.erase(p.Name, "k")
	s.rowsOf(p, "k", 0)
	s.play(p, []step{left(float64(p.Capacity))})
}

func (o *operator) eraseInForce() {
	refuse := func(what string) {
		o.Helper()
		if done, err := o.tryToErase(o.p.Name, "a", runtime.OverrideEnd{}); !errors.Is(err, runtime.ErrOverrideInForce) || done != (runtime.Erased{}) {
			o.broken("with %s in force, Erase returns %+v, %v", what, done, err)
		}
	}
	o.allow(10, true)
	o.inForce(o.forGood("a", runtime.OverrideBlock))
	refuse("a block")
	o.allow(1, false)
	o.inForce(o.entry("a", runtime.OverrideUnblock))
	o.left(0)
	o.inForce(o.capacity(50))
	refuse("an override")
	o.inForce(o.entry("a", "of a later version"))
	refuse("an entry of a later version")
	o.inForce(o.forGood("", runtime.OverrideBlock))
	o.clock.Add(time.Hour)
	// The block of the whole limit is not one of the key.
	if done := o.erase(o.p.Name, "a"); done.Entries != 4 {
		o.broken("Erase returns %+v", done)
	}
	o.allow(1, false)
	o.inForce(o.entry("", runtime.OverrideNone))
	o.allow(10, true)
}

func (o *operator) eraseLog() {
	entries := []runtime.OverrideEntry{
		o.entry("a", runtime.OverrideGranted), o.forGood("b", runtime.OverrideBlock), o.forGood("a", runtime.OverrideBlock), o.entry("a|b", runtime.OverrideBlock),
		o.entry("A", runtime.OverrideBlock), o.entry("", runtime.OverrideBlock), o.entry("a", runtime.OverrideNone),
	}
	other := o.entry("a", runtime.OverrideBlock)
	other.Limit = "another"
	for i, entry := range append(entries, other) {
		if entry = o.append(entry); i < len(entries) {
			entries[i] = entry
		}
	}
	if done := o.erase(o.p.Name, "a"); done.Entries != 3 || done.Rows != 0 {
		o.broken("Erase returns %+v", done)
	}
	after := o.since(1)
	if len(after) != len(entries)+2 {
		o.broken("there are %d entries", len(after))
		return
	}
	mark := after[len(after)-1]
	if mark.ID != int64(len(after)) || mark.What != runtime.OverrideErased || !strings.HasPrefix(mark.Key, "%erased:") || mark.Limit != o.p.Name {
		o.broken("the last entry is %+v", mark)
	}
	for i, want := range entries {
		if want.Key == "a" {
			want.Key, want.Reason, want.Author = mark.Key, mark.Reason, mark.Author
		}
		if after[i] != want {
			o.broken("entry %d is %+v, want %+v", i+1, after[i], want)
		}
	}
	if of, err := o.log.OverrideHistory(o.ctx, o.p.Name, "a"); len(of) > 0 || err != nil {
		o.broken("the key still has the entries %+v, %v", of, err)
	}
	o.inForce(o.entry("a", runtime.OverrideUnblock)) // nothing of the key is in force
	o.inForce(o.entry("", runtime.OverrideNone))
	o.allow(1, true)
	o.inForce(o.entry("a", runtime.OverrideBlock))
	o.allow(1, false)
	o.inForce(o.entry("a", runtime.OverrideUnblock))
	if done := o.erase(o.p.Name, "a"); done.Entries != 3 || done.Rows == 0 {
		o.broken("a second Erase returns %+v", done)
	}
	if again := o.since(mark.ID + 1); again[len(again)-1].Key == mark.Key {
		o.broken("two erasures of a key have one number: %q", mark.Key)
	}
	why := runtime.OverrideEnd{Reason: "a request", Author: "ada"}
	done, err := o.tryToErase(o.p.Name, "a", why)
	written := o.since(done.Entry.ID)
	if err != nil || len(written) != 1 || written[0] != done.Entry || done.Entry.Reason != why.Reason || done.Entry.Author != why.Author {
		o.broken("with a reason, Erase returns %+v, %v, and the log has %+v", done, err, written)
	}
}

func (o *operator) eraseSeenByOthers() {
	type process struct {
		name string
		view *override.View
	}
	var others []process
	read := func(name string) {
		view := override.New(override.Source{Since: o.log.OverridesSince, Now: func() int64 { return o.clock.Now().UnixNano() }})
		if err := view.Refresh(o.ctx); err != nil {
			o.Fatalf("Refresh: %v", err)
		}
		others = append(others, process{name, view})
	}
	read("before the block")
	o.append(o.forGood("a", runtime.OverrideBlock))
	read("after the block")
	stays := o.append(o.forGood("stays", runtime.OverrideBlock))
	read("after another one")
	o.append(o.entry("a", runtime.OverrideNone))
	read("after its end")
	o.erase(o.p.Name, "a")
	read("after the erasure")
	for _, of := range others {
		if err := of.view.Refresh(o.ctx); err != nil {
			o.Fatalf("Refresh: %v", err)
		}
		if got := of.view.InForce(); len(got) != 1 || got[0] != stays {
			o.broken("a process that has read the log %s has in force: %+v", of.name, got)
		}
	}
}

func (o *operator) eraseDuringWrites() {
	atOnce(4, 4, func(i int) {
		if i >= 4 {
			o.append(o.forGood("a", runtime.OverrideBlock))
			o.append(o.forGood("a", runtime.OverrideNone))
		} else if _, err := o.tryToErase(o.p.Name, "a", runtime.OverrideEnd{}); err != nil && !errors.Is(err, runtime.ErrOverrideInForce) {
			o.Errorf("Erase: %v", err)
		}
	})
	o.append(o.forGood("a", runtime.OverrideBlock))
	var inForce bool
	for i, entry := range o.since(1) {
		if entry.ID != int64(i)+1 {
			o.broken("entry %d has the ID %d", i+1, entry.ID)
		}
		inForce = entry.Key == "a" && entry.What == runtime.OverrideBlock
	}
	if !inForce {
		o.broken("the block that was written last was erased")
	}
}
