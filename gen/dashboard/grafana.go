// Package dashboard makes a Grafana dashboard and alert rules for Prometheus from the limits of a file. They read the
// metrics of runtime/observe, which runtime/otellimit has too.
//
// [Grafana] and [Alerts] are functions from a [spec.File] to bytes: the same file gives the same bytes.
package dashboard

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/describe"
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/observe"
)

// board is what a dashboard shows; grafana.json.tmpl has the rest of it.
type board struct {
	UID, Title, Description string
	Panels                  []panel
}

// panel is a graph at a place of the dashboard, or the title of a row, which has no targets.
type panel struct {
	Title, Description, Unit string
	Height, Width, X, Y      int
	Targets                  []series
	// Dashed are the legends of the lines that are a bound, and no measurement.
	Dashed []string
}

// series is a query and the name of its lines.
type series struct{ Expr, Legend string }

//go:embed grafana.json.tmpl
var grafanaText string

var grafanaTemplate = template.Must(template.New("grafana").Funcs(template.FuncMap{
	"json": jsonText, "refID": refID, "inc": func(i int) int { return i + 1 },
}).Parse(grafanaText))

// jsonText is a text in JSON, with the characters of HTML as they are.
func jsonText(text string) (string, error) {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(text)
	return strings.TrimSpace(out.String()), err
}

// Grafana returns a dashboard as JSON, to import or to provision: a row for all limits together, and one for each limit,
// with its rate and capacity as lines.
func Grafana(f *spec.File) ([]byte, error) {
	name := title(f)
	b := board{
		UID: uid(name), Title: "Rate limits: " + name,
		Description: "The limits of " + f.Name + ". Printed by ratelimitgen dashboard: print it again when the limits change.",
	}
	b.row("All limits", overview()...)
	for _, limit := range f.Limits {
		b.row(limit.Policy.Name, panelsOf(limit)...)
	}
	var text, out bytes.Buffer
	if err := grafanaTemplate.Execute(&text, b); err != nil {
		return nil, err
	}
	err := json.Indent(&out, text.Bytes(), "", "  ")
	return out.Bytes(), err
}

func title(f *spec.File) string { return cmp.Or(f.Package, "limits") }

// uid identifies the dashboard, so that importing it again replaces it. It has at most 40 characters of ASCII.
func uid(name string) string {
	plain := strings.Map(func(r rune) rune {
		if r < 0x80 {
			return r
		}
		return -1
	}, name)
	return "ratelimitgen-" + plain[:min(len(plain), 27)]
}

// columns is the width of a dashboard in the units of Grafana, and panelHeight the height of a graph.
const columns, panelHeight = 24, 8

// row adds a title, and panels side by side below it.
func (b *board) row(title string, panels ...panel) {
	y := 0
	if n := len(b.Panels); n > 0 {
		y = b.Panels[n-1].Y + panelHeight
	}
	b.Panels = append(b.Panels, panel{Title: title, Height: 1, Width: columns, Y: y})
	width := columns / len(panels)
	for i, p := range panels {
		p.Height, p.Width, p.X, p.Y = panelHeight, width, i*width, y+1
		b.Panels = append(b.Panels, p)
	}
}

func graph(title, description, unit string, all ...series) panel {
	return panel{Title: title, Description: description, Unit: unit, Targets: all}
}

// refID returns A, B, …, Z, AA, AB and so on.
func refID(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return refID(i/26-1) + refID(i%26)
}

// rate is the rate per second of a counter, added up by some labels over all processes.
func rate(m observe.Metric, by string, matchers ...string) string {
	over := ""
	if by != "" {
		over = " by (" + by + ")"
	}
	return fmt.Sprintf("sum%s (rate(%s[$__rate_interval]))", over, selector(m.Prometheus(), matchers...))
}

// selector selects the series of a metric.
func selector(name string, matchers ...string) string {
	if len(matchers) == 0 {
		return name
	}
	return name + "{" + strings.Join(matchers, ", ") + "}"
}

// outcomes matches some outcomes.
func outcomes(some ...runtime.Outcome) string {
	operator := "="
	if len(some) > 1 {
		operator = "=~"
	}
	return observe.LabelOutcome + operator + strconv.Quote(strings.Join(words.Of(some, runtime.Outcome.String), "|"))
}

// failed are the outcomes of requests for which the store has failed.
var failed = []runtime.Outcome{runtime.OutcomeError, runtime.OutcomeFailedOpen, runtime.OutcomeFailedLocal}

// taking are the outcomes of requests that have taken tokens from the store.
var taking = []runtime.Outcome{runtime.OutcomeAllowed, runtime.OutcomeDelayed, runtime.OutcomeShadowDelayed,
	runtime.OutcomeCharged}

func overview() []panel {
	var durations []series
	for _, q := range []string{"0.5", "0.95", "0.99"} {
		percent := strings.TrimPrefix(q, "0.") + "0"
		durations = append(durations, series{quantile(q, "$__rate_interval"), percent[:2] + " %"})
	}
	return []panel{
		graph("Requests by outcome", "All limits together. A call of several limits is a request of each. The line limiter.Mode is there only while that option is on.", "reqps",
			series{rate(observe.Requests, observe.LabelOutcome), "{{outcome}}"},
			series{rate(observe.Relaxed, "") + " > 0", "limiter.Mode"}),
		graph("Denied by limit", "", "reqps",
			series{rate(observe.Requests, observe.LabelLimit, outcomes(runtime.OutcomeDenied)), "{{limit}}"}),
		graph("Time in the store", "Half, 95 % and 99 % of the calls take at most as long. Calls that are answered from memory are not included.", "s", durations...),
		graph("Failures of the store", "Requests for which the store has failed: error is returned to the caller, failed_open passes uncounted, and failed_local is decided from the memory of the process.", "reqps",
			series{rate(observe.Requests, observe.LabelLimit+", "+observe.LabelOutcome, outcomes(failed...)),
				"{{limit}}: {{outcome}}"}),
	}
}

// quantile is a quantile of the time in the store.
func quantile(q, window string) string {
	return fmt.Sprintf("histogram_quantile(%s, sum by (le) (rate(%s_bucket[%s])))", q,
		observe.StoreDuration.Prometheus(), window)
}

func panelsOf(l *spec.Limit) []panel {
	name := observe.LabelLimit + "=" + strconv.Quote(l.Policy.Name)
	keys := graph("Near the limit, and denied",
		"Keys: how many different ones were denied in the last minute, in the process that has denied most. Near: requests per second that left less than a tenth of the capacity.", "short",
		series{"max(" + selector(observe.DeniedKeys.Prometheus(), name) + ")", "keys denied"},
		series{rate(observe.Near, "", name), "near"})
	if l.Policy.Warn.Len() > 0 {
		keys.Description += " Crossed: requests per second that crossed a threshold of warn."
		keys.Targets = append(keys.Targets, series{rate(observe.Warnings, observe.LabelThreshold, name),
			"{{threshold}} % crossed"})
	}
	about := strings.Join(describe.Words(l), " ")
	if l.Doc != "" {
		// A row has no description.
		about = l.Doc + "\n\n" + about
	}
	return []panel{
		graph("Requests by outcome", about, "reqps", series{rate(observe.Requests, observe.LabelOutcome, name), "{{outcome}}"}),
		tokens(l, name),
		keys,
	}
}

// tokens shows the tokens taken, as many as there would be in a period at the present pace, and what one key may take.
func tokens(l *spec.Limit, name string) panel {
	if l.Policy.Kind == runtime.InFlight {
		return slots(l, name)
	}
	period := fields.PeriodOf(&l.Policy)
	seconds := decimal(l.Policy.Period)
	if l.Unlimited() {
		period, seconds = "second", "1"
	}
	holder := words.Holder(spec.PartNames(l.Key))
	taken := series{rate(observe.Tokens, "", name, outcomes(taking...)) + " * " + seconds, "taken"}
	all := append([]series{taken}, lines(l, seconds)...)
	about := "Tokens that all keys together take per " + period + " at the present pace."
	if len(all) > 1 {
		about += " The dashed lines are for " + holder + ": the rate, and the most that can be taken at once."
	}
	p := graph("Tokens per "+period, about, "short", all...)
	for _, line := range all[1:] {
		p.Dashed = append(p.Dashed, line.Legend)
	}
	return p
}

// slots shows how many slots are acquired, released and lost per second: while as many are released as acquired, none leaks.
func slots(l *spec.Limit, name string) panel {
	var most, holds []string
	for _, of := range l.Each() {
		most = append(most, strings.TrimSpace(of.Plan+" "+fields.AtMost(of.Policy.Slots, of.Policy.AtMost.Slots)))
		if !of.Zero() {
			holds = append(holds, words.Duration(of.Policy.Hold))
		}
	}
	perSecond := func(some ...runtime.Outcome) string { return rate(observe.Tokens, "", name, outcomes(some...)) }
	return graph("Slots per second", "Slots that all keys together acquire, release and lose per second. A slot that is lost was held for longer than its hold, "+
		words.List(slices.Compact(holds), "or")+
		", without being renewed; one that is neither released nor lost belongs to a process that has crashed. At once, "+
		words.Holder(spec.PartNames(l.Key))+" can hold "+words.List(most, "or")+".", "short",
		series{perSecond(taking...), "acquired"}, series{perSecond(runtime.OutcomeReleased), "released"},
		series{perSecond(runtime.OutcomeSlotLost), "lost"})
}

// lines are the rate and the capacity of a limit, in each plan.
func lines(l *spec.Limit, seconds string) (all []series) {
	for _, of := range l.Each() {
		p := &of.Policy
		if of.Numberless() || of.CountsOnly() {
			continue
		}
		plan := ""
		if of.Plan != "" {
			plan = of.Plan + ": "
		}
		perPeriod := strconv.FormatInt(p.Rate, 10)
		if own := decimal(p.Period); own != seconds {
			// A plan with a period of its own is drawn in that of the panel.
			perPeriod += " / " + own + " * " + seconds
		}
		all = append(all, series{"vector(" + perPeriod + ")", fmt.Sprintf("%srate, %s per %s", plan, fields.AtMost(p.Rate, p.AtMost.Rate), fields.PeriodOf(p))})
		if p.Capacity != p.Rate && p.Capacity > 0 {
			all = append(all, series{fmt.Sprintf("vector(%d)", p.Capacity), fmt.Sprintf("%scapacity, %s", plan, fields.AtMost(p.Capacity, p.AtMost.Capacity))})
		}
	}
	return all
}

// decimal is a length in seconds.
func decimal(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
