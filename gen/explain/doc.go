// Package explain says in words and numbers what a limit means, and what a field means, and what an id means that a
// check or a review of limits.yaml has printed.
//
// The numbers are those of package review, and otherwise answers of [runtime.Rule.Step]. None of them depends on
// a clock. Those about reserving are told of a key that is full, at the beginning of a window.
package explain
