package fields

import (
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var durabilityField = wordOf(ids.BadDurability, runtime.Durabilities(), durabilitySynonyms, func(p *runtime.Policy) *runtime.Durability { return &p.Durability }, limitField{
	name: "durability", synonyms: []string{"sync", "fsync", "synchronous", "synchronouscommit"},
	about:     "Whether a decision waits for the disk. `full` waits. `relaxed` does not: a crash of the database's machine may lose the most recent counts.",
	more:      "The field has no effect on MySQL and MariaDB, which set durability for the whole server, nor in the caller's transaction.",
	accepts:   "`relaxed` or `full`",
	absent:    "the setting of the database (`sqlite.Open`: `relaxed`)",
	example:   "relaxed",
	change:    ids.DurabilityChanged,
	effective: effectiveDurability,
	sentences: durabilitySentences,
})

// durabilitySynonyms are the words for a durability in databases.
var durabilitySynonyms = map[string]runtime.Durability{
	"off": runtime.DurabilityRelaxed, "normal": runtime.DurabilityRelaxed, "async": runtime.DurabilityRelaxed,
	"relax": runtime.DurabilityRelaxed, "false": runtime.DurabilityRelaxed,
	"on": runtime.DurabilityFull, "extra": runtime.DurabilityFull, "sync": runtime.DurabilityFull,
	"strict": runtime.DurabilityFull, "true": runtime.DurabilityFull,
}

// effectiveDurability is empty for the setting of the database.
func effectiveDurability(l *spec.Limit) string {
	if l.Policy.Durability == runtime.DurabilityDefault {
		return ""
	}
	return l.Policy.Durability.String()
}

// durabilitySentences is empty for the setting of the database.
func durabilitySentences(l *spec.Limit) []string {
	switch l.Policy.Durability {
	case runtime.DurabilityRelaxed:
		return []string{"A crash of the database's machine may lose the most recent counts."}
	case runtime.DurabilityFull:
		return []string{"A decision waits until the database has written the counts to disk."}
	}
	return nil
}
