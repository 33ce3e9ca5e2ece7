package operate

import (
	"context"
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
	// Err is why nothing was changed: the limit has another key, or no overrides, or nothing to end, or the store has failed.
	Err error
}

// ApplyAll makes a change, of which it sets the Limit and the Key, in every limit whose key has just these parts, by their names:
// a user with the number 42 is not an organization with that number. It returns what it did in each limit of the catalog, so that
// none is left out silently, and goes on after an error in one of them. The error is [ErrUsage] if no limit has such a key.
func ApplyAll(ctx context.Context, catalog *runtime.Catalog, store runtime.Store, c Change, parts []Part) ([]DoneIn, error) {
	all, err := keysOf(catalog, parts)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if of := &all[i]; of.Err == nil {
			c.Limit, c.Key = of.Limit, of.Key
			of.Done, of.Err = Apply(ctx, catalog, store, c)
		}
	}
	return all, nil
}

// keysOf returns the key with these parts in each limit, or why it has none.
func keysOf(catalog *runtime.Catalog, parts []Part) (all []DoneIn, err error) {
	values := map[string]string{}
	for _, p := range parts {
		if _, twice := values[p.Name]; twice || p.Name == "" || p.Value == "" {
			return nil, usagef("give each part of the key once, with its name and a value: userID=42")
		}
		values[p.Name] = p.Value
	}
	found, names := false, []string(nil)
	for _, l := range catalog.Limits {
		in, texts := DoneIn{Limit: l.Name}, []string(nil)
		for _, k := range l.Key {
			if value, ok := values[k.Name]; ok {
				texts = append(texts, value)
			}
			names = append(names, k.Name)
		}
		switch {
		case len(l.Key) == 0:
			in.Err = usagef("it has no key")
		case len(texts) < len(l.Key) || len(texts) < len(parts):
			in.Err = usagef("it has another key, %s", partsOf(&l))
		default:
			if in.Key, in.Err = l.ParseKey(texts); in.Err != nil {
				in.Err = usageError{in.Err}
			}
			found = true
		}
		all = append(all, in)
	}
	if !found {
		var given []string
		hint := ""
		for _, p := range parts {
			if given = append(given, p.Name); !slices.Contains(names, p.Name) {
				hint += suggestion(p.Name, names)
			}
		}
		return nil, usagef("no limit has a key of just %s%s", strings.Join(given, " and "), hint)
	}
	return all, nil
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
