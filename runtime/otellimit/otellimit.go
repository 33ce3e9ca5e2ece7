// Package otellimit reports the decisions of limits to OpenTelemetry: as metrics, and as events of the span in the context
// of the caller.
//
//	observer, err := otellimit.New(otellimit.Options{Policies: limits.Policies()})
//	limit := limits.New(store, limiter.Observe(observer))
//
// The metrics are those of package observe:
//
//	ratelimitgen.requests           {request}  counter    limit, outcome
//	ratelimitgen.tokens             {token}    counter    limit, outcome
//	ratelimitgen.near               {request}  counter    limit
//	ratelimitgen.warnings           {request}  counter    limit, threshold
//	ratelimitgen.denied_priorities  {request}  counter    limit, priority
//	ratelimitgen.denied_keys        {key}      gauge      limit
//	ratelimitgen.store.duration     s          histogram  operation
//
// Their series exist from the start, except those of the histogram and of denied priorities, which are made
// with the first value. The
// histogram has the current span as an exemplar if the meter provider records exemplars.
//
// # Guarantees
//
// No key leaves this package: events have its [runtime.Fingerprint], and error messages have [key] in its place. The number
// of series is fixed by the limits and their priorities.
package otellimit

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/observe"
)

// Scope is the name of the instrumentation scope.
const Scope = "github.com/ratelimitgen/ratelimitgen/runtime/otellimit"

// Event is the name of the span events.
const Event = "ratelimitgen.decision"

// Options complete an [Observer].
type Options struct {
	// MeterProvider is the global one if nil.
	MeterProvider metric.MeterProvider
	// Policies are those of the limits, from Policies of the generated package. Their series exist with the value 0 before
	// the first request.
	Policies []*runtime.Policy
	// Secret is that of the fingerprints; see [observe.Options].
	Secret []byte
	// NoEvents leaves out the span events.
	NoEvents bool
}

// Observer is a [runtime.Observer]. Make it with New.
type Observer struct {
	options                         Options
	requests, tokens, near, relaxed metric.Int64Counter
	warnings, priorities            metric.Int64Counter
	duration                        metric.Float64Histogram
	denials                         *observe.Denials
	gauge                           metric.Registration
	operations                      map[runtime.Op]metric.MeasurementOption

	mu     sync.RWMutex
	limits map[string]*attributes
}

// attributes are those of a limit, made once: a new set for each request would cost more than the rest.
type attributes struct {
	limit metric.MeasurementOption
	// outcomes has an option for each outcome, at its index.
	outcomes []metric.MeasurementOption
	// thresholds has an option for each percentage that was crossed, or that a policy given has.
	thresholds sync.Map
}

// threshold returns the option of a threshold.
func (a *attributes) threshold(limit string, percent uint8) metric.MeasurementOption {
	if of, ok := a.thresholds.Load(percent); ok {
		return of.(metric.MeasurementOption)
	}
	of := metric.WithAttributeSet(attribute.NewSet(
		attribute.String(observe.LabelLimit, limit), attribute.String(observe.LabelThreshold, strconv.Itoa(int(percent)))))
	a.thresholds.Store(percent, of)
	return of
}

// New registers the metrics, and returns an observer that records them. The error is that of the meter.
func New(o Options) (*Observer, error) {
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	denials := observe.NewDenials(observe.Options{Policies: o.Policies, Secret: o.Secret})
	observer := &Observer{options: o, denials: denials, limits: map[string]*attributes{},
		operations: map[runtime.Op]metric.MeasurementOption{}}
	for _, op := range observe.Operations() {
		observer.operations[op] = metric.WithAttributeSet(attribute.NewSet(attribute.String(observe.LabelOperation,
			observe.Operation(op))))
	}
	if err := observer.register(o.MeterProvider.Meter(Scope)); err != nil {
		return nil, err
	}
	for _, limit := range observe.Limits(o.Policies) {
		observer.start(context.Background(), observer.of(limit))
	}
	for limit, thresholds := range observe.Thresholds(o.Policies) {
		for _, percent := range thresholds {
			observer.warnings.Add(context.Background(), 0, observer.of(limit).threshold(limit, percent))
		}
	}
	return observer, nil
}

func (r *Observer) register(m metric.Meter) error {
	var errs [9]error
	counter := func(of observe.Metric) (c metric.Int64Counter, err error) {
		return m.Int64Counter(of.Name, metric.WithUnit(of.Unit), metric.WithDescription(of.Help))
	}
	r.requests, errs[0] = counter(observe.Requests)
	r.tokens, errs[1] = counter(observe.Tokens)
	r.near, errs[2] = counter(observe.Near)
	r.relaxed, errs[6] = counter(observe.Relaxed)
	r.warnings, errs[7] = counter(observe.Warnings)
	r.priorities, errs[8] = counter(observe.DeniedPriorities)
	of := observe.StoreDuration
	r.duration, errs[3] = m.Float64Histogram(of.Name, metric.WithUnit(of.Unit), metric.WithDescription(of.Help),
		metric.WithExplicitBucketBoundaries(observe.Buckets()...))
	of = observe.DeniedKeys
	gauge, err := m.Int64ObservableGauge(of.Name, metric.WithUnit(of.Unit), metric.WithDescription(of.Help))
	errs[4] = err
	if err == nil {
		r.gauge, errs[5] = m.RegisterCallback(func(_ context.Context, to metric.Observer) error {
			r.mu.RLock()
			defer r.mu.RUnlock()
			for limit, a := range r.limits {
				to.ObserveInt64(gauge, r.denials.Keys(limit), a.limit)
			}
			return nil
		}, gauge)
	}
	return errors.Join(errs[:]...)
}

// Shutdown stops the report of denied keys. It does not shut the meter provider down.
func (r *Observer) Shutdown() error { return r.gauge.Unregister() }

// start makes the series of a limit.
func (r *Observer) start(ctx context.Context, a *attributes) {
	for _, outcome := range runtime.Outcomes() {
		r.requests.Add(ctx, 0, a.outcomes[outcome])
		r.tokens.Add(ctx, 0, a.outcomes[outcome])
	}
	r.near.Add(ctx, 0, a.limit)
	r.relaxed.Add(ctx, 0, a.limit)
}

// of returns the attributes of a limit.
func (r *Observer) of(limit string) *attributes {
	r.mu.RLock()
	a := r.limits[limit]
	r.mu.RUnlock()
	if a != nil {
		return a
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.limits[limit]; a != nil {
		return a
	}
	name := attribute.String(observe.LabelLimit, limit)
	a = &attributes{limit: metric.WithAttributeSet(attribute.NewSet(name))}
	// The zero Outcome, which is none, is before them.
	for _, outcome := range append([]runtime.Outcome{0}, runtime.Outcomes()...) {
		a.outcomes = append(a.outcomes, metric.WithAttributeSet(attribute.NewSet(name, attribute.String(observe.LabelOutcome, outcome.String()))))
	}
	r.limits[limit] = a
	return a
}

// Denials returns the keys that were denied.
func (r *Observer) Denials() *observe.Denials { return r.denials }

// Decided implements [runtime.Observer].
func (r *Observer) Decided(ctx context.Context, o runtime.Observation) {
	a := r.of(o.Limit)
	r.requests.Add(ctx, 1, a.outcomes[o.Outcome])
	if tokens := o.Tokens(); tokens != 0 {
		r.tokens.Add(ctx, tokens, a.outcomes[o.Outcome])
	}
	if o.Near() {
		r.near.Add(ctx, 1, a.limit)
	}
	if o.Crossed > 0 {
		r.warnings.Add(ctx, 1, a.threshold(o.Limit, o.Crossed))
	}
	if class := observe.DeniedPriority(&o); class != "" {
		r.priorities.Add(ctx, 1, metric.WithAttributeSet(attribute.NewSet(
			attribute.String(observe.LabelLimit, o.Limit), attribute.String(observe.LabelPriority, class))))
	}
	if _, relaxed := o.Policy.Relaxed(); relaxed {
		r.relaxed.Add(ctx, 1, a.limit)
	}
	// All limits of a call have its duration.
	if o.Duration > 0 && o.Index == 0 {
		r.duration.Record(ctx, o.Duration.Seconds(), r.operations[o.Op])
	}
	r.denials.Decided(ctx, o)
	if span := trace.SpanFromContext(ctx); !r.options.NoEvents && span.IsRecording() {
		span.AddEvent(Event, trace.WithAttributes(r.event(&o)...))
	}
}

// event returns the attributes of a span event.
func (r *Observer) event(o *runtime.Observation) []attribute.KeyValue {
	event := []attribute.KeyValue{
		attribute.String(observe.LabelLimit, o.Limit),
		attribute.String(observe.LabelOutcome, o.Outcome.String()),
		attribute.String(observe.LabelOperation, observe.Operation(o.Op)),
		attribute.String("source", o.Source.String()),
		attribute.String("key", r.denials.Fingerprint(o)),
		attribute.Int64("count", o.Count),
		attribute.Int64("taken", o.Taken),
		attribute.Int64("remaining", o.Remaining),
	}
	retryAfter := o.RetryAfter
	if retryAfter == runtime.Never {
		retryAfter = 0
	}
	for _, d := range []struct {
		name    string
		seconds float64
	}{{"retry_after", retryAfter.Seconds()}, {"delay", o.Delay.Seconds()}, {"waited", o.Waited.Seconds()}} {
		if d.seconds > 0 {
			event = append(event, attribute.Float64(d.name, d.seconds))
		}
	}
	if o.Crossed > 0 {
		event = append(event, attribute.Int("crossed", int(o.Crossed)))
	}
	if entry, ok := o.Override(); ok {
		event = append(event, attribute.Int64("override", entry))
	}
	if message := o.Message(); message != "" {
		event = append(event, attribute.String("error", message))
	}
	return event
}
