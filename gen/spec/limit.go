package spec

import (
	"regexp"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

const limitNamePattern = `^[a-z][a-zA-Z0-9]*$`

var limitNameForm = regexp.MustCompile(limitNamePattern)

// limits reads the map of limits.
func (p *parser) limits(file *File, e entry) bool {
	if e.value.Tag == "!!null" {
		p.report(e.at, noLimits, limitHelp, "limits is empty")
		return false
	}
	entries, ok := p.entries(e.value, e.at, "limits", limitHelp)
	if !ok {
		return false
	}
	if len(e.value.Content) == 0 {
		p.report(e.at, noLimits, limitHelp, "limits is empty")
	}
	entries = p.withoutFields(entries)
	for _, e := range entries {
		file.Limits = append(file.Limits, p.oneLimit(e))
	}
	p.sameGoNames(entries, file.Limits)
	return true
}

const limitHelp = "a limit is written sendMessage: {kind: token bucket, rate: 10, period: 1m}"

// withoutFields returns the entries of limits without those that are the fields of a limit before them, which
// it reports once: they should have been indented.
func (p *parser) withoutFields(entries []entry) []entry {
	var limits []entry
	said := false
	for i, e := range entries {
		isField := e.value.Kind == yaml.ScalarNode && slices.Contains(names(limitFields), e.name)
		empty := i > 0 && entries[i-1].value.Tag == "!!null"
		switch {
		case isField && said:
		case isField && empty:
			p.report(e.named, notIndented, "indent it below "+label(entries[i-1].name), "%s is a field of a limit and not a limit", e.name)
			limits, said = limits[:len(limits)-1], true
		default:
			limits, said = append(limits, e), false
		}
	}
	return limits
}

// oneLimit reads one limit. What it returns is of use only if nothing was reported.
func (p *parser) oneLimit(e entry) *Limit {
	limit := &Limit{
		Policy: runtime.Policy{Name: e.name},
		GoName: goName(e.name),
		Pos:    e.named.pos,
		Given:  map[string]Pos{},
	}
	if !e.again {
		p.limitName(e)
	}
	p.limit, p.impliesPeriod = label(e.name), false
	defer func() { p.limit = "" }()
	entries, ok := p.entries(e.value, e.at, "a limit", limitHelp)
	if !ok {
		return limit
	}
	given := readFields(p, limitFields, limit, entries, e.named, p.complete(e.value))
	for name, e := range given {
		limit.Given[name] = e.at.pos
	}
	if _, renamed := given["goName"]; !renamed && !e.again {
		p.reservedGoName(e.named, limit.GoName)
	}
	p.settleLimit(limit, given)
	return limit
}

func (p *parser) limitName(e entry) {
	if limitNameForm.MatchString(e.name) {
		if len(e.name) > runtime.MaxKey {
			p.report(e.named, nameTooLong, "choose a shorter name: goName would shorten that of the method only",
				"the name of a limit has at most %d bytes, and %s has %s", runtime.MaxKey, quote(e.name), words.Number(int64(len(e.name))))
		}
		return
	}
	p.report(e.named, badName, "begin with a small letter and use letters and digits only",
		"the name of a limit must be camelCase, not %s", quote(e.name))
	if better := camelCase(e.name); !slices.Contains(reservedGoNames, goName(better)) {
		p.meant(better)
	}
}
