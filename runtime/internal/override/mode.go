package override

import (
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/ability"
)

// Relax keeps the mode of limiter.Mode of a limiter on the store, for what shows operators the policies in force.
func (v *View) Relax(m runtime.Mode) {
	v.mu.Lock()
	v.relaxed = m
	report := v.onRelaxed
	v.mu.Unlock()
	if report != nil {
		report(m)
	}
}

// OnRelaxed calls report with the mode that a limiter on the store has, or will have.
func (v *View) OnRelaxed(report func(runtime.Mode)) {
	v.mu.Lock()
	v.onRelaxed = report
	m := v.relaxed
	v.mu.Unlock()
	if m != runtime.ModeEnforce {
		report(m)
	}
}

// Relaxed returns the catalog by which the limiters on a store decide: c itself, unless one of them has limiter.Mode.
func Relaxed(store runtime.Store, c *runtime.Catalog) *runtime.Catalog {
	log, ok := ability.Of[Reader](store)
	if !ok || c == nil {
		return c
	}
	v := log.OverrideView()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.relaxed == runtime.ModeEnforce {
		return c
	}
	return c.Mode(v.relaxed)
}
