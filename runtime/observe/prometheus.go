package observe

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// contentType is that of version 0.0.4 of the text format, which every Prometheus reads.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// ServeHTTP implements [http.Handler]: it writes the counts in the text format of Prometheus.
func (c *Counters) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	var page bytes.Buffer
	c.WriteText(&page)
	w.Header().Set("Content-Type", contentType)
	w.Write(page.Bytes()) // a client that has gone away needs no error
}

// WriteText writes the counts in the text format of Prometheus, for a page that has other metrics too. The error is that
// of w.
func (c *Counters) WriteText(w io.Writer) error {
	var p page
	all := c.Snapshot()
	byOutcome := func(m Metric, of func(LimitCounts) map[runtime.Outcome]int64) {
		p.begin(m)
		for _, n := range all {
			for _, outcome := range runtime.Outcomes() {
				p.sample(m.Prometheus(), strconv.FormatInt(of(n)[outcome], 10), LabelLimit, n.Limit, LabelOutcome, outcome.String())
			}
		}
	}
	byOutcome(Requests, func(n LimitCounts) map[runtime.Outcome]int64 { return n.Requests })
	byOutcome(Tokens, func(n LimitCounts) map[runtime.Outcome]int64 { return n.Tokens })
	byLimit := func(m Metric, of func(LimitCounts) int64) {
		p.begin(m)
		for _, n := range all {
			p.sample(m.Prometheus(), strconv.FormatInt(of(n), 10), LabelLimit, n.Limit)
		}
	}
	byLimit(Near, func(n LimitCounts) int64 { return n.Near })
	if slices.ContainsFunc(all, func(n LimitCounts) bool { return len(n.Warnings) > 0 }) {
		p.begin(Warnings)
	}
	for _, n := range all {
		for _, percent := range slices.Sorted(maps.Keys(n.Warnings)) {
			p.sample(Warnings.Prometheus(), strconv.FormatInt(n.Warnings[percent], 10), LabelLimit, n.Limit, LabelThreshold,
				strconv.Itoa(percent))
		}
	}
	if slices.ContainsFunc(all, func(n LimitCounts) bool { return len(n.DeniedPriorities) > 0 }) {
		p.begin(DeniedPriorities)
	}
	for _, n := range all {
		for _, class := range slices.Sorted(maps.Keys(n.DeniedPriorities)) {
			p.sample(DeniedPriorities.Prometheus(), strconv.FormatInt(n.DeniedPriorities[class], 10), LabelLimit, n.Limit,
				LabelPriority, class)
		}
	}
	byLimit(Relaxed, func(n LimitCounts) int64 { return n.Relaxed })
	byLimit(DeniedKeys, func(n LimitCounts) int64 { return n.DeniedKeys })
	p.begin(StoreDuration)
	for _, op := range Operations() {
		p.histogram(StoreDuration.Prometheus(), c.durations[op], LabelOperation, Operation(op))
	}
	_, err := w.Write(p.Bytes())
	return err
}

// page is a text in the format of Prometheus.
type page struct{ bytes.Buffer }

func (p *page) begin(m Metric) {
	fmt.Fprintf(p, "# HELP %s %s\n# TYPE %s %s\n", m.Prometheus(), m.Help, m.Prometheus(), m.Type)
}

// sample writes a value. The labels are names and values in turn.
func (p *page) sample(name, value string, labels ...string) {
	p.WriteString(name)
	for i := 0; i < len(labels); i += 2 {
		fmt.Fprintf(p, `%c%s="%s"`, "{,"[min(i, 1)], labels[i], escaped.Replace(labels[i+1]))
	}
	p.WriteString("} " + value + "\n")
}

// escaped is how the values of labels are written.
var escaped = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// histogram writes the series of a histogram.
func (p *page) histogram(name string, h *histogram, label, value string) {
	sum, total := h.sum.Load(), int64(0)
	for i := range h.buckets {
		total += h.buckets[i].Load()
		bound := "+Inf"
		if i < len(bounds) {
			bound = float(bounds[i].Seconds())
		}
		p.sample(name+"_bucket", strconv.FormatInt(total, 10), label, value, "le", bound)
	}
	p.sample(name+"_sum", float(float64(sum)/1e9), label, value)
	p.sample(name+"_count", strconv.FormatInt(total, 10), label, value)
}

func float(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
