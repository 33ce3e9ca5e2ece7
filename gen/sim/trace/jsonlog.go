package trace

import (
	"bytes"
	"encoding/json"
	"strings"
)

// jsonLayout reads logs with a JSON object per line.
type jsonLayout struct {
	names []string
	// shown are the names as faults have them.
	shown []string
	// inner has, for each depth of nested objects, the rests of the names below it; "" for a name of another object.
	inner [][]string
}

func newJSONLayout(m Mapping) *jsonLayout {
	l := &jsonLayout{}
	depth := 0
	for _, e := range m.entries {
		l.names, l.shown = append(l.names, e.name), append(l.shown, Clip(e.name, 40))
		depth = max(depth, strings.Count(e.name, "."))
	}
	for range depth {
		l.inner = append(l.inner, make([]string, len(l.names)))
	}
	return l
}

func (l *jsonLayout) read(text []byte, values []value) error {
	object, err := objectOf(text)
	if err != nil {
		return err
	}
	return l.object(object, l.names, 0, values)
}

// object reads an object, in which names has the names or rests of names of the values.
func (l *jsonLayout) object(object jsonValue, names []string, depth int, values []value) error {
	return object.each(func(name string, at int, member jsonValue) error {
		found, nested := -1, false
		for i, wanted := range names {
			rest, ok := strings.CutPrefix(wanted, name)
			switch {
			case wanted == "" || !ok:
			case rest == "":
				found = i
			case rest[0] == '.':
				nested = true
			}
		}
		switch {
		case nested && member.text[0] == '{':
			inner := l.inner[depth]
			for i, wanted := range names {
				inner[i] = ""
				if rest, ok := strings.CutPrefix(wanted, name+"."); ok {
					inner[i] = rest
				}
			}
			return l.object(member, inner, depth+1, values)
		case found < 0:
			return nil
		}
		v, err := plainValue(member, l.shown[found])
		if err != nil {
			return err
		}
		for i, wanted := range names { // several fields of a request may have one name
			if wanted != name || wanted == "" {
				continue
			}
			if values[i].text != nil {
				return columnFault(object.line, at, "%s is given twice", l.shown[i])
			}
			values[i] = v
		}
		return nil
	})
}

// plainValue returns the text of a string, number or boolean; null is an absent value.
func plainValue(v jsonValue, name string) (value, error) {
	switch {
	case v.text[0] == '"':
		text, err := v.str(name)
		return value{[]byte(text), v.at}, err
	case v.isNumber(), v.isBoolean():
		return value{v.text, v.at}, nil
	case v.text[0] == 'n':
		return value{at: v.at}, nil
	}
	return value{}, v.faultf("%s must be a string, a number, true or false, not %s", name, v.found())
}

// memberNames returns the names of the fields of a JSON object, and of the objects in it with dots; those before the
// fault if it is not valid.
func memberNames(text []byte) (names []string) {
	d := json.NewDecoder(bytes.NewReader(text))
	if open, _ := d.Token(); open != json.Delim('{') {
		return nil
	}
	for d.More() {
		token, err := d.Token()
		name, ok := token.(string)
		var raw json.RawMessage
		if err != nil || !ok || d.Decode(&raw) != nil {
			break
		}
		if raw[0] != '{' {
			names = append(names, name)
			continue
		}
		for _, inner := range memberNames(raw) {
			names = append(names, name+"."+inner)
		}
	}
	return names
}
