package fields

import (
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var modeField = falseToo(wordOf(ids.BadMode, runtime.Modes(), modeSynonyms, func(p *runtime.Policy) *runtime.Mode { return &p.Mode }, limitField{
	name: "mode", synonyms: []string{"enforcement", "action", "dryrun", "enabled", "shadow", "shadowmode"},
	about:     "What the limit does with its decisions: `shadow` counts, but lets every request pass, and reports those that `enforce` would deny in `Decision.Shadowed`; `off` lets every request pass, uncounted; `block` denies every request.",
	more:      "A request that `enforce` would deny takes nothing. In a call over several limits, a limit in `shadow` never stands in the way, nor does it if the store fails. A request denied by `block` has the `RetryAfter` `runtime.Never`, and `Wait` fails at once.",
	accepts:   "`enforce`, `shadow`, `off` or `block`",
	absent:    "`enforce`",
	example:   "shadow",
	change:    ids.ModeChanged,
	sentences: ModeWords,
}))

// modeSynonyms are the words for a mode in other limiters.
var modeSynonyms = map[string]runtime.Mode{
	"on": runtime.ModeEnforce, "enforced": runtime.ModeEnforce, "enabled": runtime.ModeEnforce, "true": runtime.ModeEnforce, "live": runtime.ModeEnforce,
	"dryrun": runtime.ModeShadow, "dry_run": runtime.ModeShadow, "dry-run": runtime.ModeShadow, "dry run": runtime.ModeShadow,
	"log": runtime.ModeShadow, "log_only": runtime.ModeShadow, "monitor": runtime.ModeShadow, "report": runtime.ModeShadow,
	"disabled": runtime.ModeOff, "false": runtime.ModeOff, "no": runtime.ModeOff, "none": runtime.ModeOff, "allow": runtime.ModeOff, "unlimited": runtime.ModeOff,
	"deny": runtime.ModeBlock, "blocked": runtime.ModeBlock, "reject": runtime.ModeBlock,
}

// ModeWords describes the mode of the limit. It is empty for the default.
func ModeWords(l *spec.Limit) []string {
	switch l.Policy.Mode {
	case runtime.ModeShadow:
		return []string{"Shadow mode: requests that would be denied or delayed pass at once, and Decision.Shadowed reports them."}
	case runtime.ModeOff:
		return []string{"Switched off: every request passes, and none is counted."}
	case runtime.ModeBlock:
		return []string{"Blocked: every request is denied."}
	}
	return nil
}
