package runtime

import (
	"fmt"
	"strings"
)

// MaxThresholds is how many [Thresholds] a limit has at most.
const MaxThresholds = 8

// Thresholds are percentages of the capacity in force, from 1 to 100 and each larger than the one before, up to the first
// 0. The zero Thresholds has none.
//
// The take that crosses one says so: see [Decision.Crossed]. It is a Take, a TakeUpTo or a Charge after which at least that
// part of the capacity is used, and before which, at the same instant, less was. What is used is counted as by
// [Balance.Used], in whole tokens: the take of the last one crosses 100%. As tokens come back a threshold can be crossed
// again, and if a change of the capacity passes it, no take crosses it. Nothing is stored.
type Thresholds [MaxThresholds]uint8

// Len returns the number of thresholds.
func (t *Thresholds) Len() int {
	n := 0
	for n < MaxThresholds && t[n] != 0 {
		n++
	}
	return n
}

// String returns the thresholds as limits.yaml writes them: "80%", "[80%, 100%]", or "" without one.
func (t Thresholds) String() string {
	var parts []string
	for _, percent := range t[:t.Len()] {
		parts = append(parts, fmt.Sprintf("%d%%", percent))
	}
	text := strings.Join(parts, ", ")
	if len(parts) > 1 {
		text = "[" + text + "]"
	}
	return text
}
