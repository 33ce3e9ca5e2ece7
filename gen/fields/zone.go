package fields

import (
	_ "embed"
	"maps"
	"slices"
	"strings"
	"sync"
	_ "time/tzdata"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

var zoneField = limitField{
	name: "zone", synonyms: []string{"timezone", "tz", "location"},
	about:     "The time zone of a `period` in calendar units. `per key` gives every key its own, by a parameter after the parts of the key: a `*time.Location` that must not be nil.",
	more:      "Names are those of the IANA time zone database. The zone data is Go's, and generated code embeds it unless all zones are `UTC`.",
	accepts:   "a name such as `UTC` or `Europe/Berlin`, or `per key`",
	absent:    "that of `defaults`; required for a `period` in calendar units",
	example:   "Europe/Berlin",
	schema:    zoneSchema(),
	read:      (*parser).readZone,
	suits:     func(l *draft) bool { _, ok := l.calendar(); return ok },
	change:    ids.ZoneChanged,
	effective: effectiveZone,
}

// perKey is the zone of windows whose keys have their own.
const perKey = "per key"

//go:embed zones.txt
var zoneList string

// zoneNames returns the names of the IANA time zone database, with the name that each is a link to, or "". They are not
// read from the machine, so that a file is valid on all machines or on none.
var zoneNames = sync.OnceValue(func() map[string]string {
	names := map[string]string{}
	for line := range strings.Lines(zoneList) {
		name, target, _ := strings.Cut(strings.TrimSpace(line), " ")
		names[name] = target
	}
	return names
})

// CanonicalZone returns the name that the name of a time zone is a link to in the IANA database: "Europe/Kyiv" for
// "Europe/Kiev". It returns "" for a name that is not a link.
func CanonicalZone(zone string) string { return zoneNames()[zone] }

// readZone reads the name of a time zone.
func (p *parser) readZone(l *draft, e document.Entry) bool {
	name, ok := p.doc.Text(e, "the name of a time zone, or per key")
	if !ok {
		return false
	}
	if name == perKey {
		l.policy.Calendar.ZonePerKey = true
		return true
	}
	if _, ok := zoneNames()[name]; !ok {
		p.doc.Report(e.At, ids.BadZone, "write a name of the IANA database such as UTC or Europe/Berlin, or per key",
			"unknown time zone %s", diag.Quote(name))
		p.doc.Offer(p.meantZone(name))
		return false
	}
	l.policy.Calendar.Zone = name
	return true
}

// meantZone returns the zone that a name probably means: a similar one, or the only one of that city.
func (p *parser) meantZone(text string) string {
	if !p.doc.Described() {
		return ""
	}
	// A map has no order, and two names may be equally near.
	all := slices.Sorted(maps.Keys(zoneNames()))
	var sameCity []string
	for _, name := range all {
		if i := strings.LastIndex(name, "/"); i >= 0 && string(diag.Fold(name[i+1:])) == string(diag.Fold(text)) {
			sameCity = append(sameCity, name)
		}
	}
	if len(sameCity) == 1 {
		return sameCity[0]
	}
	return p.doc.Nearest(text, func() []string { return append(all, perKey) })
}

// zoneSchema lists all zones, so that editors complete them.
func zoneSchema() object {
	return object{"enum": append([]string{perKey}, slices.Sorted(maps.Keys(zoneNames()))...)}
}

// effectiveZone is empty without a calendar.
func effectiveZone(l *spec.Limit) string {
	if l.Policy.Calendar.ZonePerKey {
		return perKey
	}
	return l.Policy.Calendar.Zone
}
