package main

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// report is the results of a run.
type report struct {
	Machine machine
	Cells   []cell
	// Tallies is by contender.
	Tallies map[string]*tally
	// NotRun is why contenders have not run.
	NotRun map[string]string
}

// machine describes the machine of the run.
type machine struct {
	Go      string
	OS      string
	Arch    string
	CPUs    int
	Servers settings
}

func describeMachine() machine {
	return machine{Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU()}
}

// cell returns the result of a contender under a load, or nil.
func (r *report) cell(name string, callers, keys int) *cell {
	i := slices.IndexFunc(r.Cells, func(c cell) bool {
		return c.Contender == name && c.Callers == callers && c.Keys == keys
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
