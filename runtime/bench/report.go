package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
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

// add adds results. A contender without decisions in most rounds has none.
func (r *report) add(cells ...cell) {
	for _, c := range cells {
		if c.PerSecond == 0 {
			r.skip(c.Contender, errNoAnswer)
			continue
		}
		r.Cells = append(r.Cells, c)
	}
}

// reasonNotRun returns why there is no figure for a contender.
func (r *report) reasonNotRun(name string) string {
	// A sweep has not run if its database has not.
	base, _, _ := strings.Cut(name, ", ")
	return cmp.Or(r.NotRun[name], r.NotRun[base], "it was not measured")
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

func loadName(callers, keys int) string {
	return fmt.Sprintf("%s, %s", plural(callers, "caller"), plural(keys, "key"))
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
