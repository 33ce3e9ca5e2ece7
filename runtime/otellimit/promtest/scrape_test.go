// Package promtest tests the metrics, the dashboard and the alert rules with the parsers of Prometheus. It is a module of
// its own because no user of the metrics needs those.
package promtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/observe"
	"github.com/ratelimitgen/ratelimitgen/runtime/otellimit"
)

// scrape returns the metrics of an endpoint, as Prometheus reads them.
func scrape(t *testing.T, h http.Handler) (families map[string]*dto.MetricFamily, text string) {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	response, err := http.Get(server.URL)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, expfmt.TypeTextPlain, expfmt.ResponseFormat(response.Header).FormatType())
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err = parser.TextToMetricFamilies(bytes.NewReader(body))
	require.NoError(t, err)
	return families, string(body)
}

// faulty is a store that fails while broken is set.
type faulty struct {
	memstore.Store
	broken atomic.Bool
}

const canary = "canary-4711"

func (f *faulty) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if f.broken.Load() {
		return nil, errors.New("no row for " + canary)
	}
	return f.Store.Do(ctx, calls)
}

// use makes some requests, and returns their policies.
func use(t *testing.T, options ...limiter.Option) {
	t.Helper()
	store := &faulty{}
	limits := limiter.New(store, options...)
	send, search := limits.Limit(runtime.Priority{Name: "interactive"}.For(policies[0], runtime.KeyOf(runtime.String(canary)))), limits.Limit(policies[1], runtime.Key{})
	for range 3 {
		_, err := send.Allow(t.Context())
		require.NoError(t, err)
	}
	_, err := limits.All(t.Context(), send, search)
	require.NoError(t, err)
	_, err = search.CheckN(t.Context(), 2)
	require.NoError(t, err)
	store.broken.Store(true)
	_, err = send.Allow(t.Context())
	require.Error(t, err)
	_, err = search.Allow(t.Context())
	require.NoError(t, err)
}

var policies = []*runtime.Policy{
	{Name: "send", Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 2, Warn: runtime.Thresholds{100}},
	{Name: "search", Kind: runtime.FixedWindow, Rate: 5, Period: time.Hour, Capacity: 5, OnError: runtime.FailOpen},
}

// types are those of the text format.
var types = map[string]dto.MetricType{"counter": dto.MetricType_COUNTER, "gauge": dto.MetricType_GAUGE, "histogram": dto.MetricType_HISTOGRAM}

// The endpoint of package observe and the exporter of OpenTelemetry serve the same series, so that the dashboard reads both.
func TestScrapesHaveTheDocumentedMetrics(t *testing.T) {
	counters := observe.NewCounters(observe.Options{Policies: policies})
	registry := prometheus.NewRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry))
	require.NoError(t, err)
	otel, err := otellimit.New(otellimit.Options{
		Policies: policies, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)),
	})
	require.NoError(t, err)
	use(t, limiter.Observe(counters), limiter.Observe(otel))
	for name, handler := range map[string]http.Handler{"observe": counters, "otellimit": promhttp.HandlerFor(registry, promhttp.HandlerOpts{})} {
		t.Run(name, func(t *testing.T) {
			families, text := scrape(t, handler)
			require.NotContains(t, text, canary)
			for _, m := range observe.Metrics() {
				family := families[m.Prometheus()]
				require.NotNil(t, family, "%s in\n%s", m.Prometheus(), text)
				require.Equal(t, types[m.Type], family.GetType())
				require.Equal(t, m.Help, family.GetHelp())
				for _, series := range family.GetMetric() {
					labels := labelsOf(series)
					for _, label := range m.Labels {
						require.Contains(t, labels, label)
					}
					require.Len(t, labels, len(m.Labels))
				}
			}
			requests, tokens := families[observe.Requests.Prometheus()], families[observe.Tokens.Prometheus()]
			require.Len(t, requests.GetMetric(), len(policies)*len(runtime.Outcomes()), "all series")
			for _, row := range []struct {
				limit, outcome   string
				requests, tokens float64
			}{
				{"send", "allowed", 2, 2}, {"send", "denied", 2, 2}, {"send", "error", 1, 0}, {"send", "denied_by_other", 0, 0},
				{"search", "allowed", 0, 0}, {"search", "denied_by_other", 1, 1}, {"search", "checked", 1, 0}, {"search", "failed_open", 1, 1},
			} {
				require.Equal(t, row.requests, counter(t, requests, row.limit, row.outcome), "requests %v", row)
				require.Equal(t, row.tokens, counter(t, tokens, row.limit, row.outcome), "tokens %v", row)
			}
			for _, series := range families[observe.StoreDuration.Prometheus()].GetMetric() {
				want := map[string]uint64{"take": 6, "check": 1}[labelsOf(series)["operation"]]
				require.Equal(t, want, series.GetHistogram().GetSampleCount())
				require.Len(t, series.GetHistogram().GetBucket(), len(observe.Buckets())+1)
				for i, bound := range observe.Buckets() {
					require.Equal(t, bound, series.GetHistogram().GetBucket()[i].GetUpperBound())
				}
			}
			for _, series := range families[observe.DeniedKeys.Prometheus()].GetMetric() {
				require.Equal(t, map[string]float64{"send": 1, "search": 0}[labelsOf(series)["limit"]], series.GetGauge().GetValue())
			}
		})
	}
}

// labelsOf returns the labels of a series, without those of OpenTelemetry about the instrumentation.
func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		if len(l.GetName()) < 5 || l.GetName()[:5] != "otel_" {
			labels[l.GetName()] = l.GetValue()
		}
	}
	return labels
}

func counter(t *testing.T, family *dto.MetricFamily, limit, outcome string) float64 {
	t.Helper()
	for _, m := range family.GetMetric() {
		if labels := labelsOf(m); labels["limit"] == limit && labels["outcome"] == outcome {
			return m.GetCounter().GetValue()
		}
	}
	require.Fail(t, "no such series", "%s %s %s", family.GetName(), limit, outcome)
	return 0
}
