package spec

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// The values that hold, as limits.yaml has them. Two are written alike if and only if they are alike.

func effectivePackage(f *File) string { return f.Package }

func effectiveDoc(l *Limit) string { return l.Doc }

func effectiveKind(l *Limit) string { return l.Policy.Kind.String() }

func effectiveRate(l *Limit) string { return strconv.FormatInt(l.Policy.Rate, 10) }

func effectivePeriod(l *Limit) string { return Duration(l.Policy.Period) }

func effectiveCapacity(l *Limit) string { return strconv.FormatInt(l.Policy.Capacity, 10) }

func effectiveShards(l *Limit) string { return strconv.Itoa(max(1, l.Policy.Shards)) }

func effectiveGoName(l *Limit) string { return l.GoName }

func effectiveOnError(l *Limit) string { return l.Policy.OnError.String() }

// effectiveTimeout is empty for as long as the caller's context allows.
func effectiveTimeout(l *Limit) string { return unlessZero(l.Policy.Timeout) }

// effectiveDenyCache is empty if no denial is remembered.
func effectiveDenyCache(l *Limit) string { return unlessZero(l.Policy.DenyCache) }

func unlessZero(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return Duration(d)
}

// effectiveLease is empty if every request asks the store.
func effectiveLease(l *Limit) string {
	lease := l.Policy.Lease
	if lease == (runtime.Lease{}) {
		return ""
	}
	return fmt.Sprintf("{tokens: %d, for: %s}", lease.Tokens, Duration(lease.For))
}

// effectiveDurability is empty if it is that of the database.
func effectiveDurability(l *Limit) string {
	if l.Policy.Durability == runtime.DurabilityDefault {
		return ""
	}
	return l.Policy.Durability.String()
}

// effectiveMaxReserved is empty for as many as callers like.
func effectiveMaxReserved(l *Limit) string {
	if l.Policy.MaxReserved == runtime.Unbounded {
		return ""
	}
	return strconv.FormatInt(l.Policy.MaxReserved, 10)
}

// effectiveKey is a map of names to types; empty for one count that everybody shares.
func effectiveKey(l *Limit) string {
	if len(l.Key) == 0 {
		return ""
	}
	parts := make([]string, len(l.Key))
	for i, part := range l.Key {
		parts[i] = part.Name + ": " + part.Type
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// effectiveStart is empty for a phase of each key's own. Beyond ten years after 1970, it is an instant.
func effectiveStart(l *Limit) string {
	offset, aligned := l.Policy.Start.Offset()
	switch {
	case l.Policy.Start.FirstUse():
		return firstUse
	case !aligned:
		return ""
	case offset.Abs() > runtime.MaxPeriod:
		return instantAt(offset).Format(time.RFC3339Nano)
	}
	return Duration(offset)
}
