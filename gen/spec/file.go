package spec

import (
	"go/token"
	"regexp"
	"slices"
	"strconv"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// File is the content of a valid limits.yaml.
type File struct {
	// Name is the name passed to [Parse], for messages.
	Name string
	// Package is the name of the Go package to generate; "" if the file does not give one.
	Package string
	// Plans are in the order of the file; it is empty for a file without plans.
	Plans []Plan
	// Limits are in the order of the file.
	Limits []*Limit
	// Groups are in the order of the file.
	Groups []*Group
}

// Limit is one rule of the file, with every default filled in. Its Policy is valid: only [NewLimit] sets it, and a file
// with a policy that is not valid has diagnostics and no limits.
type Limit struct {
	checked
	// Plans has the limit as it is for each plan, in the order of [File.Plans]: with a Policy and the places of Given of
	// its own. It is empty for a limit that is the same for all plans.
	Plans []*Limit
	// Plan is the name of the plan, for an element of Plans.
	Plan string
	// UnlimitedRate is set for a plan with the rate unlimited. The Policy is unlimited then, unless the mode is block.
	UnlimitedRate bool
	// Overrides has what the file gives as the most that overrides can give, 0 for numbers that it does not give; nil for a
	// limit without overrides. The effective numbers are in Policy.
	Overrides *runtime.OverrideBounds
	// GoName is the name of the generated method: "SendMessage" for sendMessage.
	GoName string
	// Doc is the author's text, without trailing white space; it may have several lines.
	Doc string
	// Key holds the parts of the key in their order; it is empty for one shared counter.
	Key []KeyPart
	// Pos is the place of the limit's name.
	Pos Pos
	// Given has the places of the given values, by the name of the field: "rate".
	Given map[string]Pos
}

// checked is a type of its own so that other packages can read Limit.Policy and cannot write a Limit with one.
type checked struct {
	// Policy has the effective values: Capacity is Rate if the file does not give it, and so on. If they depend on the
	// plan, it is the policy of the first plan that is limited.
	Policy runtime.Policy
}

// NewLimit returns a limit with a policy and nothing else, or the error of [runtime.Policy.Validate].
func NewLimit(policy runtime.Policy) (*Limit, error) {
	if err := policy.Validate(); err != nil {
		return nil, err
	}
	return &Limit{checked: checked{policy}}, nil
}

// draft is a limit while it is read: values may be missing, or contradict each other. [parser.check] makes the Limit.
type draft struct {
	policy unchecked
	plans  []*draft
	// limit is the result; nil until the draft is checked, and if it has a diagnostic.
	limit *Limit

	// These are as in Limit.
	plan          string
	unlimitedRate bool
	overrides     *runtime.OverrideBounds
	goName, doc   string
	key           []KeyPart
	pos           Pos
	given         map[string]Pos
}

// unchecked is a policy whose numbers may be missing. It lacks the methods of [runtime.Policy], such as Rule, which are
// for valid policies only.
type unchecked runtime.Policy

// unlimited is [Limit.Unlimited].
func (d *draft) unlimited() bool { return d.policy.Mode == runtime.ModeUnlimited }

// each is [Limit.Each].
func (d *draft) each() []*draft {
	if len(d.plans) == 0 {
		return []*draft{d}
	}
	return d.plans
}

// check makes the limit of a draft without diagnostics, and checks what must hold between its plans.
func (p *parser) check(d *draft, e entry, given map[string]entry) {
	limit := p.limitOf(d, e)
	for _, of := range d.plans {
		plan := p.limitOf(of, e)
		if limit == nil || plan == nil {
			return
		}
		limit.Plans = append(limit.Plans, plan)
	}
	if limit == nil || !p.sameMethods(limit, given) || !p.carryAlike(limit, given) {
		return
	}
	d.limit = limit
}

// limitOf returns the limit of a draft, or nil if the runtime would refuse it.
func (p *parser) limitOf(d *draft, e entry) *Limit {
	limit, err := NewLimit(runtime.Policy(d.policy))
	if err != nil {
		// A value that could not be read, or the plans of the file, may have a diagnostic already. The checks of fields and of
		// their combinations have better messages: this is for what they overlook.
		if len(p.found) == 0 {
			p.report(e.named, outOfRange, "", "%v", err)
		}
		return nil
	}
	limit.Plan, limit.UnlimitedRate, limit.Overrides, limit.GoName = d.plan, d.unlimitedRate, d.overrides, d.goName
	limit.Doc, limit.Key, limit.Pos, limit.Given = d.doc, d.key, d.pos, d.given
	return limit
}

// KeyPart is one named and typed part of a limit's key.
type KeyPart struct {
	// Name is a Go identifier that is not a keyword.
	Name string
	// Type is the type as the file has it: "int64", "netip.Addr/64", "hashed string" or "example.com/ids.UserID".
	Type string
}

// hashedString is the type of a part of which only a hash is stored.
const hashedString = "hashed string"

// GoType returns the type of the parameter of the generated method: "netip.Addr" for "netip.Addr/64".
func (k KeyPart) GoType() string {
	switch {
	case k.Hashed():
		return "string"
	case k.PrefixBits() > 0:
		return addrType
	}
	return k.Type
}

// Hashed reports whether only a hash of the part is stored.
func (k KeyPart) Hashed() bool { return k.Type == hashedString }

// PrefixBits returns how many bits of an IPv6 address are the part, or 0 if the type has no such number.
func (k KeyPart) PrefixBits() int {
	parts := addrPrefixForm.FindStringSubmatch(k.Type)
	if parts == nil {
		return 0
	}
	bits, _ := strconv.Atoi(parts[1])
	return bits
}

// Pos is a place in a file. Lines and columns count from 1; columns count runes.
type Pos struct {
	Line, Column int
}

const identifierPattern = `^[A-Za-z_][A-Za-z0-9_]*$`

var identifierForm = regexp.MustCompile(identifierPattern)

func (p *parser) version(_ *File, e entry) bool {
	switch {
	// Some people quote versions, and "1" is not ambiguous.
	case e.value.Value == "1" && (isString(e.value) || e.value.Tag == "!!int"):
		return true
	case isLaterVersion(e.value):
		p.report(e.at, badVersion, "a newer ratelimitgen may support it: go get -tool github.com/ratelimitgen/ratelimitgen/cmd/ratelimitgen@latest",
			"version must be 1, not %s", describe(e.value))
	default:
		p.report(e.at, badVersion, "write version: 1", "version must be 1, not %s", describe(e.value))
	}
	return false
}

var laterForm = regexp.MustCompile(`^[1-9][0-9]*$`)

// isLaterVersion reports whether a version may be that of a future format.
func isLaterVersion(n *yaml.Node) bool {
	return n.Tag == "!!int" && n.Value != "1" && laterForm.MatchString(n.Value)
}

// laterVersion returns the version of a file in a future format, or nil.
func laterVersion(root *yaml.Node) *yaml.Node {
	for i := 0; root.Kind == yaml.MappingNode && i < len(root.Content); i += 2 {
		if root.Content[i].Value == "version" && isLaterVersion(root.Content[i+1]) {
			return root.Content[i+1]
		}
	}
	return nil
}

func (p *parser) packageName(file *File, e entry) bool {
	name, ok := p.text(e, "a Go identifier")
	if !ok {
		return false
	}
	const help = "choose another name, such as limits"
	switch {
	case IsPackageName(name):
		file.Package = name
		return true
	case token.IsKeyword(name):
		p.report(e.at, badPackage, help, "package cannot be %s, a keyword of Go", quote(name))
	case slices.Contains(ignoredPackages, name):
		p.report(e.at, badPackage, help, "package cannot be %s, which go build ignores", quote(name))
	default:
		p.report(e.at, badPackage, help, "package must be a Go identifier, not %s", quote(name))
	}
	return false
}

// ignoredPackages are the identifiers whose packages go build ignores.
var ignoredPackages = []string{"_", "documentation"}

// IsPackageName reports whether a generated package can have the name: an ASCII identifier that go build does not ignore.
func IsPackageName(name string) bool {
	return identifierForm.MatchString(name) && !token.IsKeyword(name) && !slices.Contains(ignoredPackages, name)
}

// unusablePackages are the identifiers that [IsPackageName] refuses.
func unusablePackages() []string { return slices.Concat(ignoredPackages, goKeywords()) }

func goKeywords() []string {
	var keywords []string
	// Package token has fewer than 256 tokens and no list of them.
	for t := token.Token(0); t < 1<<8; t++ {
		if t.IsKeyword() {
			keywords = append(keywords, t.String())
		}
	}
	return keywords
}

const limitNamePattern = `^[a-z][a-zA-Z0-9]*$`

var limitNameForm = regexp.MustCompile(limitNamePattern)

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
func (p *parser) withoutFields(entries []entry) []entry {
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
	p.limit, p.impliesPeriod, p.calendarStart = label(e.name), false, calendarStart{}
	defer func() { p.limit = "" }()
	entries, ok := p.entries(e.value, e.at, "a limit", limitHelp)
	if !ok {
		return limit
	}
	before := len(p.found)
	p.writtenPeriod = periodText(entries)
	p.gaveZone = slices.ContainsFunc(entries, func(e entry) bool { return e.name == "zone" })
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
func (p *parser) limitName(e entry, what string) {
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

// Unlimited reports whether the limit of a plan is unlimited and not blocked.
func (l *Limit) Unlimited() bool { return l.Policy.Mode == runtime.ModeUnlimited }

// Each returns the limit of each plan, or the limit itself if it is the same for all plans.
func (l *Limit) Each() []*Limit {
	if len(l.Plans) == 0 {
		return []*Limit{l}
	}
	return l.Plans
}

// ForPlan returns the limit of a plan, or the limit itself if it is the same for all plans; nil if it lacks the plan.
func (l *Limit) ForPlan(name string) *Limit {
	if len(l.Plans) == 0 {
		return l
	}
	for _, of := range l.Plans {
		if of.Plan == name {
			return of
		}
	}
	return nil
}

// PlanNames returns the names of the plans of the limit.
func (l *Limit) PlanNames() []string {
	names := make([]string, len(l.Plans))
	for i, of := range l.Plans {
		names[i] = of.Plan
	}
	return names
}
