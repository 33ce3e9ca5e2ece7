package otellimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/observe"
	"github.com/ratelimitgen/ratelimitgen/runtime/otellimit"
)

func bucket(name string, n int64) *runtime.Policy {
	return &runtime.Policy{Name: name, Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: n}
}

// faulty is a store that fails with err.
type faulty struct {
	memstore.Store
	err error
}

func (f *faulty) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if f.err != nil {
		return nil, f.err
	}
	return f.Store.Do(ctx, calls)
}

// observed returns an observer, and a function that returns the metrics by name.
func observed(t *testing.T, o otellimit.Options) (*otellimit.Observer, func() map[string]metricdata.Metrics) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	o.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	observer, err := otellimit.New(o)
	require.NoError(t, err)
	return observer, func() map[string]metricdata.Metrics {
		var all metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &all))
		metrics := map[string]metricdata.Metrics{}
		for _, scope := range all.ScopeMetrics {
			require.Equal(t, otellimit.Scope, scope.Scope.Name)
			for _, m := range scope.Metrics {
				metrics[m.Name] = m
			}
		}
		return metrics
	}
}

// value returns the value of a counter's or gauge's series.
func value(t *testing.T, m metricdata.Metrics, labels ...string) int64 {
	t.Helper()
	var points []metricdata.DataPoint[int64]
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		require.True(t, data.IsMonotonic)
		points = data.DataPoints
	case metricdata.Gauge[int64]:
		points = data.DataPoints
	}
	var want []attribute.KeyValue
	for i := 0; i < len(labels); i += 2 {
		want = append(want, attribute.String(labels[i], labels[i+1]))
	}
	set := attribute.NewSet(want...)
	for _, p := range points {
		if p.Attributes.Equals(&set) {
			return p.Value
		}
	}
	require.Fail(t, "no such series", "%s %v", m.Name, labels)
	return 0
}

func TestMetricsHaveTheDocumentedNamesAndUnits(t *testing.T) {
	warned := bucket("send", 2)
	warned.Warn, warned.Priority = runtime.Thresholds{100}, runtime.Priority{Name: "interactive"}
	observer, collect := observed(t, otellimit.Options{Policies: []*runtime.Policy{warned, bucket("send", 3)}})
	before := collect()
	require.Zero(t, value(t, before[observe.Warnings.Name], "limit", "send", "threshold", "100"))
	for _, outcome := range runtime.Outcomes() {
		require.Zero(t, value(t, before[observe.Requests.Name], "limit", "send", "outcome", outcome.String()), "it exists from the start")
		require.Zero(t, value(t, before[observe.Tokens.Name], "limit", "send", "outcome", outcome.String()))
	}
	require.Len(t, before[observe.Requests.Name].Data.(metricdata.Sum[int64]).DataPoints, len(runtime.Outcomes()), "and no other")
	require.Zero(t, value(t, before[observe.Near.Name], "limit", "send"))
	require.Zero(t, value(t, before[observe.Relaxed.Name], "limit", "send"))
	require.Zero(t, value(t, before[observe.DeniedKeys.Name], "limit", "send"))

	send := limiter.New(&memstore.Store{}, limiter.Observe(observer)).Limit(warned, runtime.Key{})
	_, err := send.AllowN(t.Context(), 2)
	require.NoError(t, err)
	_, err = send.Allow(t.Context())
	require.NoError(t, err)
	metrics := collect()
	for _, m := range observe.Metrics() {
		got, ok := metrics[m.Name]
		require.True(t, ok, m.Name)
		require.Equal(t, m.Unit, got.Unit, m.Name)
		require.Equal(t, m.Help, got.Description)
	}
	require.Len(t, metrics, len(observe.Metrics()))
	require.EqualValues(t, 1, value(t, metrics[observe.Requests.Name], "limit", "send", "outcome", "allowed"))
	require.EqualValues(t, 2, value(t, metrics[observe.Tokens.Name], "limit", "send", "outcome", "allowed"))
	require.EqualValues(t, 1, value(t, metrics[observe.Requests.Name], "limit", "send", "outcome", "denied"))
	require.EqualValues(t, 1, value(t, metrics[observe.Near.Name], "limit", "send"))
	require.EqualValues(t, 0, value(t, metrics[observe.Relaxed.Name], "limit", "send"))
	require.EqualValues(t, 1, value(t, metrics[observe.Warnings.Name], "limit", "send", "threshold", "100"))
	require.EqualValues(t, 1, value(t, metrics[observe.DeniedPriorities.Name], "limit", "send", "priority", "interactive"))
	require.EqualValues(t, 1, value(t, metrics[observe.DeniedKeys.Name], "limit", "send"))
	histogram := metrics[observe.StoreDuration.Name].Data.(metricdata.Histogram[float64])
	require.Len(t, histogram.DataPoints, 1)
	require.EqualValues(t, 2, histogram.DataPoints[0].Count)
	require.Equal(t, observe.Buckets(), histogram.DataPoints[0].Bounds)
	operation, _ := histogram.DataPoints[0].Attributes.Value("operation")
	require.Equal(t, "take", operation.AsString())

	_, err = limiter.New(&memstore.Store{}, limiter.Observe(observer), limiter.Mode(runtime.ModeOff)).Limit(bucket("send", 2), runtime.Key{}).Allow(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, value(t, collect()[observe.Relaxed.Name], "limit", "send"))

	require.NoError(t, observer.Shutdown())
	require.NotContains(t, collect(), observe.DeniedKeys.Name)
}

func TestCountsAreThoseOfTheDecisions(t *testing.T) {
	policies := []*runtime.Policy{bucket("a", 100), bucket("b", 300)}
	observer, collect := observed(t, otellimit.Options{Policies: policies[:1]})
	limits := limiter.New(&memstore.Store{}, limiter.Observe(observer))
	var mu sync.Mutex
	want := map[string]int64{}
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 300 {
				p := policies[rand.IntN(2)]
				d, err := limits.Limit(p, runtime.KeyOf(runtime.Int(rand.IntN(2)))).Allow(context.Background())
				assert.NoError(t, err)
				mu.Lock()
				want[fmt.Sprint(p.Name, d.Allowed)]++
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	metrics := collect()
	for _, limit := range []string{"a", "b"} {
		for outcome, allowed := range map[string]bool{"allowed": true, "denied": false} {
			if n := want[fmt.Sprint(limit, allowed)]; n > 0 {
				require.Equal(t, n, value(t, metrics[observe.Requests.Name], "limit", limit, "outcome", outcome))
			}
		}
	}
	require.Positive(t, want["afalse"])
}

const canary = "canary-4711"

func TestDecisionsAreEventsOfTheSpan(t *testing.T) {
	observer, collect := observed(t, otellimit.Options{Secret: []byte("s")})
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	store := &faulty{}
	limits := limiter.New(store, limiter.Observe(observer))
	key := runtime.KeyOf(runtime.String(canary))
	send, other := limits.Limit(bucket("send", 1), key), limits.Limit(bucket("other", 1), key)

	ctx, span := tracer.Start(t.Context(), "request")
	_, err := limits.All(ctx, send, other)
	require.NoError(t, err)
	_, err = send.Allow(ctx)
	require.NoError(t, err)
	store.err = errors.New("no row for " + canary)
	_, err = send.Allow(ctx)
	require.Error(t, err)
	span.End()
	// Without a span, there is no event.
	_, err = send.Allow(t.Context())
	require.Error(t, err)

	events := spans.Ended()[0].Events()
	require.Len(t, events, 4)
	of := func(i int) map[string]any {
		require.Equal(t, otellimit.Event, events[i].Name)
		all := map[string]any{}
		for _, a := range events[i].Attributes {
			all[string(a.Key)] = a.Value.AsInterface()
		}
		return all
	}
	require.Equal(t, map[string]any{
		"limit": "send", "outcome": "allowed", "operation": "take", "source": "store",
		"key": runtime.Fingerprint([]byte("s"), key.String()), "count": int64(1), "taken": int64(1), "remaining": int64(0),
	}, of(0))
	require.Equal(t, "other", of(1)["limit"])
	require.Equal(t, "denied", of(2)["outcome"])
	require.InDelta(t, 3600, of(2)["retry_after"], 10)
	require.Equal(t, `limit "send": no row for [key]`, of(3)["error"])
	require.NotContains(t, fmt.Sprintf("%+v %+v", tracetest.SpanStubsFromReadOnlySpans(spans.Ended()), collect()), canary)

	// The exemplar of the histogram is the span.
	point := collect()[observe.StoreDuration.Name].Data.(metricdata.Histogram[float64]).DataPoints[0]
	require.NotEmpty(t, point.Exemplars)
	id := span.SpanContext().TraceID()
	require.Equal(t, id[:], point.Exemplars[0].TraceID)
}

func TestEventsNameTheOverride(t *testing.T) {
	observer, _ := observed(t, otellimit.Options{})
	spans := tracetest.NewSpanRecorder()
	p := bucket("send", 1)
	p.Overrides = runtime.OverrideBounds{Rate: p.Rate, Capacity: p.Capacity}
	limits, key := limiter.New(&memstore.Store{}, limiter.Observe(observer)), runtime.KeyOf(runtime.String("a"))
	e, err := limits.Overrides(p, key).Block(t.Context(), runtime.Block{Until: runtime.ForGood(), Reason: "abuse", Author: "me"})
	require.NoError(t, err)
	ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test").Start(t.Context(), "request")
	_, err = limits.Limit(p, key).Allow(ctx)
	require.NoError(t, err)
	span.End()
	require.Contains(t, spans.Ended()[0].Events()[0].Attributes, attribute.Int64("override", e.ID))
}

func TestEventsCanBeLeftOut(t *testing.T) {
	observer, _ := observed(t, otellimit.Options{NoEvents: true})
	spans := tracetest.NewSpanRecorder()
	ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test").Start(t.Context(), "request")
	_, err := limiter.New(&memstore.Store{}, limiter.Observe(observer)).Limit(bucket("send", 1), runtime.Key{}).Allow(ctx)
	require.NoError(t, err)
	span.End()
	require.Empty(t, spans.Ended()[0].Events())
}
