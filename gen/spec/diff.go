package spec

// Diff returns what has changed from one file to another: first of the file, then of each limit in the
// order of the new file, then the limits that are gone. It compares the values that hold, whether they are
// given or not: period: 60s is period: 1m, and a capacity that is left out follows the rate. The order of
// limits, comments and the way in which a value is written are no changes.
//
// A limit that is gone and one that is new are taken for one that was renamed if they look like it. That is
// a guess; see [Change].
func Diff(old, new *File) []Change {
	changes := diffFields(fileFields, "", old, new, Side{Pos: Pos{1, 1}}, Side{Pos: Pos{1, 1}}, fileGives)
	before := limitsByName(old)
	names := renames(old, new)
	for _, limit := range new.Limits {
		name := limit.Policy.Name
		if guess, ok := names[name]; ok {
			name = guess
		}
		was := before[name]
		delete(before, name)
		changes = append(changes, diffLimit(was, limit)...)
	}
	for _, limit := range old.Limits {
		if name := limit.Policy.Name; before[name] != nil {
			changes = append(changes, Change{ID: limitRemoved, Limit: name, Old: named(limit)})
		}
	}
	return changes
}

func limitsByName(file *File) map[string]*Limit {
	limits := make(map[string]*Limit, len(file.Limits))
	for _, limit := range file.Limits {
		limits[limit.Policy.Name] = limit
	}
	return limits
}

// named is the side of a whole limit.
func named(limit *Limit) Side {
	return Side{Limit: limit, Value: limit.Policy.Name, Given: true, Pos: limit.Pos}
}

// diffLimit returns what has changed of a limit; old is nil for one that was added.
func diffLimit(old, new *Limit) (changes []Change) {
	name := new.Policy.Name
	if old == nil {
		return []Change{{ID: limitAdded, Limit: name, New: named(new)}}
	}
	if old.Policy.Name != name {
		changes = append(changes, Change{ID: limitRenamed, Limit: name, Old: named(old), New: named(new)})
	}
	return append(changes, diffFields(limitFields, name, old, new, named(old), named(new), limitGives)...)
}

// diffFields compares the fields of a table. The sides are those of what has the fields.
func diffFields[T any](fields []field[T], limit string, old, new *T, was, is Side, gives func(*T, string) (Pos, bool)) (changes []Change) {
	for _, f := range fields {
		if f.effective == nil {
			continue
		}
		was.Value, is.Value = f.effective(old), f.effective(new)
		if was.Value != is.Value {
			changes = append(changes, Change{f.change, limit, f.name, was.of(gives(old, f.name)), is.of(gives(new, f.name))})
		}
	}
	return changes
}

// of returns the side of a field, which stands at a place if it is given.
func (s Side) of(at Pos, given bool) Side {
	if s.Given = given; given {
		s.Pos = at
	}
	return s
}

func limitGives(limit *Limit, field string) (Pos, bool) {
	at, given := limit.Given[field]
	return at, given
}

// fileGives says whether a field of the file is given. Its place is not kept.
func fileGives(file *File, _ string) (Pos, bool) { return Pos{1, 1}, file.Package != "" }
