package main

import (
	"context"
	"slices"
	"time"
)

// field is the contenders that are open, by name.
type field map[string]*opened

// enter opens those contenders of names that can be opened, and notes why the others cannot.
func (r *report) enter(ctx context.Context, s *site, l limit, names []string) field {
	open := field{}
	for _, c := range contenders {
		if !slices.Contains(names, c.name) || r.NotRun[c.name] != "" {
			continue
		}
		o, err := c.open(ctx, s, l)
		if err != nil {
			r.skip(c.name, err)
			continue
		}
		open[c.name] = o
	}
	return open
}

// warmUp is how long a contender may take to be asked for every key of a heat.
const warmUp = 2 * time.Second

// warm asks contenders once for every key, if they are quick enough: what comes first is not measured.
func (f field) warm(ctx context.Context, names, keys []string) {
	for _, name := range names {
		if o := f[name]; o != nil {
			ctx, cancel := context.WithTimeout(ctx, warmUp)
			if err := askEach(ctx, o.ask, len(keys), func(i int) string { return keys[i] }); err != nil {
				say("%s: %v", name, err)
			}
			cancel()
		}
	}
}

// close closes all of them.
func (f field) close() {
	for _, o := range f {
		o.close()
	}
}

// namesOf returns the contenders for which a condition holds, in their order.
func namesOf(is func(contender) bool) (names []string) {
	for _, c := range contenders {
		if is(c) {
			names = append(names, c.name)
		}
	}
	return names
}

// find returns the contender with a name, false if there is none.
func find(name string) (contender, bool) {
	i := slices.IndexFunc(contenders, func(c contender) bool { return c.name == name })
	if i < 0 {
		return contender{}, false
	}
	return contenders[i], true
}

// anyone is true of every contender.
func anyone(contender) bool { return true }
