package sim

import (
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/sim/trace"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// priced reports whether requests of the limit take the cost of their usage.
func (s *limitState) priced() bool { return s.limit != nil && len(s.limit.Prices) > 0 }

// units returns the names of what requests of the limit, or of the limits of the group, use.
func (s *limitState) units() []string {
	if s.group != nil {
		_, units := s.group.Usage()
		return units
	}
	return priceNames(s.limit.Prices)
}

func priceNames(prices runtime.Prices) []string {
	return words.Of(prices, func(price runtime.Price) string { return price.Name })
}

// cost returns what a line takes of a limit with prices, whatever its count, which may be for another version of the limit.
// Units that the line does not have are 0. The error is a [*trace.Fault].
func (s *limitState) cost(l *trace.Line) (int64, error) {
	prices := s.limit.Prices
	var buffer [8]int64 // on the stack, because a replay has millions of lines
	units, found := buffer[:0], false
	for _, price := range prices {
		i := slices.IndexFunc(l.Units, func(u trace.Unit) bool { return u.Name == price.Name })
		if i < 0 {
			units = append(units, 0)
			continue
		}
		if fault := l.Units[i].Fault; fault != nil {
			return 0, fault
		}
		units, found = append(units, l.Units[i].N), true
	}
	switch {
	case l.Op == runtime.TakeUpTo:
		return 0, trace.Faultf("%s has prices, and no verb allowUpTo", s.name)
	case !found:
		return 0, trace.Faultf("the line has no field %s, of which %s has prices: add them in place of count, or name those of a log with -map %s=NAME",
			words.List(priceNames(prices), "or"), s.name, prices[0].Name)
	}
	n, err := prices.Cost(units...)
	if err != nil {
		return 0, &trace.Fault{Reason: s.name + ": " + err.Error(), Cause: err}
	}
	return n, nil
}
