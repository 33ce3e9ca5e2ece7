package dashboard

import (
	"bytes"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/observe"
)

//go:embed alerts.yaml.tmpl
var alertsText string

// The delimiters differ from those of Prometheus, whose templates are in the text.
var alertsTemplate = template.Must(template.New("alerts").Delims("[[", "]]").Parse(alertsText))

// queries are what the alert rules compare. Those that no limit needs are empty.
type queries struct {
	Title string
	// Failing are the requests that the store does not decide, and InStore is the time of the slowest calls.
	Failing, InStore string
	// Slow is the time in seconds from which a call is slow, and Because says which limit it comes from.
	Slow, Because string
	// Denied and Decided are of the limits that are enforced, and WouldDeny of those in shadow mode.
	Denied, Decided, WouldDeny string
}

// Alerts returns a rule file for Prometheus, as YAML.
func Alerts(f *spec.File) ([]byte, error) {
	q := queries{Title: title(f), Failing: perLimit("5m", outcomes(failed...)), InStore: quantile("0.99", "5m")}
	q.Slow, q.Because = slowFrom(f)
	// A blocked limit denies everything, and one that is off nothing.
	if among := inMode(f, runtime.ModeEnforce); among != "" {
		q.Denied = perLimit("15m", among, outcomes(runtime.OutcomeDenied))
		q.Decided = perLimit("15m", among, outcomes(runtime.OutcomeAllowed, runtime.OutcomeDelayed, runtime.OutcomeChecked,
			runtime.OutcomeDenied))
	}
	if among := inMode(f, runtime.ModeShadow); among != "" {
		q.WouldDeny = perLimit("1h", among, outcomes(runtime.OutcomeShadowDenied))
	}
	var out bytes.Buffer
	err := alertsTemplate.Execute(&out, q)
	return out.Bytes(), err
}

// inMode matches the limits that have a mode in at least one plan. It is empty if no limit has.
func inMode(f *spec.File, mode runtime.Mode) string {
	var names []string
	for _, l := range f.Limits {
		if slices.ContainsFunc(l.Each(), func(of *spec.Limit) bool { return of.Policy.Mode == mode }) {
			names = append(names, regexp.QuoteMeta(l.Policy.Name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return observe.LabelLimit + "=~" + strconv.Quote(strings.Join(names, "|"))
}

// perLimit is the rate of requests by limit in a window.
func perLimit(window string, matchers ...string) string {
	return fmt.Sprintf("sum by (%s) (rate(%s[%s]))", observe.LabelLimit, selector(observe.Requests.Prometheus(), matchers...), window)
}

// slowFrom returns the time in the store from which a call counts as slow, in seconds: half of the shortest timeout. It says
// which limit has that.
func slowFrom(f *spec.File) (seconds, because string) {
	most := 500 * time.Millisecond
	for _, l := range f.Limits {
		for _, of := range l.Each() {
			if t := of.Policy.Timeout; t > 0 && (because == "" || t/2 < most) {
				most, because = t/2, fmt.Sprintf(" The limit %s has a timeout of %v.", l.Policy.Name, t)
			}
		}
	}
	return decimal(most), because
}
