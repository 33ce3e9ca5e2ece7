package runtime

import (
	"fmt"
	"reflect"
)

// constants returns the constants of a type from the first one up to the one before end.
func constants[C ~uint8](first, end C) (all []C) {
	for c := first; c < end; c++ {
		all = append(all, c)
	}
	return all
}

// entryOf returns the entry of a constant in the table of its type, or the zero entry if it is none of the constants.
func entryOf[C ~uint8, E any](table []E, c C) (e E) {
	if int(c) < len(table) {
		e = table[c]
	}
	return e
}

// nameOf returns the name of a constant or, if it is none of the constants of its type and so has no name, "Kind(7)".
func nameOf[C ~uint8](name string, c C) string {
	if name == "" {
		return fmt.Sprintf("%s(%d)", reflect.TypeFor[C]().Name(), uint8(c))
	}
	return name
}
