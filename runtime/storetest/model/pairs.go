package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Value is a value of a field: of limits.yaml, or of a request.
type Value struct{ Field, Value string }

// Fields has the values of each field that worlds choose from.
var Fields = map[string][]string{
	"kind":       {"bucket", "fixed", "offset", "first use", "calendar", "calendar by key", "sliding", "precise"},
	"mode":       {"enforce", "shadow", "off", "block"},
	"plans":      {"none", "three"},
	"reserve":    {"no", "bounded", "unbounded", "only"},
	"shards":     {"1", "2", "5"},
	"jitter":     {"no", "yes"},
	"denyCache":  {"no", "yes"},
	"lease":      {"no", "yes"},
	"onError":    {"closed", "open", "local"},
	"timeout":    {"no", "yes"},
	"durability": {"default", "relaxed", "full"},
	"overrides":  {"no", "numbers", "any"},

	"plan":   {"none", "free", "pro", "unlimited"},
	"force":  {"nothing", "block", "numbers", "plan", "off", "unlimited", "shadow"},
	"edited": {"no", "yes"},
	"clock":  {"forward", "back"},
	"store":  {"answers", "fails", "silent"},
	"in":     {"store", "commit", "rollback"},
	"verb": {"allow", "allow up to", "check", "require", "wait", "charge", "peek", "refund", "reset", "reserve", "settle", "cancel",
		"all", "group check", "group reserve", "group wait", "override", "block", "unblock", "end", "edit", "sweep", "too late"},
}

// limitFields are the fields of a limit; the others are of a request.
var limitFields = []string{"kind", "mode", "plans", "reserve", "shards", "jitter", "denyCache", "lease", "onError", "timeout",
	"durability", "overrides"}

// Impossible returns why two values of different fields cannot meet, or "" if they can.
func Impossible(a, b Value) string { return reasons[pairOf(a, b)] }

// reasons has the pairs that impossible lists.
var reasons = func() map[[2]Value]string {
	all := map[[2]Value]string{}
	for _, rule := range impossible {
		for _, a := range strings.Split(rule.one.values, "|") {
			for _, b := range strings.Split(rule.other.values, "|") {
				all[pairOf(Value{rule.one.field, a}, Value{rule.other.field, b})] = rule.why
			}
		}
	}
	return all
}()

// set is some values of a field.
type set struct{ field, values string }

var impossible = []struct {
	one, other set
	why        string
}{
	{set{"kind", "sliding|precise"}, set{"reserve", "bounded|unbounded|only"}, "a sliding window has no reservations"},
	{set{"kind", "first use|precise"}, set{"shards", "2|5"}, "each shard would have its own windows or its own log"},
	{set{"kind", "first use|precise"}, set{"lease", "yes"}, "its tokens cannot be leased"},
	{set{"reserve", "only"}, set{"lease", "yes"}, "a lease is at most the capacity, which is 0"},
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
	{set{"verb", "edit|sweep"}, set{"force", "nothing|block|numbers|plan|off|unlimited|shadow"}, "it is about all keys"},
	{set{"verb", "edit|sweep"}, set{"plan", "none|free|pro|unlimited"}, "it is about all plans"},
	{set{"verb", "wait|group wait"}, set{"in", "commit|rollback"}, "nobody sleeps in a transaction"},
	{set{"verb", "wait|group wait"}, set{"store", "silent|fails"}, "as the other verbs, and would sleep"},
	{set{"in", "commit|rollback"}, set{"store", "fails|silent"}, "the transaction has failed then"},
	{set{"verb", "too late"}, set{"store", "fails|silent"}, "the store is not reached"},
	{set{"kind", "precise"}, set{"force", "numbers"}, "its log loses instants if the rate changes"},
	{set{"kind", "precise"}, set{"edited", "yes"}, "its log loses instants if the rate changes"},
	{set{"kind", "precise"}, set{"verb", "edit"}, "its log loses instants if the rate changes"},
	{set{"reserve", "only"}, set{"store", "silent"}, "as with the other reservations"},
}

// Pairs is a table of the pairs of values that requests have had.
type Pairs map[[2]Value]int

// Add counts a request with these values.
func (p Pairs) Add(values map[string]string) {
	list := make([]Value, 0, len(values))
	for field, v := range values {
		list = append(list, Value{field, v})
	}
	for i, a := range list {
		for _, b := range list[i+1:] {
			p[pairOf(a, b)]++
		}
	}
}

func pairOf(a, b Value) [2]Value {
	if a.Field > b.Field {
		a, b = b, a
	}
	return [2]Value{a, b}
}

// Missing returns the pairs that can occur, and have not.
func (p Pairs) Missing() (missing [][2]Value) {
	fields := slices.Sorted(maps.Keys(Fields))
	for i, f := range fields {
		for _, g := range fields[i+1:] {
			for _, a := range Fields[f] {
				for _, b := range Fields[g] {
					if v, u := (Value{f, a}), (Value{g, b}); p[pairOf(v, u)] == 0 && Impossible(v, u) == "" {
						missing = append(missing, [2]Value{v, u})
					}
				}
			}
		}
	}
	return missing
}

// String returns the table: a row for each value, with the number of values of every other field that it has met.
func (p Pairs) String() string {
	var b strings.Builder
	fields := slices.Sorted(maps.Keys(Fields))
	reached, can := 0, 0
	for _, f := range fields {
		for _, a := range Fields[f] {
			fmt.Fprintf(&b, "%-28s", f+": "+a)
			for _, g := range fields {
				if f == g {
					continue
				}
				met, possible, least := 0, 0, -1
				for _, c := range Fields[g] {
					v, u := Value{f, a}, Value{g, c}
					if Impossible(v, u) != "" {
						continue
					}
					possible++
					n := p[pairOf(v, u)]
					if n > 0 {
						met++
					}
					if least < 0 || n < least {
						least = n
					}
				}
				fmt.Fprintf(&b, " %s %d/%d(%d)", g, met, possible, max(0, least))
				reached, can = reached+met, can+possible
			}
			b.WriteByte('\n')
		}
	}
	// Each pair is in two rows.
	fmt.Fprintf(&b, "%d of %d pairs that can occur were reached\n", reached/2, can/2)
	return b.String()
}
