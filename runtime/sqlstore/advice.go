package sqlstore

import (
	"errors"
	"strconv"
	"strings"
)

// advised is what is wrong and what to do, and what the database said, if it said something.
type advised struct {
	do  string
	err error
}

func (a *advised) Error() string {
	if a.err == nil {
		return a.do
	}
	return a.do + ": " + a.err.Error()
}

// Unwrap returns the driver's error.
func (a *advised) Unwrap() error { return a.err }

// advise adds to an error what to do about it, if that is known.
func (s *Store) advise(err error) error {
	var already *advised
	if err == nil || errors.As(err, &already) {
		return err
	}
	if malformedName(err) {
		// Not even wrapped: a log may print what is inside.
		return &advised{malformedDSN, nil}
	}
	if do := remedy(err); do != "" {
		return &advised{s.say(do), err}
	}
	return err
}

// say fills in the placeholders of a text of [trouble].
func (s *Store) say(text string) string {
	flags := "-dialect " + s.dialect.Name
	if s.table != DefaultTable {
		flags += " -table " + s.table
	}
	return strings.NewReplacer("{table}", strconv.Quote(s.table), "{dialect}", s.dialect.Name, "{flags}", flags).Replace(text)
}
