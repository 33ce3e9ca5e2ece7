package judge

import (
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// judgePrices compares what a million units of each price cost. A lower price lets more pass.
func judgePrices(j *judgement) {
	was, is, usage := j.Old.Prices, j.New.Prices, j.New.UsageType()
	switch {
	case len(was) == 0:
		j.class(review.Loosened, review.Tightened, review.Breaking)
		j.describe(review.Rule, fields.PricesWords(j.New))
		j.note(review.Calls, "Every call of %s must pass %s in place of a count, as in %s.", j.New.GoName, usage,
			j.New.Call("Allow"))
		j.note(review.Deploy, "Used tokens stay used, and count as cost from now on. If the limit has counted something else, give it another name.")
		return
	case len(is) == 0:
		j.class(review.Loosened, review.Tightened, review.Breaking)
		j.note(review.Rule, "Callers pass counts. Before: %s", fields.PricesWords(j.Old)[0])
		j.note(review.Calls, "Every call of %s must pass a count in place of %s.", j.New.GoName, j.Old.UsageType())
		j.note(review.Deploy, "Used tokens stay used, and were counted as cost.")
		return
	}
	sameNames := len(was) == len(is)
	for _, price := range is {
		before := priceOf(was, price.Name)
		sameNames = sameNames && before > 0
		switch now := price.Millionths; {
		case before == 0:
			j.class(review.Tightened)
			j.note(review.Rule, "%s: a million units cost %s. Before, they were not counted.", price.Name, millionCost(now))
			j.note(review.Calls, "%s has the new field %s. Code that does not set it takes nothing for it.", usage,
				spec.GoName(price.Name))
		case before != now:
			j.class(moreOrLess(now, before)...)
			j.note(review.Rule, "%s: a million units cost %s. Before: %s.", price.Name, millionCost(now), millionCost(before))
		}
	}
	var gone []string
	for _, price := range was {
		if priceOf(is, price.Name) == 0 {
			gone = append(gone, spec.GoName(price.Name))
			j.note(review.Rule, "%s is not counted any more. Before, a million units cost %s.", price.Name,
				millionCost(price.Millionths))
		}
	}
	switch {
	case len(gone) > 0:
		j.class(review.Loosened, review.Breaking)
		field, it := "field", "it"
		if len(gone) > 1 {
			field, it = "fields", "them"
		}
		j.note(review.Calls, "%s no longer has the %s %s: code that sets %s no longer compiles.", usage, field,
			words.List(gone, "and"), it)
	case sameNames && slices.ContainsFunc(is, func(price runtime.Price) bool { return indexOf(was, price.Name) != indexOf(is, price.Name) }):
		j.class(review.Breaking)
		j.note(review.Calls, "The fields of %s are in another order. Check each %[1]s without the names of its fields, because the compiler cannot.", usage)
	}
	if len(j.classes) == 1 && j.classes[0] == review.Breaking { // the prices are the same
		return
	}
	j.note(review.Deploy, "Used tokens stay used, at the old prices. Until all processes have the new version, the old ones take the old prices. A reservation is settled by the prices of the process that settles it.")
}

// priceOf returns the price with a name, in millionths, or 0.
func priceOf(prices runtime.Prices, name string) int64 {
	if i := indexOf(prices, name); i >= 0 {
		return prices[i].Millionths
	}
	return 0
}

func indexOf(prices runtime.Prices, name string) int {
	return slices.IndexFunc(prices, func(price runtime.Price) bool { return price.Name == name })
}

// millionCost is what a million units cost.
func millionCost(millionths int64) string { return words.Count(millionths, "token") }
