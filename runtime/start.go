package runtime

import (
	"time"
)

// Start says when the windows of a limit begin. The zero Start gives every key a phase of its own, the
// same for ever, so that keys do not all start anew at the same instant.
type Start struct {
	mode   startMode
	offset time.Duration
}

type startMode uint8

const (
	startByKey startMode = iota
	startAligned
	startFirstUse
)

// StartAt returns a Start with a window that begins at t, and others every period before and after.
func StartAt(t time.Time) Start { return StartOffset(time.Duration(t.UnixNano())) }

// StartOffset returns a Start with a window that begins at offset after 0:00 UTC on 1 January 1970, and
// others every period before and after: with a period of a day, offset is a time of day in UTC.
func StartOffset(offset time.Duration) Start { return Start{mode: startAligned, offset: offset} }

// StartFirstUse returns a Start with which a key's window begins at the key's first request, and the next
// one at the first request after it ended.
func StartFirstUse() Start { return Start{mode: startFirstUse} }

// Offset returns the offset of a [StartOffset] or [StartAt], and whether s is one of them.
func (s Start) Offset() (time.Duration, bool) { return s.offset, s.mode == startAligned }

// FirstUse reports whether s is [StartFirstUse].
func (s Start) FirstUse() bool { return s.mode == startFirstUse }

// phase returns where in a period the windows of a key begin, in nanoseconds from 0 to period-1.
func (s Start) phase(name, key string, period int64) int64 {
	switch s.mode {
	case startAligned:
		return floorMod(int64(s.offset), period)
	case startByKey:
		return int64(hash(name, key) % uint64(period))
	}
	return 0
}

// hash is FNV-1a over name, a zero byte and key, with the finalizer of MurmurHash3 to spread its low
// bits. It is part of what a stored row means, and so never changes.
func hash(name, key string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * prime
	}
	h *= prime
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * prime
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// floorMod returns a modulo m, at least 0 for an instant before 1970 too.
func floorMod(a, m int64) int64 {
	if r := a % m; r < 0 {
		return r + m
	} else {
		return r
	}
}
