package promtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/dashboard"
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime/observe"
)

func files(t *testing.T) (files []*spec.File) {
	t.Helper()
	const root = "../../.."
	paths, err := filepath.Glob(root + "/testdata/spec/good/*.yaml")
	require.NoError(t, err)
	for _, path := range append(paths, root+"/limits.example.yaml") {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		file, diagnostics := fields.Parse(filepath.Base(path), text)
		require.Empty(t, diagnostics)
		files = append(files, file)
	}
	require.Greater(t, len(files), 10)
	return files
}

// check parses a query, and checks that its metrics exist.
func check(t *testing.T, query string) {
	t.Helper()
	expr, err := parser.ParseExpr(query)
	require.NoError(t, err, query)
	known := map[string]bool{}
	for _, m := range observe.Metrics() {
		known[m.Prometheus()], known[m.Prometheus()+"_bucket"] = true, m.Type == "histogram"
	}
	for _, selector := range parser.ExtractSelectors(expr) {
		for _, m := range selector {
			if m.Name == model.MetricNameLabel {
				require.True(t, known[m.Value], query)
			}
		}
	}
}

func TestPrometheusParsesTheQueriesOfTheDashboard(t *testing.T) {
	queries := 0
	for _, f := range files(t) {
		text, err := dashboard.Grafana(f)
		require.NoError(t, err)
		var board struct {
			Panels []struct{ Targets []struct{ Expr string } }
		}
		require.NoError(t, json.Unmarshal(text, &board))
		for _, p := range board.Panels {
			for _, q := range p.Targets {
				// Grafana replaces its variable by a duration.
				check(t, strings.ReplaceAll(q.Expr, "$__rate_interval", "1m0s"))
				queries++
			}
		}
	}
	require.Greater(t, queries, 100)
}

func TestPrometheusLoadsTheAlertRules(t *testing.T) {
	for _, f := range files(t) {
		text, err := dashboard.Alerts(f)
		require.NoError(t, err)
		groups, errs := rulefmt.Parse(text, false, model.UTF8Validation)
		require.Empty(t, errs, string(text))
		for _, r := range groups.Groups[0].Rules {
			check(t, r.Expr)
		}
	}
}
