package model

import (
	"maps"
	"slices"
	"strings"
)

// value is a value of a field: of limits.yaml, or of a request.
type value struct{ field, value string }

// fields has the values of each field that worlds choose from.
var fields = map[string][]string{
	"kind":       {"bucket", "fixed", "offset", "first use", "calendar", "calendar by key", "sliding", "precise"},
	"mode":       {"enforce", "shadow", "off", "block"},
	"plans":      {"none", "three"},
	"numbers":    {"file", "caller"},
	"reserve":    {"no", "bounded", "unbounded", "only"},
	"shards":     {"1", "2", "5"},
	"jitter":     {"no", "yes"},
	"denyCache":  {"no", "yes"},
	"lease":      {"no", "yes"},
	"onError":    {"closed", "open", "local"},
	"timeout":    {"no", "yes"},
	"durability": {"default", "relaxed", "full"},
	"overrides":  {"no", "numbers", "any"},
	"penalty":    {"no", "one", "steps"},

	"plan":   {"none", "free", "pro", "unlimited"},
	"force":  {"nothing", "block", "numbers", "plan", "off", "unlimited", "shadow"},
	"edited": {"no", "yes"},
	"clock":  {"forward", "back"},
	"store":  {"answers", "fails", "silent"},
	"in":     {"store", "commit", "rollback"},
	"verb": {"allow", "allow up to", "check", "require", "wait", "charge", "peek", "refund", "reset", "erase", "reserve", "settle", "cancel",
		"all", "group check", "group reserve", "group wait", "override", "block", "unblock", "end", "edit", "sweep", "too late"},
}

// limitFields are the fields of a limit; the others are of a request.
var limitFields = []string{"kind", "mode", "plans", "numbers", "reserve", "shards", "jitter", "denyCache", "lease", "onError", "timeout",
	"durability", "overrides", "penalty"}

// possible reports whether the values of fields can all meet.
func possible(values map[string]string) bool {
	for f, a := range values {
		for g, b := range values {
			if impossible[[2]value{{f, a}, {g, b}}] {
				return false
			}
		}
	}
	return true
}

// impossible has the pairs of exclusions, in the order of their fields.
var impossible = func() map[[2]value]bool {
	all := map[[2]value]bool{}
	for _, rule := range exclusions {
		for a := range strings.SplitSeq(rule.one.values, "|") {
			for b := range strings.SplitSeq(rule.other.values, "|") {
				pair := [2]value{{rule.one.field, a}, {rule.other.field, b}}
				if pair[0].field > pair[1].field {
					pair[0], pair[1] = pair[1], pair[0]
				}
				all[pair] = true
			}
		}
	}
	return all
}()

// set is some values of a field.
type set struct{ field, values string }

// exclusions are the pairs of values that cannot meet, and why.
var exclusions = []struct {
	one, other set
	why        string
}{
	{set{"kind", "sliding|precise"}, set{"reserve", "bounded|unbounded|only"}, "a sliding window has no reservations"},
	{set{"kind", "first use|precise"}, set{"shards", "2|5"}, "each shard would have its own windows or its own log"},
	{set{"kind", "first use|precise"}, set{"lease", "yes"}, "its tokens cannot be leased"},
	{set{"reserve", "only"}, set{"lease", "yes"}, "a lease is at most the capacity, which is 0"},
	{set{"penalty", "one|steps"}, set{"reserve", "bounded|unbounded|only"}, "a limit with a penalty has no reservations"},
	{set{"penalty", "one|steps"}, set{"verb", "reserve"}, "there is no method Reserve"},
	{set{"penalty", "one|steps"}, set{"shards", "2|5"}, "a limit with a penalty has one row a key"},
	{set{"penalty", "one|steps"}, set{"lease", "yes"}, "its tokens cannot be leased"},
	{set{"numbers", "caller"}, set{"lease", "yes"}, "its tokens cannot be leased"},
	{set{"plans", "none"}, set{"plan", "free|pro|unlimited"}, "there are no plans"},
	{set{"plans", "three"}, set{"plan", "none"}, "every request has a plan"},
	{set{"plans", "none"}, set{"force", "plan"}, "there are no plans"},
	{set{"plan", "none"}, set{"force", "plan"}, "there are no plans"},
	{set{"overrides", "no"}, set{"force", "block|numbers|plan|off|unlimited|shadow"}, "the limit has no overrides"},
	{set{"overrides", "numbers"}, set{"force", "off|unlimited|shadow"}, "operators may not lift the limit"},
	{set{"overrides", "no"}, set{"verb", "override|block|unblock|end"}, "the limit has no overrides"},
	{set{"reserve", "no"}, set{"verb", "reserve"}, "there is no method Reserve"},
	{set{"kind", "sliding|precise"}, set{"verb", "reserve"}, "there is no method Reserve"},
	{set{"reserve", "only"}, set{"verb", "allow|allow up to|check|require|all|group check"}, "its tokens can only be reserved"},
	{set{"verb", "override|block|unblock|end|edit|sweep"}, set{"in", "commit|rollback"}, "it is not part of a transaction"},
	{set{"verb", "override|block|unblock|end|edit|sweep"}, set{"store", "fails|silent"}, "the world has operators act when they can"},
	{set{"verb", "erase"}, set{"store", "fails|silent"}, "it is not a request that OnError decides"},
	{set{"verb", "edit|sweep"}, set{"force", "nothing|block|numbers|plan|off|unlimited|shadow"}, "it is about all keys"},
	{set{"verb", "edit|sweep"}, set{"plan", "none|free|pro|unlimited"}, "it is about all plans"},
	{set{"verb", "wait|group wait"}, set{"in", "commit|rollback"}, "nobody sleeps in a transaction"},
	{set{"verb", "wait|group wait"}, set{"store", "silent|fails"}, "as the other verbs, and would sleep"},
	{set{"in", "commit|rollback"}, set{"store", "fails|silent"}, "the transaction has failed then"},
	{set{"verb", "too late"}, set{"store", "fails|silent"}, "the store is not reached"},
	{set{"reserve", "only"}, set{"store", "silent"}, "as with the other reservations"},
}

// pairs counts the pairs of values that requests have had.
type pairs map[[2]value]int

// add counts a request with these values of fields.
func (p pairs) add(values map[string]string) {
	for f, a := range values {
		for g, b := range values {
			if f < g {
				p[[2]value{{f, a}, {g, b}}]++
			}
		}
	}
}

// missing returns the pairs that can occur, and have not.
func (p pairs) missing() (missing [][2]value) {
	names := slices.Sorted(maps.Keys(fields))
	for i, f := range names {
		for _, g := range names[i+1:] {
			for _, a := range fields[f] {
				for _, b := range fields[g] {
					if pair := [2]value{{f, a}, {g, b}}; p[pair] == 0 && !impossible[pair] {
						missing = append(missing, pair)
					}
				}
			}
		}
	}
	return missing
}
