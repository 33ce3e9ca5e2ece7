// Package dashboard makes a Grafana dashboard and alert rules for Prometheus from the limits of a file. They read the
// metrics of runtime/observe, which runtime/otellimit has too.
//
// [Grafana] and [Alerts] are functions from a [spec.File] to bytes: the same file gives the same bytes.
package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/observe"
)

// The model of Grafana, as far as it is used.
type (
	board struct {
		UID           string     `json:"uid"`
		Title         string     `json:"title"`
		Description   string     `json:"description"`
		Tags          []string   `json:"tags"`
		Editable      bool       `json:"editable"`
		SchemaVersion int        `json:"schemaVersion"`
		Refresh       string     `json:"refresh"`
		Time          interval   `json:"time"`
		Templating    templating `json:"templating"`
		Panels        []panel    `json:"panels"`
	}
	interval struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
	templating struct {
		List []variable `json:"list"`
	}
	variable struct {
		Name  string `json:"name"`
		Label string `json:"label"`
		Type  string `json:"type"`
		Query string `json:"query"`
	}
	panel struct {
		ID          int          `json:"id"`
		Type        string       `json:"type"`
		Title       string       `json:"title"`
		Description string       `json:"description,omitempty"`
		GridPos     position     `json:"gridPos"`
		Collapsed   *bool        `json:"collapsed,omitempty"`
		Panels      []panel      `json:"panels,omitempty"`
		Datasource  *source      `json:"datasource,omitempty"`
		FieldConfig *fieldConfig `json:"fieldConfig,omitempty"`
		Options     *options     `json:"options,omitempty"`
		Targets     []target     `json:"targets,omitempty"`
	}
	position struct {
		H int `json:"h"`
		W int `json:"w"`
		X int `json:"x"`
		Y int `json:"y"`
	}
	source struct {
		Type string `json:"type"`
		UID  string `json:"uid"`
	}
	fieldConfig struct {
		Defaults  defaults   `json:"defaults"`
		Overrides []override `json:"overrides"`
	}
	defaults struct {
		Unit string         `json:"unit"`
		Min  int            `json:"min"`
		Look map[string]any `json:"custom"`
	}
	override struct {
		Matcher    match      `json:"matcher"`
		Properties []property `json:"properties"`
	}
	match struct {
		ID      string `json:"id"`
		Options string `json:"options"`
	}
	property struct {
		ID    string `json:"id"`
		Value any    `json:"value"`
	}
	options struct {
		Legend  map[string]any `json:"legend"`
		Tooltip map[string]any `json:"tooltip"`
	}
	target struct {
		RefID        string `json:"refId"`
		Datasource   source `json:"datasource"`
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	}
)

// schemaVersion is that of Grafana 11; later versions migrate it.
const schemaVersion = 39

// prometheus is the data source that the user chooses at the top of the dashboard.
var prometheus = source{"prometheus", "${datasource}"}

// Grafana returns a dashboard as JSON, to import or to provision: a row for all limits together, and one for each limit,
// with its rate and capacity as lines.
func Grafana(f *spec.File) ([]byte, error) {
	name := title(f)
	b := board{
		UID: uid(name), Title: "Rate limits: " + name, Tags: []string{"ratelimitgen"}, SchemaVersion: schemaVersion,
		Description: "The limits of " + f.Name + ". Printed by ratelimitgen dashboard: print it again when the limits change.",
		Editable:    true, Refresh: "30s", Time: interval{"now-6h", "now"},
		Templating: templating{[]variable{{"datasource", "Data source", "datasource", "prometheus"}}},
	}
	var l layout
	l.row("All limits")
	l.add(overview(f)...)
	for _, limit := range f.Limits {
		l.row(limit.Policy.Name)
		l.add(panelsOf(limit)...)
	}
	b.Panels = l.panels
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(b)
	return out.Bytes(), err
}

func title(f *spec.File) string {
	if f.Package != "" {
		return f.Package
	}
	return "limits"
}

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

// layout places panels in rows of three, and numbers them.
type layout struct {
	panels []panel
	y      int
}

const (
	columns     = 24
	panelHeight = 8
)

func (l *layout) row(title string) {
	open := false
	l.place(panel{Type: "row", Title: title, Collapsed: &open, GridPos: position{1, columns, 0, l.y}})
	l.y++
}

func (l *layout) add(panels ...panel) {
	width := columns / len(panels)
	for i, p := range panels {
		p.GridPos = position{panelHeight, width, i * width, l.y}
		l.place(p)
	}
	l.y += panelHeight
}

func (l *layout) place(p panel) {
	p.ID = len(l.panels) + 1
	l.panels = append(l.panels, p)
}

// series is a query and the name of its lines.
type series struct{ expr, legend string }

func graph(title, description, unit string, all ...series) panel {
	p := panel{
		Type: "timeseries", Title: title, Description: description, Datasource: &prometheus,
		FieldConfig: &fieldConfig{Defaults: defaults{Unit: unit, Look: map[string]any{"fillOpacity": 10, "showPoints": "never"}}, Overrides: []override{}},
		Options: &options{
			Legend:  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
			Tooltip: map[string]any{"mode": "multi", "sort": "desc"},
		},
	}
	for i, s := range all {
		p.Targets = append(p.Targets, target{refID(i), prometheus, s.expr, s.legend})
	}
	return p
}

// refID returns A, B, …, Z, AA, AB and so on.
func refID(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return refID(i/26-1) + refID(i%26)
}

// dashed draws the lines of that name dashed: they are a bound, and no measurement.
func (p panel) dashed(legend string) panel {
	p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, override{
		Matcher: match{"byName", legend},
		Properties: []property{
			{"custom.lineStyle", map[string]any{"fill": "dash", "dash": []int{10, 10}}},
			{"custom.fillOpacity", 0},
		},
	})
	return p
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

func isLimit(name string) string { return observe.LabelLimit + "=" + strconv.Quote(name) }

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
var taking = []runtime.Outcome{runtime.OutcomeAllowed, runtime.OutcomeDelayed, runtime.OutcomeShadowDelayed, runtime.OutcomeCharged}

func overview(f *spec.File) []panel {
	var durations []series
	for _, q := range []string{"0.5", "0.95", "0.99"} {
		percent := strings.TrimPrefix(q, "0.") + "0"
		durations = append(durations, series{quantile(q, "$__rate_interval"), percent[:2] + " %"})
	}
	return []panel{
		graph("Requests by outcome", "All limits together. A call of several limits is a request of each.", "reqps",
			series{rate(observe.Requests, observe.LabelOutcome), "{{outcome}}"}),
		graph("Denied by limit", "", "reqps", series{rate(observe.Requests, observe.LabelLimit, outcomes(runtime.OutcomeDenied)), "{{limit}}"}),
		graph("Time in the store", "Half, 95 % and 99 % of the calls take at most as long. Calls that are answered from memory are not included.", "s", durations...),
		graph("Failures of the store", "Requests for which the store has failed: error is returned to the caller, failed_open passes uncounted, and failed_local is decided from the memory of the process.", "reqps",
			series{rate(observe.Requests, observe.LabelLimit+", "+observe.LabelOutcome, outcomes(failed...)), "{{limit}}: {{outcome}}"}),
	}
}

// quantile is a quantile of the time in the store.
func quantile(q, window string) string {
	return fmt.Sprintf("histogram_quantile(%s, sum by (le) (rate(%s_bucket[%s])))", q, observe.StoreDuration.Prometheus(), window)
}

func panelsOf(l *spec.Limit) []panel {
	name := isLimit(l.Policy.Name)
	keys := graph("Near the limit, and denied", "Keys: how many different ones were denied in the last minute, in the process that has denied most. Near: requests per second that left less than a tenth of the capacity.", "short",
		series{"max(" + selector(observe.DeniedKeys.Prometheus(), name) + ")", "keys denied"},
		series{rate(observe.Near, "", name), "near"})
	about := strings.Join(fields.WordsOf(l), " ")
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
	seconds := strconv.FormatFloat(l.Policy.Period.Seconds(), 'f', -1, 64)
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
		p = p.dashed(line.legend)
	}
	return p
}

// slots shows how many slots are acquired, released and lost per second: while as many are released as acquired, none leaks.
func slots(l *spec.Limit, name string) panel {
	var most []string
	for _, of := range l.Each() {
		most = append(most, strings.TrimSpace(of.Plan+" "+words.Number(of.Policy.Capacity)))
	}
	perSecond := func(some ...runtime.Outcome) string { return rate(observe.Tokens, "", name, outcomes(some...)) }
	return graph("Slots per second", "Slots that all keys together acquire, release and lose per second. A slot that is lost was held for longer than its hold, "+
		words.Duration(l.Policy.Period)+", without being renewed; one that is neither released nor lost belongs to a process that has crashed. At once, "+
		words.Holder(spec.PartNames(l.Key))+" can hold "+words.List(most, "or")+".", "short",
		series{perSecond(taking...), "acquired"}, series{perSecond(runtime.OutcomeReleased), "released"}, series{perSecond(runtime.OutcomeSlotLost), "lost"})
}

// atMost is "at most " for a number that callers give.
func atMost(most int64) string {
	if most > 0 {
		return "at most "
	}
	return ""
}

// lines are the rate and the capacity of a limit, in each plan.
func lines(l *spec.Limit, seconds string) (all []series) {
	for _, of := range l.Each() {
		p := &of.Policy
		if of.Unlimited() {
			continue
		}
		plan := ""
		if of.Plan != "" {
			plan = of.Plan + ": "
		}
		perPeriod := strconv.FormatInt(p.Rate, 10)
		if own := strconv.FormatFloat(p.Period.Seconds(), 'f', -1, 64); own != seconds {
			// A plan with a period of its own is drawn in that of the panel.
			perPeriod += " / " + own + " * " + seconds
		}
		all = append(all, series{"vector(" + perPeriod + ")", fmt.Sprintf("%srate, %s%s per %s", plan, atMost(p.AtMost.Rate), words.Number(p.Rate), fields.PeriodOf(p))})
		if p.Capacity != p.Rate && p.Capacity > 0 {
			all = append(all, series{fmt.Sprintf("vector(%d)", p.Capacity), fmt.Sprintf("%scapacity, %s%s", plan, atMost(p.AtMost.Capacity), words.Number(p.Capacity))})
		}
	}
	return slices.Clip(all)
}
