package operate

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Part is a part of a key, by the name that it has in limits.yaml.
type Part struct{ Name, Value string }

// DoneIn is what a change of a key in all limits has done in one of them.
type DoneIn struct {
	Limit string
	// Key is the zero Key if the limit has no such key.
	Key  runtime.Key
	Done Done
	// Err is why nothing was changed: the limit has another key, or no overrides, or nothing to end or to erase, or the store
	// has failed. If Done has an entry, that was written before the store has failed.
	Err error
}

// Problem is why nothing was changed, or the error after an entry was written, or "".
func (d DoneIn) Problem() string {
	const nothing = "nothing was changed: "
	switch {
	case d.Err == nil:
		return ""
	case d.Done.Entry.ID != 0:
		return d.Err.Error()
	}
	return nothing + strings.TrimPrefix(d.Err.Error(), nothing)
}

// ApplyAll makes a change, of which it sets the Limit and the Key, in every limit whose key has just these parts, by their
// names: a user with the number 42 is not an organization with that number. An Erase is also of the stored keys that have
// these parts and further ones, unless a key of more than [runtime.MaxKey] bytes was cut off before the end of one of these
// parts.
//
// It returns what it did in each limit of the catalog, so that none is left out silently, and goes on after an error in one
// of them. The error is [ErrUsage] if no limit has such a key.
func (p Program) ApplyAll(ctx context.Context, c Change, parts []Part) (all []DoneIn, err error) {
	found, err := p.keysOf(parts, c.Verb == Erase)
	if err != nil {
		return nil, err
	}
	for _, of := range found {
		keys, err := []runtime.Key{of.key}, of.err
		if err == nil && of.among != nil {
			keys, err = p.keysAmong(ctx, of.limit, of.among)
		}
		if err != nil {
			all = append(all, DoneIn{Limit: of.limit.Name, Err: err})
			continue
		}
		for _, key := range keys {
			c.Limit, c.Key = of.limit.Name, key
			done, err := p.Apply(ctx, c)
			all = append(all, DoneIn{c.Limit, key, done, err})
		}
	}
	return all, nil
}

// keyOf is the key with some parts in a limit, or why it has none.
type keyOf struct {
	limit *runtime.CatalogLimit
	key   runtime.Key
	// among, if it is not nil, is these parts in place of key, because the limit's has further ones, which are "".
	among []string
	err   error
}

// keysOf returns the key with just these parts in each limit, or with further ones if that is asked for.
func (p Program) keysOf(parts []Part, further bool) (all []keyOf, err error) {
	values := map[string]string{}
	for _, part := range parts {
		if _, twice := values[part.Name]; twice || part.Name == "" || part.Value == "" {
			return nil, usagef("give each part of the key once, with its name and a value: userID=42")
		}
		values[part.Name] = part.Value
	}
	found, names := false, []string(nil)
	for i := range p.Catalog.Limits {
		l := &p.Catalog.Limits[i]
		in, texts, among := keyOf{limit: l}, []string(nil), []string(nil)
		for _, k := range l.Key {
			value, ok := values[k.Name]
			for _, of := range k.Alternatives {
				// The key of a user is also that of the limits which have a user or an address.
				if alternative := values[of.Name]; !ok && alternative != "" {
					value, ok = of.Name+":"+alternative, true
				}
				names = append(names, of.Name)
			}
			if ok {
				texts = append(texts, value)
			}
			among, names = append(among, value), append(names, k.Name)
		}
		switch {
		case len(l.Key) == 0:
			in.err = usagef("it has no key")
		case len(texts) < len(parts), len(texts) < len(l.Key) && !further:
			in.err = usagef("it has another key, %s", partsOf(l))
		case len(texts) < len(l.Key):
			found, in.among = true, among
		default:
			found = true
			if in.key, in.err = l.ParseKey(texts); in.err != nil {
				in.err = usageError{in.err}
			}
		}
		all = append(all, in)
	}
	if !found {
		var given []string
		hint := ""
		for _, part := range parts {
			if given = append(given, part.Name); !slices.Contains(names, part.Name) {
				hint += suggestion(part.Name, names)
			}
		}
		return nil, usagef("no limit has a key of just %s%s", strings.Join(given, " and "), hint)
	}
	return all, nil
}

// keysAmong returns the keys of a limit that the store has, and that have some parts.
func (p Program) keysAmong(ctx context.Context, l *runtime.CatalogLimit, among []string) (keys []runtime.Key, err error) {
	want := make([]string, len(among))
	for i, text := range among {
		if text == "" {
			continue
		}
		one := *l
		one.Key = l.Key[i : i+1]
		key, err := one.ParseKey([]string{text})
		if err != nil {
			return nil, usageError{err}
		}
		want[i] = key.String()
	}
	found := map[string]bool{}
	_, err = p.eachKey(ctx, []runtime.CatalogLimit{*l}, 0, func(_, key string) {
		stored := strings.Split(key, "|")
		for i, part := range want {
			if part != "" && (i >= len(stored) || stored[i] != part) {
				return
			}
		}
		found[key] = true
	})
	if err == nil && len(found) == 0 {
		err = usagef("it has no stored key with this part of %s", partsOf(l))
	}
	for _, text := range slices.Sorted(maps.Keys(found)) {
		key, failed := runtime.StoredKey(text)
		keys, err = append(keys, key), cmp.Or(err, failed)
	}
	return keys, err
}

// parts returns the arguments as parts of a key.
func (c *call) parts() (parts []Part, err error) {
	for _, arg := range c.args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, usagef("with -all, give the parts of the key by their names, such as userID=42, and not %q", arg)
		}
		parts = append(parts, Part{name, value})
	}
	return parts, nil
}
