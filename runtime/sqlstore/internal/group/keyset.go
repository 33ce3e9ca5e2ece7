package group

// keySet is a set of keys, by their hashes. It may report keys that are not in it.
type keySet [32]uint64

func (s *keySet) add(hash uint64) { s[hash/64%uint64(len(s))] |= 1 << (hash % 64) }

func (s *keySet) has(hash uint64) bool { return s[hash/64%uint64(len(s))]&(1<<(hash%64)) != 0 }

func (s *keySet) addAll(o *keySet) {
	for i, word := range o {
		s[i] |= word
	}
}

// meets reports whether the sets have a key in common.
func (s *keySet) meets(o *keySet) bool {
	for i, word := range o {
		if s[i]&word != 0 {
			return true
		}
	}
	return false
}
