package spec

// renames guesses which limits were renamed, and returns the old names by the new ones. A limit of the new
// file is taken for one that is gone if both have the same key, and
//
//   - the same kind and doc, or
//   - the same rule, and the name of the method or nothing else like them on either side.
//
// Where several are alike, nothing is guessed.
func renames(old, new *File) map[string]string {
	gone, added := without(old, new), without(new, old)
	names := map[string]string{}
	for _, alike := range []func(*Limit) any{likeness, methodLikeness, ruleLikeness} {
		before, after := only(gone, alike), only(added, alike)
		for what, limit := range after {
			if was := before[what]; was != nil && limit != nil {
				names[limit.Policy.Name] = was.Policy.Name
			}
		}
		gone, added = unpaired(gone, names, false), unpaired(added, names, true)
	}
	return names
}

// without returns the limits of a file whose names another file does not have.
func without(file, other *File) (limits []*Limit) {
	names := limitsByName(other)
	for _, limit := range file.Limits {
		if names[limit.Policy.Name] == nil {
			limits = append(limits, limit)
		}
	}
	return limits
}

// only returns the limits by what they are like; nil for what several are like.
func only(limits []*Limit, like func(*Limit) any) map[any]*Limit {
	found := map[any]*Limit{}
	for _, limit := range limits {
		what := like(limit)
		if what == nil {
			continue
		}
		if _, twice := found[what]; twice {
			limit = nil
		}
		found[what] = limit
	}
	return found
}

// unpaired returns the limits that are on no side of names: not on the new one, or not on the old one.
func unpaired(limits []*Limit, names map[string]string, new bool) (rest []*Limit) {
	paired := map[string]bool{}
	for is, was := range names {
		paired[is], paired[was] = paired[is] || new, paired[was] || !new
	}
	for _, limit := range limits {
		if !paired[limit.Policy.Name] {
			rest = append(rest, limit)
		}
	}
	return rest
}

// likeness is what a limit with a doc keeps when it is renamed, even if its numbers are changed.
func likeness(l *Limit) any {
	if l.Doc == "" {
		return nil
	}
	return [3]string{l.Doc, effectiveKey(l), effectiveKind(l)}
}

func ruleLikeness(l *Limit) any {
	policy := l.Policy
	policy.Name = ""
	return [2]any{policy, effectiveKey(l)}
}

func methodLikeness(l *Limit) any { return [2]any{ruleLikeness(l), l.GoName} }
