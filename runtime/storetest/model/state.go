package model

import (
	"context"
	"math"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
)

// compare compares what a key has with the model.
func (w *World) compare(limits *limiter.Limiter, l *limit, k *key, plan int, when string) {
	if w.err != nil || w.ended || l.traits["lease"] == "yes" {
		return
	}
	now := w.clock.now()
	t := l.at(k, plan, now)
	b, err := limits.Limit(l.of(plan), k.of).Peek(context.Background())
	if err != nil {
		w.failf("%s: peek: %v", when, err)
		return
	}
	if t.lifted() {
		if b.Remaining != runtime.MaxTokens {
			w.failf("%s: a limit that is lifted has %+v", when, b)
		}
		return
	}
	if t.unlimited {
		if b.Remaining != 0 || b.BlockedFor == 0 {
			w.failf("%s: a blocked key: %+v", when, b)
		}
		return
	}
	k.reported = limits == w.limiter
	q := request{l: l, k: k, plan: plan, op: runtime.Peek}
	tokens, _ := q.tokens(now, t).Float64()
	close := 1e-6 + noise(t, k.history.missing(now, t, false))
	if l.loose() {
		settled, _ := k.history.missing(now, t, true).Float64()
		if l.constant() && b.Value > float64(t.capacity)-settled+close {
			w.failf("%s: shards have %v tokens, and one row would have %v", when, b.Value, float64(t.capacity)-settled)
		}
		w.conserved(when, l, k, t, now, b.Value)
		return
	}
	merged := t.windows.kind == precise && int64(len(k.history)) >= t.rate && tokens < 0
	if math.Abs(b.Value-tokens) > close && !merged {
		w.failf("%s: Peek has %v, want %v: %+v\nterms %+v\nhistory %v", when, b.Value, tokens, b, t, k.history)
		return
	}
	if t.mode != runtime.ModeBlock && !merged {
		w.remaining(when, q, now, t, b.Remaining)
	}
	if used := float64(b.Used) - (float64(t.capacity) - tokens); (used < -close || used >= 1+close) && !merged {
		w.failf("%s: %d tokens are used, want those missing from %d with %v left", when, b.Used, t.capacity, tokens)
	}
	end := k.history.windowEnd(now, t)
	if want := time.Unix(0, end); end > now && !b.ResetAt.Equal(want) || end <= now && !b.ResetAt.IsZero() {
		w.failf("%s: the window ends at %v, want %v", when, b.ResetAt, want)
	}
	if reset := max(0, end-now); end != 0 && int64(b.ResetAfter) != reset || end == 0 && b.ResetAfter != 0 {
		w.failf("%s: the window ends after %v, want %v", when, b.ResetAfter, time.Duration(reset))
	}
	if t.mode == runtime.ModeBlock {
		if want, _ := q.blockedFor(now); b.Remaining != 0 || b.BlockedFor != want {
			w.failf("%s: a blocked key: %+v, want %v", when, b, want)
		}
	}
	if !merged && (b.FullAfter > 0 || tokens < float64(t.capacity)-q.lenience(now, t)) {
		w.first("full after", []request{q}, now, b.FullAfter, q.full, q.nearlyFull)
	}
}

// forgetSwept forgets the history of the keys that a sweep has deleted: they have been full for an hour by the numbers of every
// plan and of the override in force, and longer for calendars.
func (w *World) forgetSwept() {
	for _, l := range w.limits {
		for _, k := range l.keys {
			now := w.clock.now() - int64(time.Hour)
			if k.windows.kind == calendar {
				now -= int64(47 * time.Hour)
			}
			if l.traits["kind"] == "calendar by key" {
				now -= int64(l.counted().Period) * 9 / 8
			}
			full := k.windows.kind != firstUse || k.history.windowEnd(now, k.termsOf(l.counted())) == 0
			for i := range l.policies {
				if t := l.at(k, i, w.clock.now()); t.rate > 0 {
					full = full && k.history.missing(now, t, false).Sign() == 0
				}
				if t := k.termsOf(l.of(i)); t.rate > 0 {
					full = full && k.history.missing(now, t, false).Sign() == 0
				}
			}
			for _, at := range k.history.latest() {
				full = full && at <= now
			}
			if full {
				k.history = nil
				w.begin(k)
			}
		}
	}
}

// begin begins another life of a key.
func (w *World) begin(k *key) {
	w.lives++
	k.life, k.seen, k.reported = w.lives, nil, false
}
