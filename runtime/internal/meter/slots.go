package meter

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/arith"
)

// inFlight is the algorithm of [runtime.InFlight]. A row has the holders of slots. Each holds its slots until the
// instant at which its hold ends, and no longer at that instant; or until it is released. Instants are those of the
// clock as it is: if it has gone back, holds last longer.
type inFlight struct{ *Rule }

// heldAt returns the holders of a row whose holds have not ended at the instant now.
func (r inFlight) heldAt(s runtime.State, now int64) holders {
	if r.read == nil || r.read.of != s {
		r.keep(s, r.holdersOf(s))
	}
	h := r.read.holders
	ended := 0
	for ended < len(h.all) && h.all[ended].end <= now {
		ended++
	}
	h.all = h.all[ended:]
	return h
}

func (r inFlight) keep(s runtime.State, h holders) {
	if r.read == nil {
		r.read = new(readHolders)
	}
	*r.read = readHolders{s, h}
}

// holdersOf returns the holders of a row. The tokens of a row of another kind are not slots, and none is held. If the
// row is damaged, its slots are held by an unknown holder, until as late as they can be.
func (r inFlight) holdersOf(s runtime.State) (h holders) {
	switch {
	case !s.Exists, s.Prev > -1, s.Log != "" && s.Log[0] == logTag, h.decode(s):
		return h
	}
	h = holders{last: afterAll(s)}
	if used := atLeast(-s.Value); used > 0 {
		h.all = []holder{{end: arith.Add(s.TS, r.Hold), slots: used}}
	}
	return h
}

// afterAll returns a number that is at least the largest fence of a row whose log is damaged. A fence is at most the
// latest instant, plus one for each change while the clock was behind it.
func afterAll(s runtime.State) int64 { return max(0, arith.Add(s.TS, int64(-s.Prev))) }

// holdersTag begins the log of a row with holders: the format of what follows.
const holdersTag = 'h'

// holdersHeader is the length of the parts of such a log that are not varints.
const holdersHeader = 1 + 8 + 8

// state returns the row of the holders after a change of s at the instant now. Its Log is holdersTag, the largest fence
// and the first end in 8 bytes each, and as unsigned varints the number of holders, and for each by how much its fence
// is less than the largest one, by how much its end is later than the one before, and its slots.
func (r inFlight) state(h holders, s runtime.State, now int64) runtime.State {
	ts := now
	if s.Exists {
		ts = max(now, s.TS)
	}
	first := int64(0)
	if len(h.all) > 0 {
		first = h.all[0].end
	}
	b := make([]byte, len(s.Log)+2*holdersHeader)
	b[0] = holdersTag
	binary.BigEndian.PutUint64(b[1:], uint64(h.last))
	binary.BigEndian.PutUint64(b[9:], uint64(first))
	n := putUvarint(b, holdersHeader, uint64(len(h.all)))
	for _, of := range h.all {
		if len(b)-n < longestHolder {
			b = append(b, make([]byte, len(b)/4+longestHolder)...)
		}
		n = putUvarint(b, n, uint64(h.last-of.fence))
		n = putUvarint(b, n, uint64(of.end-first))
		n = putUvarint(b, n, uint64(of.slots))
		first = of.end
	}
	next := runtime.State{Value: 0 - float64(h.used()), TS: ts, Prev: changed(s.Prev), Log: string(b[:n]), Exists: true}
	r.keep(next, h)
	return next
}

// longestHolder is the length of the longest holder in a log.
const longestHolder = 3 * binary.MaxVarintLen64

// putUvarint writes a number into b from index n on, and returns the index after it. It takes half the time of
// [binary.AppendUvarint], and a row may have a thousand holders.
func putUvarint(b []byte, n int, v uint64) int {
	for v >= 0x80 {
		b[n] = byte(v) | 0x80
		v >>= 7
		n++
	}
	b[n] = byte(v)
	return n + 1
}

// decode reads what state returned, and returns false for anything else.
func (h *holders) decode(s runtime.State) bool {
	if len(s.Log) < holdersHeader || s.Log[0] != holdersTag {
		return false
	}
	h.last = lastFence(s)
	end := int64(binary.BigEndian.Uint64([]byte(s.Log[9:holdersHeader])))
	used := atLeast(-s.Value)
	n, rest, ok := uvarint(s.Log[holdersHeader:], runtime.MaxSlots)
	if !ok || h.last < 1 {
		return false
	}
	h.all = make([]holder, n, n+1)
	for i := range h.all {
		less, more, okFence := uvarint(rest, h.last)
		later, more, okEnd := uvarint(more, math.MaxInt64-max(0, end))
		slots, more, okSlots := uvarint(more, used)
		if !okFence || !okEnd || !okSlots || slots == 0 {
			return false
		}
		end += later
		h.all[i] = holder{h.last - less, end, slots}
		rest, used = more, used-slots
	}
	return rest == "" && used == 0
}

func (r inFlight) available(s runtime.State, now int64) (tokens, allowance float64) {
	h := r.heldAt(s, now)
	return r.Capacity - float64(h.used()), 0
}

func (r inFlight) accrue(s runtime.State, now int64) runtime.State {
	h := r.heldAt(s, now)
	return r.state(h, s, now)
}

// take is not reached, because a holder is more than a count: see acquire.
func (inFlight) take(s runtime.State, _ int64, _ float64) runtime.State { return s }

// acquire adds a holder. Its fence is larger than all earlier ones. After a row was deleted, it is because the clock has
// passed the earlier ones by then, unless the row was changed more often than once in [runtime.MaxFenceStep] nanoseconds.
func (r inFlight) acquire(s runtime.State, now int64, q *runtime.Request) runtime.State {
	h := r.heldAt(s, now)
	h.last = arith.Add(max(arith.Add(h.last, 1), now), q.Fence)
	h.add(holder{h.last, arith.Add(now, r.Hold), q.Count})
	return r.state(h, s, now)
}

// grant is not reached, because Refuse refuses a refund that belongs to no holder.
func (inFlight) grant(s runtime.State, _ int64, _ float64) runtime.State { return s }

// refund frees slots of a holder, if it still holds them.
func (r inFlight) refund(s runtime.State, now int64, q runtime.Request) runtime.State {
	h := r.heldAt(s, now)
	i := h.find(q.Fence)
	if i < 0 {
		return s
	}
	if h.all[i].slots -= min(q.Count, h.all[i].slots); h.all[i].slots == 0 {
		h.all = slices.Delete(h.all, i, i+1)
	}
	return r.state(h, s, now)
}

// reset keeps the row, because the next fence must be larger than those before.
func (r inFlight) reset(s runtime.State, now int64) runtime.State {
	h := r.heldAt(s, now)
	h.all = nil
	return r.state(h, s, now)
}

func (r inFlight) due(s runtime.State, now int64, need float64) (at, interval int64) {
	h := r.heldAt(s, now)
	lacking := need - (r.Capacity - float64(h.used()))
	for _, of := range h.all {
		if lacking -= float64(of.slots); lacking <= 0 {
			return of.end, 0
		}
	}
	return math.MaxInt64, 0
}

func (r inFlight) full(s runtime.State, now int64) bool {
	return len(r.heldAt(s, now).all) == 0
}

func (inFlight) windowEnd(int64) int64 { return math.MaxInt64 }

func (inFlight) accruesTo(int64) (int64, float64, bool) { return 0, 0, false }

// renewOrRelease returns s after a Renew or a Release.
func (r inFlight) renewOrRelease(s runtime.State, now int64, q *runtime.Request) (runtime.State, error) {
	h := r.heldAt(s, now)
	i := h.find(q.Fence)
	switch {
	case i < 0 && q.Op == runtime.Release && q.TakenAt != 0:
		return r.prevent(s, h, now, q.Fence), nil
	case r.numberless && (i < 0 || q.Op == runtime.Renew):
		// Without a limit, no one waits for a slot, and the hold is not known.
		return s, nil
	case i < 0:
		return s, runtime.ErrSlotLost
	}
	of := h.all[i]
	h.all = slices.Delete(h.all, i, i+1)
	if q.Op == runtime.Renew {
		of.end = arith.Add(now, r.Hold)
		h.add(of)
	}
	return r.state(h, s, now), nil
}

// prevent returns s after the Release of a holder that is not there, and is not to be added any more: a write of it that is
// still on its way depends on the row that it has read, which is another one now. No later holder has its fence.
func (r inFlight) prevent(s runtime.State, h holders, now, fence int64) runtime.State {
	if s.Exists && (s.Prev > -1 || s.Log != "" && s.Log[0] == logTag) {
		return s // a row of another kind, which has no holders
	}
	h.last = max(h.last, fence)
	return r.state(h, s, now)
}

// lastFence returns the fence of the holder that was added last, given the state after that.
func lastFence(s runtime.State) int64 { return int64(binary.BigEndian.Uint64([]byte(s.Log[1:9]))) }

// refuseSlots returns an error for a request that slots do not have, or that only slots have.
func refuseSlots(k runtime.Kind, q *runtime.Request) error {
	switch ofHolder := q.Op == runtime.Renew || q.Op == runtime.Release; {
	case ofHolder && k != runtime.InFlight:
		return fmt.Errorf("%w: %v is for slots, not for the tokens of a %v", runtime.ErrInvalidCall, q.Op, k)
	case k != runtime.InFlight:
		return nil
	case q.Op.UpTo(), q.Op == runtime.Charge:
		return fmt.Errorf("%w: slots are acquired, all of a holder or none: %v is for tokens", runtime.ErrInvalidCall, q.Op)
	case q.Reserve:
		return fmt.Errorf("%w: slots cannot be reserved ahead, because it is not known when they are free", runtime.ErrInvalidCall)
	case q.Op == runtime.Take && (q.Fence < 0 || q.Fence > runtime.MaxFenceStep):
		return fmt.Errorf("%w: the Fence of a Take is from 0 to %d, not %d", runtime.ErrInvalidCall, runtime.MaxFenceStep, q.Fence)
	case q.Op == runtime.Refund && q.Fence == 0:
		return fmt.Errorf("%w: only the slots of a holder can be given back: release them, or reset the key",
			runtime.ErrInvalidCall)
	}
	return nil
}
