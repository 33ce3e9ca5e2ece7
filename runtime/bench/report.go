package main

import (
	"cmp"
	"encoding/json"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
)

// report is what a run has measured.
type report struct {
	Machine machine `json:"machine"`
	Cells   []cell  `json:"cells"`
	// Tallies are by contender.
	Tallies map[string]*tally `json:"tallies"`
	Growth  []growth          `json:"growth,omitempty"`
	// Costs are by database.
	Costs map[string]cost `json:"costs,omitempty"`
	// NotRun has the reasons of contenders that have not run.
	NotRun   map[string]string `json:"notRun"`
	Verdicts []verdict         `json:"verdicts"`
}

// machine is where it was measured.
type machine struct {
	Go   string `json:"go"`
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
	// Modules are the versions of the drivers and of the peers, by module.
	Modules map[string]string `json:"modules"`
	// Servers are the settings of the servers.
	Servers settings `json:"servers"`
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

// cell returns what a contender did under a load that allows all, or nil.
func (r *report) cell(name string, callers, keys int) *cell {
	i := slices.IndexFunc(r.Cells, func(c cell) bool {
		return c.Contender == name && c.Callers == callers && c.Keys == keys && !c.Denied
	})
	if i < 0 {
		return nil
	}
	return &r.Cells[i]
}

// whyNot returns why there is no figure of a contender.
func (r *report) whyNot(name string) string {
	if _, ok := find(name); !ok {
		return "there is no such contender"
	}
	return cmp.Or(r.NotRun[name], "it was not measured")
}

// bigTable returns how many rows the large table had, 0 if there was none.
func (r *report) bigTable() int {
	if len(r.Growth) == 0 {
		return 0
	}
	return r.Growth[0].Rows
}

// writeJSON writes what has been measured to a file.
func writeJSON(path string, what any) error {
	text, err := json.MarshalIndent(what, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
