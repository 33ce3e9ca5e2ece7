package sim

import (
	"slices"
)

// Line is a request of a trace. It is only good until the next one is read.
type Line struct {
	// Number counts the lines of the trace from 1.
	Number int
	// At is when the request was made, in nanoseconds since 1970 UTC.
	At int64
	// Limit is the limit that was asked.
	Limit string
	// Key holds the parts of the key; none for a limit without one.
	Key []string
	// Count is how many tokens were asked for.
	Count int64
	// Reserve says whether they may be taken ahead of their time.
	Reserve bool

	// forms says how each part of the key was written.
	forms []form
	// given is what was written as the value of each field, nil for a field that is left out.
	given [len(fields)][]byte
}

// parse reads a line.
func (l *Line) parse(text []byte) error {
	*l = Line{Number: l.Number, Key: l.Key[:0], forms: l.forms[:0], Count: 1}
	s := scanner{text: text}
	if !s.take('{') {
		return s.wrongf(s.at, "a line must be a JSON object, not %s", s.what())
	}
	if !s.take('}') {
		if err := l.parseFields(&s); err != nil {
			return err
		}
	}
	if s.next(); s.at < len(text) {
		return s.wrongf(s.at, "there is more on the line after its object: %s", s.what())
	}
	for i, fault := range s.misspelt {
		if fault != nil && l.given[i] == nil {
			return fault
		}
	}
	if l.given[fieldAt] == nil {
		return faultf("the line has no at, the time of the request")
	}
	return nil
}

// parseFields reads what is between the braces, and the closing one.
func (l *Line) parseFields(s *scanner) error {
	for {
		if err := l.parseField(s); err != nil {
			return err
		}
		switch {
		case s.take(','):
		case s.take('}'):
			return nil
		default:
			return s.wrongf(s.at, "there must be a comma or } here, not %s", s.what())
		}
	}
}

func (l *Line) parseField(s *scanner) error {
	s.next()
	start := s.at
	name, err := s.str("the name of a field")
	if err != nil {
		return err
	}
	i := slices.IndexFunc(fields[:], func(f field) bool { return f.name == string(name) })
	switch {
	case i < 0:
		return s.extra(string(name), start)
	case l.given[i] != nil:
		return s.wrongf(start, "%s is given twice", name)
	case !s.take(':'):
		return s.wrongf(s.at, "there must be a colon after %s, not %s", name, s.what())
	}
	s.next()
	start = s.at
	if err := l.parseValue(s, i); err != nil {
		return err
	}
	l.given[i] = s.text[start:s.at]
	return nil
}

// appendGiven appends the fields of the request to out as they were given, each with a comma after it.
func (l *Line) appendGiven(out []byte) []byte {
	for i, value := range l.given {
		if value != nil && !fields[i].answer {
			out = append(appendName(out, i), value...)
			out = append(out, ',')
		}
	}
	return out
}
