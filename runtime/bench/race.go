package main

import "context"

// race runs the heats of the plan, in which every call is allowed.
func (r *report) race(ctx context.Context, s *site, p plan) error {
	open := r.enter(ctx, s, plenty, namesOf(anyone))
	defer open.close()
	for _, h := range p.heats {
		say("%s", under(h.callers, h.keys))
		r.heat(ctx, h, open, load{h.callers, keysOf(h.keys, h.keys), true}, p)
	}
	return ctx.Err()
}

// deny runs a heat in which every call is denied: what it costs when somebody goes on asking.
func (r *report) deny(ctx context.Context, s *site, p plan) error {
	// A floor denies nothing, and a limit of one token has no blocks to lease.
	h := heat{64, 1, namesOf(func(c contender) bool { return c.kind != floor && c.kind != mostlyMemory })}
	say("%s, all denied", under(h.callers, h.keys))
	open := r.enter(ctx, s, exhausted, h.names)
	defer open.close()
	for name, o := range open {
		if _, err := o.ask(ctx, keyOf(0)); err != nil {
			r.skip(name, err)
		}
	}
	r.heat(ctx, h, open, load{h.callers, keysOf(1, 1), false}, p)
	return ctx.Err()
}

// heat runs a heat and keeps what it shows.
func (r *report) heat(ctx context.Context, h heat, open field, l load, p plan) {
	open.warm(ctx, h.names, l.keys)
	cells, out := h.run(ctx, open, l, p)
	r.Cells = append(r.Cells, cells...)
	for name, err := range out {
		if err != nil {
			say("%s: %v", name, err)
		}
	}
}
