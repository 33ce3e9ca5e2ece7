package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"
)

// report is the results of a run.
type report struct {
	Machine machine `json:"machine"`
	Cells   []cell  `json:"cells"`
	// Tallies is by contender.
	Tallies map[string]*tally `json:"tallies"`
	Growth  []growth          `json:"growth,omitempty"`
	// Costs is by database: the names in costed.
	Costs map[string]cost `json:"costs,omitempty"`
	// NotRun is why contenders have not run.
	NotRun   map[string]string `json:"notRun"`
	Verdicts []verdict         `json:"verdicts"`
}

// machine describes the machine of the run.
type machine struct {
	Go   string `json:"go"`
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
	// Modules is the version of each module, such as the drivers and the peers.
	Modules map[string]string `json:"modules"`
	Servers settings          `json:"servers"`
}

func describeMachine() machine {
	m := machine{
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(),
		Modules: map[string]string{},
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, d := range build.Deps {
			m.Modules[d.Path] = d.Version
		}
	}
	return m
}

// cell returns the result of a contender under a load that is allowed, or nil.
func (r *report) cell(name string, callers, keys int) *cell {
	i := slices.IndexFunc(r.Cells, func(c cell) bool {
		// Denials are cheaper than grants, and have no aims.
		return c.Contender == name && c.Callers == callers && c.Keys == keys && !c.Denied
	})
	if i < 0 {
		return nil
	}
	return &r.Cells[i]
}

// reasonNotRun returns why there is no figure for a contender.
func (r *report) reasonNotRun(name string) string {
	if _, ok := find(name); !ok {
		return "no contender has this name"
	}
	return cmp.Or(r.NotRun[name], "it was not measured")
}

// bigTable returns how many rows the large table had, or 0.
func (r *report) bigTable() int {
	if len(r.Growth) == 0 {
		return 0
	}
	return r.Growth[0].Rows
}

func writeJSON(path string, what any) error {
	text, err := json.MarshalIndent(what, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// verdict is whether an aim was reached.
type verdict struct {
	What string `json:"what"`
	Aim  string `json:"aim"`
	// Figure is nil if it was not measured.
	Figure  *float64 `json:"figure,omitempty"`
	Reached bool     `json:"reached"`
	// NotRun is why there is no figure.
	NotRun string `json:"notRun,omitempty"`
}

func (v verdict) is(figure float64, reached bool) verdict {
	v.Figure, v.Reached = &figure, reached
	return v
}

func (v verdict) notRun(why string) verdict {
	v.NotRun = why
	return v
}

func (v verdict) String() string {
	switch {
	case v.Figure == nil:
		return "not run: " + v.NotRun
	case v.Reached:
		return "reached"
	}
	return "not reached"
}

// judge compares the results with every aim.
func (r *report) judge() {
	r.Verdicts = nil
	for _, a := range tripAims {
		r.Verdicts = append(r.Verdicts, a.judge(r))
	}
	for _, q := range ratios {
		r.Verdicts = append(r.Verdicts, q.judge(r))
	}
	for _, a := range allocationAims {
		r.Verdicts = append(r.Verdicts, a.judge(r))
	}
	for _, name := range growthContenders {
		r.Verdicts = append(r.Verdicts, r.judgeGrowth(name))
	}
	for _, a := range memoryAims {
		r.Verdicts = append(r.Verdicts, a.judge(r))
	}
}

// countAim is an aim for a count.
type countAim struct {
	contender string
	what      string
	atMost    float64
	// noise is added to atMost, because background work is counted too.
	noise float64
	of    func(*tally) float64
}

var (
	tripAims = []countAim{
		{oursPostgres, "round trips of a decision", 1, 0.01, trips},
		{oursMariaDB, "round trips of a decision", 1, 0.01, trips},
		{oursSQLite, "statements of a decision", 1, 0.01, trips},
		{oursMySQL, "round trips of a decision", 1, 0.01, trips},
	}
	allocationAims = []countAim{
		{oursLeased, "allocations of a decision", 0, 0.01, allocations},
		{oursSQLite, "allocations of a decision", 15, 0.5, allocations},
		{oursPostgres, "allocations of a decision", 30, 0.5, allocations},
		{oursMariaDB, "allocations of a decision", 30, 0.5, allocations},
		{oursMySQL, "allocations of a decision", 20, 0.5, allocations},
	}
	// A key in memory needs at least the bytes of its text, so less than a byte means that none is kept.
	memoryAims = []countAim{
		{oursSQLite, "bytes of memory per idle key", 0, 0.99, bytesPerKey},
		{oursPostgres, "bytes of memory per idle key", 0, 0.99, bytesPerKey},
		{oursMariaDB, "bytes of memory per idle key", 0, 0.99, bytesPerKey},
	}
)

func trips(t *tally) float64       { return t.Trips }
func allocations(t *tally) float64 { return t.Allocations }
func bytesPerKey(t *tally) float64 { return t.BytesPerKey }

func (a countAim) judge(r *report) verdict {
	v := verdict{What: a.contender + ", " + a.what, Aim: fmt.Sprintf("at most %g", a.atMost)}
	t := r.Tallies[a.contender]
	if t == nil || a.of(t) == -1 {
		return v.notRun(r.reasonNotRun(a.contender))
	}
	return v.is(a.of(t), a.of(t) <= a.atMost+a.noise)
}

// maxGrowth is the aim for [growth.Ratio].
const maxGrowth = 1.3

func (r *report) judgeGrowth(name string) verdict {
	v := verdict{
		What: fmt.Sprintf("%s, p50 in a table of %s rows against %s", name,
			digits(cmp.Or(r.bigTable(), 10_000_000)), digits(smallRows)),
		Aim: fmt.Sprintf("at most %g", maxGrowth),
	}
	for _, g := range r.Growth {
		if g.Contender == name {
			return v.is(g.Ratio, g.Ratio <= maxGrowth)
		}
	}
	if r.NotRun[name] == "" {
		return v.notRun("measure it with -rows 10000000")
	}
	return v.notRun(r.NotRun[name])
}

// ratio is an aim under one load: decisions per second of ours divided by those of theirs or, for cpu, processor time of
// theirs for a decision divided by that of ours.
type ratio struct {
	ours, theirs  string
	callers, keys int
	atLeast       float64
	cpu           bool
}

// ratios are the aims. Both sides of a ratio run in one heat.
var ratios = []ratio{
	{oursSQLite, floorSQLite, 1, 1000, 1, true},
	{oursPostgres, floorPostgres, 1, 1000, 0.85, true},
	{oursMariaDB, floorMariaDB, 1, 1000, 0.85, true},
	{oursMySQL, floorMySQL, 1, 1000, 0.9, true},
	{oursPostgres, floorPostgres, 4, 1000, 1, false},
	{oursMariaDB, floorMariaDB, 4, 1000, 1, false},
	{oursMySQL, floorMySQL, 4, 1000, 1, false},
	{oursPostgres + farAway, floorPostgres + farAway, 4, 1000, 1, false},
	{oursMariaDB + farAway, floorMariaDB + farAway, 4, 1000, 1, false},
	{oursMySQL + farAway, floorMySQL + farAway, 4, 1000, 1, false},
	{oursPostgres, floorPostgres, 16, 1000, 1.8, false},
	{oursPostgres, naivePostgres, 64, 1, 40, false},
	{oursSQLite, redisRate, 64, 1000, 2, false},
	{oursSQLite, redisRate, 512, 1, 20, false},
	{oursPostgres, redisRate, 512, 10_000, 2.5, false},
	{oursLeased, xTimeRate, 1, 1000, 0.5, false},
	{oursLeased, xTimeRate, 64, 1000, 0.5, false},
}

func (q ratio) String() string {
	what := fmt.Sprintf("%s against %s, %s", q.ours, q.theirs, loadName(q.callers, q.keys))
	if q.cpu {
		what += ", CPU"
	}
	return what
}

func loadName(callers, keys int) string {
	return fmt.Sprintf("%s, %s", plural(callers, "caller"), plural(keys, "key"))
}

func (q ratio) judge(r *report) verdict {
	v := verdict{What: q.String(), Aim: fmt.Sprintf("at least %g", q.atLeast)}
	ours, theirs := r.cell(q.ours, q.callers, q.keys), r.cell(q.theirs, q.callers, q.keys)
	switch {
	case ours == nil:
		return v.notRun(r.reasonNotRun(q.ours))
	case theirs == nil:
		return v.notRun(r.reasonNotRun(q.theirs))
	}
	if q.cpu {
		if !ours.HasCPU || !theirs.HasCPU {
			return v.notRun("processor time was not measured")
		}
		figure := (theirs.Own + theirs.Server) / (ours.Own + ours.Server)
		return v.is(figure, figure >= q.atLeast)
	}
	// The median over the turns, because both sides of a turn ran shortly after each other.
	figure := median(quotients(ours.Turns, theirs.Turns))
	return v.is(figure, figure >= q.atLeast)
}

// quotients divides the values of a by those of b, pairwise.
func quotients(a, b []float64) (q []float64) {
	for i := range min(len(a), len(b)) {
		q = append(q, a[i]/b[i])
	}
	return q
}

// percentile returns the smallest value that at least p percent of sorted do not exceed, and 0 if sorted is empty.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// median returns the middle value, the lower one of two, and the zero value if there are no values.
func median[T cmp.Ordered](values []T) (m T) {
	if len(values) == 0 {
		return m
	}
	values = slices.Sorted(slices.Values(values))
	return values[(len(values)-1)/2]
}
