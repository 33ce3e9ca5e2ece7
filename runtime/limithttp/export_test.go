package limithttp

import "time"

// SetClock replaces the clock of legacy fields.
func (b *Binder) SetClock(now func() time.Time) { b.now = now }
