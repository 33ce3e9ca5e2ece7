package model

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// value is a value of a field: of limits.yaml, or of a request.
type value struct{ field, value string }

// values are the values of some fields, by their names.
type values map[string]string

// limitFields are the fields of a limit, and requestFields those of a request, with the values that worlds choose from.
// allFields are both.
var (
	limitFields = map[string][]string{
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
		"warn":       {"no", "yes"},
		"exceptions": {"no", "numbers", "plan", "block", "off", "shadow", "unlimited"},
		"priorities": {"no", "yes"},
		"prices":     {"no", "yes"},
	}
	requestFields = map[string][]string{
		"plan":   {"none", "free", "pro", "unlimited"},
		"class":  {"none", "whole", "leaves"},
		"force":  {"nothing", "block", "numbers", "plan", "off", "unlimited", "shadow"},
		"edited": {"no", "yes"},
		"clock":  {"forward", "back"},
		"store":  {"answers", "fails", "silent"},
		"caller": {"stays", "leaves"},
		"in":     {"store", "commit", "rollback"},
		"verb": {"allow", "allow up to", "check", "require", "wait", "charge", "peek", "refund", "at once", "in any order", "reset", "erase", "reserve", "settle", "cancel",
			"all", "group check", "group reserve", "group wait", "override", "block", "unblock", "end", "edit", "sweep", "too late", "no transaction",
			"sweep ahead", "far zone"},
	}
	allFields = func() map[string][]string {
		all := maps.Clone(limitFields)
		maps.Copy(all, requestFields)
		return all
	}()
)

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
	{set{"reserve", "only"}, set{"warn", "yes"}, "no part of a capacity of 0 is used"},
	{set{"penalty", "one|steps"}, set{"reserve", "bounded|unbounded|only"}, "a limit with a penalty has no reservations"},
	{set{"penalty", "one|steps"}, set{"verb", "reserve"}, "there is no method Reserve"},
	{set{"penalty", "one|steps"}, set{"shards", "2|5"}, "a limit with a penalty has one row a key"},
	{set{"penalty", "one|steps"}, set{"lease", "yes"}, "its tokens cannot be leased"},
	{set{"numbers", "caller"}, set{"lease", "yes"}, "its tokens cannot be leased"},
	{set{"numbers", "caller"}, set{"exceptions", "numbers|plan|block|off|shadow|unlimited"}, "a limit has its numbers from one place"},
	{set{"plans", "none"}, set{"exceptions", "plan"}, "there are no plans"},
	{set{"plan", "none"}, set{"exceptions", "plan"}, "there are no plans"},
	{set{"priorities", "no"}, set{"class", "whole|leaves"}, "there are no classes"},
	{set{"priorities", "yes"}, set{"class", "none"}, "every request has a class"},
	{set{"priorities", "yes"}, set{"kind", "precise"}, "its log has no classes"},
	{set{"priorities", "yes"}, set{"lease", "yes"}, "one class would spend the block of another"},
	{set{"priorities", "yes"}, set{"penalty", "one|steps"}, "a class that leaves tokens has done nothing wrong"},
	{set{"priorities", "yes"}, set{"reserve", "only"}, "no part of a capacity of 0 is left"},
	{set{"class", "whole|leaves"}, set{"kind", "precise"}, "its log has no classes"},
	{set{"class", "whole|leaves"}, set{"lease", "yes"}, "one class would spend the block of another"},
	{set{"class", "whole|leaves"}, set{"penalty", "one|steps"}, "a class that leaves tokens has done nothing wrong"},
	{set{"class", "whole|leaves"}, set{"reserve", "only"}, "no part of a capacity of 0 is left"},
	{set{"prices", "yes"}, set{"reserve", "only"}, "a limit with prices has a capacity"},
	{set{"prices", "yes"}, set{"verb", "allow up to"}, "a part of a usage could be made in several ways"},
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
	{set{"verb", "override|block|unblock|end|edit|sweep|sweep ahead"}, set{"in", "commit|rollback"}, "it is not part of a transaction"},
	{set{"verb", "override|block|unblock|end|edit|sweep|sweep ahead"}, set{"store", "fails|silent"}, "the world has operators act when they can"},
	{set{"caller", "leaves"}, set{"store", "fails|silent"}, "there is nothing to leave behind"},
	{set{"caller", "leaves"}, set{"in", "commit|rollback"}, "some drivers end the transaction then"},
	{set{"caller", "leaves"}, set{"shards", "2|5"}, "what was taken cannot be seen"},
	{set{"caller", "leaves"}, set{"lease", "yes"}, "what was taken cannot be seen"},
	{set{"caller", "leaves"}, set{"verb", "wait|group wait|peek|reset|erase|refund|in any order|at once|override|block|unblock|end|edit|sweep|sweep ahead|far zone|too late"},
		"its end is another verb, or whether it was executed cannot be seen"},
	{set{"verb", "far zone"}, set{"kind", "bucket|fixed|offset|first use|calendar|sliding|precise"}, "its keys have no zones"},
	{set{"verb", "far zone"}, set{"store", "fails|silent"}, "the store is not reached"},
	{set{"verb", "far zone"}, set{"reserve", "only"}, "its verbs are those of others"},
	{set{"verb", "far zone"}, set{"mode", "off|block"}, "the zone is not needed"},
	{set{"verb", "far zone"}, set{"force", "block|off|unlimited"}, "the zone is not needed"},
	{set{"verb", "far zone"}, set{"plan", "unlimited"}, "the zone is not needed"},
	{set{"verb", "far zone"}, set{"exceptions", "block|off|unlimited"}, "the zone is not needed"},
	{set{"verb", "no transaction"}, set{"exceptions", "block|off|unlimited"}, "the store is not needed"},
	{set{"verb", "far zone"}, set{"lease", "yes"}, "tokens in memory have no zone"},
	{set{"verb", "no transaction"}, set{"store", "fails|silent"}, "the store must see it"},
	{set{"verb", "no transaction"}, set{"in", "commit|rollback"}, "it is in no transaction"},
	{set{"verb", "no transaction"}, set{"caller", "leaves"}, "the error is that of the call"},
	{set{"verb", "no transaction"}, set{"reserve", "only"}, "its verbs are those of others"},
	{set{"verb", "no transaction"}, set{"mode", "off|block"}, "the store is not needed"},
	{set{"verb", "no transaction"}, set{"force", "block|off|unlimited"}, "the store is not needed"},
	{set{"verb", "no transaction"}, set{"plan", "unlimited"}, "the store is not needed"},
	{set{"verb", "at once"}, set{"store", "fails|silent"}, "the store must decide"},
	{set{"verb", "at once"}, set{"in", "commit|rollback"}, "a transaction has one caller"},
	{set{"verb", "at once"}, set{"shards", "2|5"}, "what was taken cannot be seen"},
	{set{"verb", "at once"}, set{"lease", "yes"}, "what was taken cannot be seen"},
	{set{"verb", "at once"}, set{"penalty", "one|steps"}, "the first denial would decide the others"},
	{set{"verb", "at once"}, set{"mode", "shadow|off|block"}, "only counts are judged"},
	{set{"verb", "at once"}, set{"force", "block|off|unlimited|shadow"}, "only counts are judged"},
	{set{"verb", "at once"}, set{"plan", "unlimited"}, "only counts are judged"},
	{set{"verb", "at once"}, set{"exceptions", "block|off|shadow|unlimited"}, "only counts are judged"},
	{set{"verb", "in any order"}, set{"store", "fails|silent"}, "the tokens must have been taken"},
	{set{"verb", "erase"}, set{"store", "fails|silent"}, "it is not a request that OnError decides"},
	{set{"verb", "wait|group wait"}, set{"in", "commit|rollback"}, "nobody sleeps in a transaction"},
	{set{"verb", "wait|group wait"}, set{"store", "silent|fails"}, "as the other verbs, and would sleep"},
	{set{"in", "commit|rollback"}, set{"store", "fails|silent"}, "the transaction has failed then"},
	{set{"verb", "too late"}, set{"store", "fails|silent"}, "the store is not reached"},
	{set{"reserve", "only"}, set{"store", "silent"}, "as with the other reservations"},
}

// pairs are pairs of values of two fields, the first of which has the lesser name.
type pairs map[[2]value]bool

// pair returns the pair of two values.
func pair(a, b value) [2]value {
	if a.field > b.field {
		a, b = b, a
	}
	return [2]value{a, b}
}

// impossible are the pairs of exclusions.
var impossible = func() pairs {
	all := pairs{}
	for _, rule := range exclusions {
		for a := range strings.SplitSeq(rule.one.values, "|") {
			for b := range strings.SplitSeq(rule.other.values, "|") {
				all[pair(value{rule.one.field, a}, value{rule.other.field, b})] = true
			}
		}
	}
	return all
}()

// possiblePairs returns all pairs that can meet.
func possiblePairs() pairs {
	var all []value
	for field, of := range allFields {
		for _, v := range of {
			all = append(all, value{field, v})
		}
	}
	possible := pairs{}
	for _, a := range all {
		for _, b := range all {
			if p := pair(a, b); a.field != b.field && !impossible[p] {
				possible[p] = true
			}
		}
	}
	return possible
}

// any returns the values of some pair.
func (p pairs) any(r *rand.Rand) values {
	one := oneOf(r, slices.SortedFunc(maps.Keys(p), func(a, b [2]value) int {
		return cmp.Or(strings.Compare(a[0].String(), b[0].String()), strings.Compare(a[1].String(), b[1].String()))
	})...)
	return values{one[0].field: one[0].value, one[1].field: one[1].value}
}

func (v value) String() string { return v.field + " " + v.value }

// meet takes the pairs of some values out.
func (p pairs) meet(all values) {
	for f, a := range all {
		for g, b := range all {
			if f < g {
				delete(p, [2]value{{f, a}, {g, b}})
			}
		}
	}
}

// choose adds values of the fields that have none, in a random order. Each can meet the others and, as far as the order
// allows, is in the most of the pairs together with them; of those that are in equally many, any may be chosen. A field
// without a value that can meet the others gets none.
func (p pairs) choose(r *rand.Rand, all values, fields map[string][]string) {
	names := slices.Sorted(maps.Keys(fields))
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, field := range names {
		if _, has := all[field]; has {
			continue
		}
		var best []string
		most := 0
		for _, v := range fields[field] {
			switch n, can := p.with(value{field, v}, all); {
			case !can || n < most:
			case n > most:
				best, most = []string{v}, n
			default:
				best = append(best, v)
			}
		}
		if len(best) > 0 {
			all[field] = oneOf(r, best...)
		}
	}
}

// with counts the pairs of a value with others. It returns false if it cannot meet them.
func (p pairs) with(v value, others values) (n int, can bool) {
	for f, o := range others {
		with := pair(v, value{f, o})
		if impossible[with] {
			return 0, false
		}
		if p[with] {
			n++
		}
	}
	return n, true
}

func oneOf[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }
