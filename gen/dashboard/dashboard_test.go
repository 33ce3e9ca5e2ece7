package dashboard_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/dashboard"
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/dense"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/observe"
)

var update = flag.Bool("update", false, "update the golden files")

// files returns the valid files of the tests, and the example.
func files(t *testing.T) (files []*spec.File) {
	t.Helper()
	paths, err := filepath.Glob("../../testdata/spec/good/*.yaml")
	require.NoError(t, err)
	for _, path := range append(paths, "../../limits.example.yaml") {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		file, diagnostics := fields.Parse(filepath.Base(path), text)
		require.Empty(t, diagnostics)
		files = append(files, file)
	}
	require.Greater(t, len(files), 10)
	return files
}

func TestGolden(t *testing.T) {
	const dir = "../../testdata/dashboard"
	text, err := os.ReadFile(filepath.Join(dir, "limits.yaml"))
	require.NoError(t, err)
	file, diagnostics := fields.Parse("limits.yaml", text)
	require.Empty(t, diagnostics)
	board, err := dashboard.Grafana(file)
	require.NoError(t, err)
	alerts, err := dashboard.Alerts(file)
	require.NoError(t, err)
	for name, got := range map[string][]byte{"dashboard.json": board, "alerts.yaml": alerts} {
		path := filepath.Join(dir, name)
		if *update {
			text := got
			if name == "dashboard.json" {
				text = dense.JSON(got)
			}
			require.NoError(t, os.WriteFile(path, text, 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		if name == "dashboard.json" {
			want, err = dense.Indent(want)
			require.NoError(t, err)
		}
		require.Equal(t, string(want), string(got), "after an intended change, run go test ./gen/dashboard -update")
	}
}

// board has the fields of a dashboard that Grafana depends on.
type board struct {
	UID, Title string
	Templating struct{ List []struct{ Name, Type string } }
	Panels     []struct {
		ID          int
		Type, Title string
		GridPos     struct{ H, W, X, Y int }
		Datasource  struct{ UID string }
		FieldConfig struct {
			Overrides []struct{ Matcher struct{ ID, Options string } }
		}
		Targets []struct{ RefID, Expr, LegendFormat string }
	}
}

// For every file, the panels have different ids and places, the targets different names, and each limit has a row.
func TestDashboardIsSound(t *testing.T) {
	for _, f := range files(t) {
		text, err := dashboard.Grafana(f)
		require.NoError(t, err)
		var b board
		require.NoError(t, json.Unmarshal(text, &b))
		require.Regexp(t, "^[a-zA-Z0-9_-]{1,40}$", b.UID)
		require.Equal(t, "datasource", b.Templating.List[0].Name)
		ids, cells, rows := map[int]bool{}, map[[2]int]string{}, []string{}
		for _, p := range b.Panels {
			require.False(t, ids[p.ID], "id %d twice", p.ID)
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					require.Empty(t, cells[[2]int{x, y}], "%s: %s covers another panel", f.Name, p.Title)
					require.Less(t, x, 24)
					cells[[2]int{x, y}] = p.Title
				}
			}
			if p.Type == "row" {
				rows = append(rows, p.Title)
				continue
			}
			require.NotEmpty(t, p.Targets, p.Title)
			require.Equal(t, "${datasource}", p.Datasource.UID)
			var refs, legends []string
			for _, q := range p.Targets {
				refs, legends = append(refs, q.RefID), append(legends, q.LegendFormat)
				requireDocumented(t, f, q.Expr)
			}
			require.Len(t, slices.Compact(slices.Sorted(slices.Values(refs))), len(p.Targets))
			require.Len(t, slices.Compact(slices.Sorted(slices.Values(legends))), len(p.Targets), "lines of %s have one name", p.Title)
			for _, o := range p.FieldConfig.Overrides {
				require.Contains(t, legends, o.Matcher.Options, "a style for a line that does not exist")
			}
		}
		require.Len(t, rows, len(f.Limits)+1)
		for i, l := range f.Limits {
			require.Equal(t, l.Policy.Name, rows[i+1])
		}
	}
}

func TestAlertsAreSound(t *testing.T) {
	for _, f := range files(t) {
		text, err := dashboard.Alerts(f)
		require.NoError(t, err)
		var rules struct {
			Groups []struct {
				Name  string
				Rules []struct{ Alert, Expr, For string }
			}
		}
		require.NoError(t, yaml.Unmarshal(text, &rules))
		require.Len(t, rules.Groups, 1)
		names := map[string]bool{}
		for _, r := range rules.Groups[0].Rules {
			require.False(t, names[r.Alert])
			names[r.Alert] = true
			requireDocumented(t, f, r.Expr)
		}
		shadow := slices.ContainsFunc(f.Limits, func(l *spec.Limit) bool {
			return slices.ContainsFunc(l.Each(), func(of *spec.Limit) bool { return of.Policy.Mode == runtime.ModeShadow })
		})
		require.Equal(t, shadow, names["RateLimitShadowWouldDeny"], f.Name)
	}
}

func TestTimeoutsSetTheSlowAlert(t *testing.T) {
	for timeout, want := range map[string]string{"": "> 0.5\n", ", timeout: 2s": "> 1\n", ", timeout: 250ms": "> 0.125\n"} {
		f, diagnostics := fields.Parse("limits.yaml", []byte("version: 1\nlimits:\n  send: {kind: token bucket, rate: 1, period: 1s"+timeout+"}\n"))
		require.Empty(t, diagnostics)
		text, err := dashboard.Alerts(f)
		require.NoError(t, err)
		require.Contains(t, string(text), want)
	}
}

// Holds that depend on the plan, slots that callers give, and a plan that is unlimited when it is not blocked.
func TestPanelsHaveTheNumbersOfEachPlan(t *testing.T) {
	f, diagnostics := fields.Parse("limits.yaml", []byte("version: 1\nplans: [free, pro]\nlimits:\n"+
		"  exports: {kind: in flight, capacity: {at most: 5}, hold: {free: 1m, pro: 2h}}\n"+
		"  calls: {kind: token bucket, rate: {free: 10, pro: unlimited}, period: 1m, mode: block}\n"))
	require.Empty(t, diagnostics)
	text, err := dashboard.Grafana(f)
	require.NoError(t, err)
	require.Contains(t, string(text), "held for longer than its hold, 1m or 2h, without being renewed")
	require.Contains(t, string(text), "can hold free at most 5 or pro at most 5.")
	require.Contains(t, string(text), "free: rate, 10 per minute")
	require.NotContains(t, string(text), "pro: rate")
}

var (
	metricForm  = regexp.MustCompile(`ratelimitgen_\w+`)
	matcherForm = regexp.MustCompile(`(\w+)=(~?)("(?:[^"\\]|\\.)*")`)
	groupForm   = regexp.MustCompile(`by \(([^)]*)\)`)
)

// requireDocumented fails if a query has a metric, a label, an outcome or a limit that no observer exports.
func requireDocumented(t *testing.T, f *spec.File, expr string) {
	t.Helper()
	metrics, labels := map[string]bool{}, []string{"le"}
	for _, m := range observe.Metrics() {
		metrics[m.Prometheus()] = true
		labels = append(labels, m.Labels...)
		if m.Type == "histogram" {
			metrics[m.Prometheus()+"_bucket"] = true
		}
	}
	for _, name := range metricForm.FindAllString(expr, -1) {
		require.True(t, metrics[name], "%s in %s", name, expr)
	}
	var limits, outcomes []string
	for _, l := range f.Limits {
		limits = append(limits, l.Policy.Name)
	}
	for _, o := range runtime.Outcomes() {
		outcomes = append(outcomes, o.String())
	}
	for _, m := range matcherForm.FindAllStringSubmatch(expr, -1) {
		known := map[string][]string{"limit": limits, "outcome": outcomes}[m[1]]
		require.NotNil(t, known, expr)
		var text string
		_, err := fmt.Sscanf(m[3], "%q", &text)
		require.NoError(t, err)
		for _, value := range strings.Split(text, "|") {
			require.Contains(t, known, value, expr)
		}
	}
	for _, m := range groupForm.FindAllStringSubmatch(expr, -1) {
		require.Subset(t, labels, strings.Split(m[1], ", "), expr)
	}
}
