package review

import (
	"slices"
	"strings"
)

// Class is what a change means to those who review it.
type Class string

// The classes, in the order in which they are told.
const (
	// Loosened lets more tokens through in some interval.
	Loosened Class = "loosened"
	// Tightened lets fewer tokens through in some interval.
	Tightened Class = "tightened"
	// StoredState gives rows that are stored another meaning, or leaves them behind.
	StoredState Class = "stored-state"
	// Breaking keeps callers from compiling, or from meaning what they meant.
	Breaking Class = "breaking"
	// Added is a new limit.
	Added Class = "added"
	// Removed is a limit that is gone.
	Removed Class = "removed"
	// Renamed is a limit that probably has another name now.
	Renamed Class = "renamed"
	// Cosmetic is a change that is none of the others.
	Cosmetic Class = "cosmetic"
)

// Classes lists every class.
func Classes() []Class {
	return []Class{Loosened, Tightened, StoredState, Breaking, Added, Removed, Renamed, Cosmetic}
}

// sorted returns classes in their order, each once; Cosmetic if there are none.
func sorted(classes []Class) (list []Class) {
	for _, class := range Classes() {
		if slices.Contains(classes, class) {
			list = append(list, class)
		}
	}
	if len(list) == 0 {
		return []Class{Cosmetic}
	}
	if list[0] != Cosmetic {
		list = slices.DeleteFunc(list, func(c Class) bool { return c == Cosmetic })
	}
	return list
}

func classList(classes []Class) string {
	words := make([]string, len(classes))
	for i, class := range classes {
		words[i] = string(class)
	}
	return strings.Join(words, ", ")
}
