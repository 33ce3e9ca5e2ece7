package observe

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// LogOptions complete a [Log].
type LogOptions struct {
	// Secret is that of the fingerprints; see [Options].
	Secret []byte
	// Interval is how long a limit is quiet after a line; 0 means a second.
	Interval time.Duration
}

// Log is an observer that writes at most one line per limit and second: the first failure or denial at once, and after a
// second, in one line, the number of the others and the worst of them as an example. Failures are worse than denials, and
// those worse than what shadow mode lets pass. Requests that are simply allowed are not logged. The attribute reason is
// the [runtime.Decision.Reason] of a denial, and override the entry of the log of overrides that was in force for the
// example. Make it with NewLog.
type Log struct {
	logger   *slog.Logger
	secret   []byte
	interval time.Duration

	mu     sync.Mutex
	limits map[string]*backlog
}

// NewLog returns an observer that writes to a logger.
func NewLog(logger *slog.Logger, o LogOptions) *Log {
	if o.Interval <= 0 {
		o.Interval = time.Second
	}
	return &Log{logger: logger, secret: secretOr(o.Secret), interval: o.Interval, limits: map[string]*backlog{}}
}

// grade is how bad an outcome is.
type grade struct {
	rank  int
	level slog.Level
}

// grades has the outcomes that are logged.
var grades = map[runtime.Outcome]grade{
	runtime.OutcomeError:         {6, slog.LevelError},
	runtime.OutcomeFailedOpen:    {5, slog.LevelError},
	runtime.OutcomeFailedLocal:   {4, slog.LevelWarn},
	runtime.OutcomeDenied:        {3, slog.LevelInfo},
	runtime.OutcomeInvalid:       {2, slog.LevelInfo},
	runtime.OutcomeShadowDenied:  {1, slog.LevelInfo},
	runtime.OutcomeShadowDelayed: {1, slog.LevelInfo},
}

// backlog is the observations of a limit that were not logged yet.
type backlog struct {
	quietUntil time.Time
	// timer logs the rest at quietUntil; nil if there is no rest.
	timer *time.Timer
	line
}

// line is one line of the log.
type line struct {
	limit  string
	counts map[runtime.Outcome]int64
	worst  example
}

// example is one observation, as it is logged.
type example struct {
	grade
	outcome runtime.Outcome
	attrs   []slog.Attr
}

// Decided implements [runtime.Observer].
func (l *Log) Decided(ctx context.Context, o runtime.Observation) {
	if _, logged := grades[o.Outcome]; !logged {
		return
	}
	if lines := l.add(&o, time.Now()); lines != nil {
		l.write(ctx, *lines)
	}
}

// add adds an observation to the backlog of its limit, and returns the line to log now, or nil.
func (l *Log) add(o *runtime.Observation, now time.Time) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.limits[o.Limit]
	if b == nil {
		b = &backlog{line: line{limit: o.Limit, counts: map[runtime.Outcome]int64{}}}
		l.limits[o.Limit] = b
	}
	b.counts[o.Outcome]++
	if g := gradeOf(o); g.rank > b.worst.rank {
		b.worst = l.exampleOf(o, g)
	}
	if now.Before(b.quietUntil) {
		if limit := o.Limit; b.timer == nil {
			b.timer = time.AfterFunc(b.quietUntil.Sub(now), func() { l.flush(limit) })
		}
		return nil
	}
	return l.takeLocked(o.Limit, now)
}

// gradeOf returns how bad an observation is. A mistake of the program is as bad as a failure of the store.
func gradeOf(o *runtime.Observation) grade {
	if o.Outcome == runtime.OutcomeInvalid && runtime.OriginOf(o.Err()) == runtime.OriginProgram {
		return grades[runtime.OutcomeError]
	}
	return grades[o.Outcome]
}

func (l *Log) exampleOf(o *runtime.Observation, g grade) example {
	e := example{grade: g, outcome: o.Outcome}
	e.attrs = append(e.attrs, slog.String("key", o.Fingerprint(l.secret)), slog.String("operation", Operation(o.Op)),
		slog.Int64("count", o.Count))
	if o.Reason != "" {
		e.attrs = append(e.attrs, slog.String("reason", o.Reason))
	}
	if entry, ok := o.Override(); ok {
		e.attrs = append(e.attrs, slog.Int64("override", entry))
	}
	if o.RetryAfter > 0 && o.RetryAfter < runtime.Never {
		e.attrs = append(e.attrs, slog.Duration("retryAfter", o.RetryAfter))
	}
	if message := o.Message(); message != "" {
		e.attrs = append(e.attrs, slog.String("error", message))
	}
	return e
}

// takeLocked returns the backlog of a limit as a line, or nil if it is empty, and makes the limit quiet.
func (l *Log) takeLocked(limit string, now time.Time) *line {
	b := l.limits[limit]
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	if len(b.counts) == 0 {
		return nil
	}
	taken := b.line
	b.line, b.quietUntil = line{limit: limit, counts: map[runtime.Outcome]int64{}}, now.Add(l.interval)
	return &taken
}

// flush logs the backlog of a limit.
func (l *Log) flush(limit string) {
	l.mu.Lock()
	taken := l.takeLocked(limit, time.Now())
	l.mu.Unlock()
	if taken != nil {
		l.write(context.Background(), *taken)
	}
}

// Flush writes the lines that are still due. Call it at the end of a program.
func (l *Log) Flush() {
	l.mu.Lock()
	names := slices.Sorted(maps.Keys(l.limits))
	l.mu.Unlock()
	for _, limit := range names {
		l.flush(limit)
	}
}

func (l *Log) write(ctx context.Context, n line) {
	attrs := append([]slog.Attr{slog.String("limit", n.limit), slog.String("outcome", n.worst.outcome.String())},
		n.worst.attrs...)
	var counts []slog.Attr
	for _, outcome := range slices.Sorted(maps.Keys(n.counts)) {
		counts = append(counts, slog.Int64(outcome.String(), n.counts[outcome]))
	}
	attrs = append(attrs, slog.Attr{Key: "requests", Value: slog.GroupValue(counts...)})
	l.logger.LogAttrs(ctx, n.worst.level, "rate limit", attrs...)
}

// LogOutage is for the Report of a limiter.Retry: it logs the first error of an outage, and that the store is back, with
// [slog.Default].
func LogOutage(err error) {
	if err == nil {
		slog.Info("the store of the limits is back")
		return
	}
	slog.Warn("the store of the limits fails, and calls are repeated until it is back", "error", err)
}
