package spec

import (
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// limits reads the map of limits.
func (p *parser) limits(file *File, e entry) bool {
	if e.value.Tag == "!!null" {
		p.report(e.at, noLimits, limitHelp, "the file has no limits")
		return false
	}
	entries, ok := p.entries(e.value, e.at, "limits", limitHelp)
	if !ok {
		return false
	}
	if len(e.value.Content) == 0 {
		p.report(e.at, noLimits, limitHelp, "the file has no limits")
	}
	entries = p.withoutFields(entries)
	drafts := make([]*draft, len(entries))
	for i, e := range entries {
		drafts[i] = p.oneLimit(e)
		if drafts[i].limit != nil {
			file.Limits = append(file.Limits, drafts[i].limit)
		}
		if !e.again {
			p.drafts[e.name] = drafts[i]
		}
	}
	// Last, because every limit has its goName only after it was parsed.
	p.sameGoNames(entries, drafts)
	p.sameOverrideMethods(entries, drafts)
	return true
}

const limitHelp = "write a limit as sendMessage: {kind: token bucket, rate: 10, period: 1m}"

// withoutFields returns the limits without entries that are fields of the limit above, which should be indented. It
// reports them once for each limit.
func (p *checker) withoutFields(entries []entry) []entry {
	var limits []entry
	reported := false
	for i, e := range entries {
		isField := e.value.Kind == yaml.ScalarNode && slices.Contains(names(limitFields), e.name)
		empty := i > 0 && entries[i-1].value.Tag == "!!null"
		switch {
		case isField && reported:
		case isField && empty:
			p.report(e.named, notIndented, "indent it below "+label(entries[i-1].name), "%s is a field of a limit, not a limit", e.name)
			// Without its fields the limit above is empty, which would be reported again.
			limits, reported = limits[:len(limits)-1], true
		default:
			limits, reported = append(limits, e), false
		}
	}
	return limits
}

// oneLimit reads one limit.
func (p *parser) oneLimit(e entry) *draft {
	limit := &draft{policy: unchecked{Name: e.name}, goName: goName(e.name), pos: e.named.pos, given: map[string]Pos{}}
	atFirst := len(p.found)
	// The first entry of that name has been checked.
	if !e.again {
		p.limitName(e, "limit")
	}
	p.limit = label(e.name)
	defer func() { p.limit = "" }()
	entries, ok := p.entries(e.value, e.at, "a limit", limitHelp)
	if !ok {
		return limit
	}
	before := len(p.found)
	limit.writtenPeriod = periodText(entries)
	limit.gaveZone = slices.ContainsFunc(entries, func(e entry) bool { return e.name == "zone" })
	given := readFields(p, limitFields, limit, entries, e.named, p.complete(e.value))
	for name, e := range given {
		limit.given[name] = e.at.pos
	}
	// A goName has been checked by its reader, and replaces the name derived from the limit's.
	if _, renamed := given["goName"]; !renamed && !e.again {
		p.reservedGoName(e.named, limit.goName)
	}
	p.settlePlans(limit, given, entries, len(p.found) == before)
	if len(p.found) == before {
		p.settleOverrides(limit, given)
	}
	if len(p.found) == atFirst {
		p.check(limit, e, given)
	}
	return limit
}

// limitName reports the name of a limit or group that is not camelCase or too long.
func (p *checker) limitName(e entry, what string) {
	if limitNameForm.MatchString(e.name) {
		if len(e.name) > runtime.MaxKey {
			p.report(e.named, nameTooLong, "choose a shorter name: goName would shorten the method's name only",
				"the name of a %s has at most %d bytes, and %s has %s", what, runtime.MaxKey, quote(e.name), words.Number(int64(len(e.name))))
		}
		return
	}
	p.report(e.named, badName, "begin with a lowercase letter and use letters and digits only",
		"the name of a %s must be camelCase, not %s", what, quote(e.name))
	if better := camelCase(e.name); !slices.Contains(reservedGoNames, goName(better)) {
		p.meant(better)
	}
}

func limitSchema() object {
	schema := mapSchema(limitFields)
	var conditions []any
	for _, kind := range runtime.Kinds() {
		for _, r := range algorithmOf(kind).refusals {
			conditions = append(conditions, ifKind(kind, r.hint, object{r.field: r.schema}))
		}
	}
	schema["allOf"] = slices.Concat(conditions, ifCalendar(), preciseConditions())
	return schema
}

// ifKind is a schema for the limits of one kind. Editors show the hint for a property that is false.
func ifKind(kind runtime.Kind, hint string, properties object) object {
	then := object{"type": "object", "properties": properties}
	if hint != "" {
		then["errorMessage"] = hint
	}
	return object{
		"if": object{
			"type": "object", "properties": object{"kind": object{"const": kind.String()}}, "required": []string{"kind"},
		},
		"then": then,
	}
}

var limitsSchema = object{
	"type":                 "object",
	"minProperties":        1,
	"propertyNames":        object{"pattern": limitNamePattern, "maxLength": runtime.MaxKey},
	"additionalProperties": object{"$ref": "#/definitions/limit"},
	"defaultSnippets": []any{object{
		"label": "limit",
		"body":  object{"${1:name}": object{"kind": "${2:token bucket}", "rate": "^${3:10}", "period": "${4:1m}"}},
	}},
}
