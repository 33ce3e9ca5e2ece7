package trace

import "unicode/utf8"

// parseLog reads a line of a log by its layout. It keeps the number of the line.
func (t *Reader) parseLog(text []byte) error {
	l := &t.line
	*l = Line{Number: l.Number, Key: l.Key[:0], KeyTypes: l.KeyTypes[:0], Count: 1}
	clear(t.values)
	if err := t.Layout.read(text, t.values); err != nil {
		return err
	}
	for i, v := range t.values {
		entry := t.mapping.entries[i]
		if v.text == nil {
			if entry.field == fieldAt || entry.field == fieldKey {
				return Faultf("the line has no value for %s, which is its field %s", fields[entry.field].name, Clip(entry.name, 40))
			}
			continue
		}
		if reason := t.setField(entry.field, v.text); reason != "" {
			reason += ", in its field " + Clip(entry.name, 40)
			if v.at < 0 {
				return Faultf("%s", reason)
			}
			return columnFault(text, v.at, "%s", reason)
		}
	}
	return nil
}

// setField sets a field of the line to a value of a log. It returns the fault, without the value: it may be a key.
func (t *Reader) setField(field int, text []byte) (reason string) {
	l := &t.line
	if field != fieldAt && !utf8.Valid(text) {
		return fields[field].name + " is not valid UTF-8"
	}
	switch field {
	case fieldAt:
		l.At, reason = t.times.Instant(text)
	case fieldKey:
		l.Key, l.KeyTypes = append(l.Key, string(text)), append(l.KeyTypes, jsonString)
	default:
		reason = l.set(field, string(text))
	}
	return reason
}
