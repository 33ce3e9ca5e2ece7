package review

import (
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

func judgeDenyCache(j *judgement, p pair, _ []spec.Change) {
	was, is := p.old.Policy.DenyCache, p.new.Policy.DenyCache
	if is < was {
		j.class(Loosened)
	} else {
		j.class(Tightened)
	}
	if is == 0 {
		j.note(Rule, "Every denial is the store's: what is given back is there at once.")
		return
	}
	j.note(Rule, "No number changes. What another process gives back or resets may be denied for up to %s.", spec.Duration(is))
}

// strictness orders durabilities by how much a crash may lose. What the database is set up for is between them.
var strictness = map[runtime.Durability]int{
	runtime.DurabilityRelaxed: 0,
	runtime.DurabilityDefault: 1,
	runtime.DurabilityFull:    2,
}

// mostLost is how long Postgres, as it is set up, may keep what it was told to commit without waiting: three
// times wal_writer_delay.
const mostLost = 600 * time.Millisecond

func judgeDurability(j *judgement, p pair, _ []spec.Change) {
	was, is := p.old.Policy.Durability, p.new.Policy.Durability
	if strictness[is] < strictness[was] {
		j.class(Loosened)
	} else {
		j.class(Tightened)
	}
	switch is {
	case runtime.DurabilityRelaxed:
		j.note(Rule, "A crash of the database's machine may forget the last moments, so that what was taken in them can be taken again. On Postgres, these are %s: up to %s of a key%s.",
			spec.Duration(mostLost), tokensInWords(Within(spec.Unreserved(&p.new.Policy), mostLost)), orReserved(p.new))
	case runtime.DurabilityFull:
		j.note(Rule, "Each decision waits for the database's disk, so that no crash forgets what was taken.")
	default:
		j.note(Rule, "What a crash may forget is as the database is set up.")
	}
	j.note(Rule, "MySQL and MariaDB decide this for the whole server, whatever a limit says.")
}

func orReserved(l *spec.Limit) string {
	if l.Policy.Reserves() {
		return ", and what was reserved"
	}
	return ""
}

func tokensInWords(n int64) string {
	if n == 1 {
		return "1 token"
	}
	return spec.Grouped(n) + " tokens"
}
