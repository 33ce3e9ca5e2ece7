// Package ids has every id that reports use: the rules that a limits.yaml can break, and the ways in which two of them can
// differ, each with a sentence and an example. An id never changes its meaning.
package ids

import (
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
)

// Meaning is what an id stands for: a rule that a file breaks, or a kind of change.
type Meaning struct {
	// ID is the name: "bad-kind", "rate-changed".
	ID string
	// Summary is one sentence: the rule, or the change with its main consequence.
	Summary string
	// Before and After are an example: a file that breaks only this rule and the corrected file, or two files with only this
	// difference. Both are empty if such a file is too long to show.
	Before, After string
}

// meanings are those declared in a file of this package, in their order. The parser and the diff report a *Meaning, so that
// no report can have an id that these lists lack.
type meanings []*Meaning

var rules, changes meanings

// Rules returns the rules in the order in which a file is read.
func Rules() []*Meaning { return slices.Clone(rules) }

// Changes returns the kinds of changes in the order in which a diff reports those of one limit.
func Changes() []*Meaning { return slices.Clone(changes) }

// OfChanges returns the ids of [Changes].
func OfChanges() []string { return words.Of(changes, func(k *Meaning) string { return k.ID }) }

// Address returns the address of the section on an id in the page of all of them.
func Address(id string) string {
	return "https://github.com/ratelimitgen/ratelimitgen/blob/main/cmd/ratelimitgen/DIAGNOSTICS.md#" + id
}

func rule(id, summary, example string) *Meaning { return rules.add(id, summary, example) }

func change(id, summary, example string) *Meaning { return changes.add(id, summary, example) }

// add adds a kind with an example in the form of [versions].
func (all *meanings) add(id, summary, example string) *Meaning {
	k := &Meaning{ID: id, Summary: summary}
	k.Before, k.After = versions(example)
	*all = append(*all, k)
	return k
}
