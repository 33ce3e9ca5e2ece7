package dashboard

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/observe"
)

// The model of a rule file of Prometheus.
type (
	rules struct {
		Groups []ruleGroup `yaml:"groups"`
	}
	ruleGroup struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	}
	rule struct {
		Alert       string            `yaml:"alert"`
		Expr        string            `yaml:"expr"`
		For         string            `yaml:"for"`
		Labels      map[string]string `yaml:"labels"`
		Annotations annotations       `yaml:"annotations"`
	}
	annotations struct {
		Summary     string `yaml:"summary"`
		Description string `yaml:"description"`
	}
)

// Alerts returns a rule file for Prometheus, as YAML.
func Alerts(f *spec.File) ([]byte, error) {
	group := ruleGroup{Name: "ratelimitgen-" + title(f), Rules: []rule{storeFails(), storeIsSlow(f)}}
	// A blocked limit denies everything, and one that is off nothing.
	if limits := inMode(f, runtime.ModeEnforce); len(limits) > 0 {
		group.Rules = append(group.Rules, deniesMost(limits))
	}
	if limits := inMode(f, runtime.ModeShadow); len(limits) > 0 {
		group.Rules = append(group.Rules, wouldDeny(limits))
	}
	var out bytes.Buffer
	out.WriteString("# Alert rules for the limits, by ratelimitgen dashboard -alerts. Print them again when the limits change.\n")
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(rules{[]ruleGroup{group}}); err != nil {
		return nil, err
	}
	return out.Bytes(), e.Close()
}

// inMode returns the names of the limits that have a mode in at least one plan.
func inMode(f *spec.File, mode runtime.Mode) (names []string) {
	for _, l := range f.Limits {
		for _, of := range l.Each() {
			if of.Policy.Mode == mode {
				names = append(names, l.Policy.Name)
				break
			}
		}
	}
	return names
}

func amongLimits(names []string) string {
	return observe.LabelLimit + "=~" + strconv.Quote(strings.Join(words.Of(names, regexp.QuoteMeta), "|"))
}

// perLimit is the rate of requests by limit in a window.
func perLimit(window string, matchers ...string) string {
	return fmt.Sprintf("sum by (%s) (rate(%s[%s]))", observe.LabelLimit, selector(observe.Requests.Prometheus(), matchers...), window)
}

func storeFails() rule {
	return rule{
		Alert:  "RateLimitStoreFails",
		Expr:   perLimit("5m", outcomes(failed...)) + " > 0",
		For:    "2m",
		Labels: map[string]string{"severity": "critical"},
		Annotations: annotations{
			Summary: "The store of the limit {{ $labels.limit }} fails",
			Description: "{{ $value | humanize }} requests per second are not decided by the store: by onError of the limit they fail, pass " +
				"uncounted, or are decided from the memory of each process.",
		},
	}
}

// slow is the time in the store from which it counts as slow, if no limit has a timeout.
const slow = 500 * time.Millisecond

func storeIsSlow(f *spec.File) rule {
	most, because := slow, ""
	for _, l := range f.Limits {
		for _, of := range l.Each() {
			if t := of.Policy.Timeout; t > 0 && (because == "" || t/2 < most) {
				most, because = t/2, fmt.Sprintf(" The limit %s has a timeout of %v.", l.Policy.Name, t)
			}
		}
	}
	return rule{
		Alert:  "RateLimitStoreSlow",
		Expr:   quantile("0.99", "5m") + " > " + strconv.FormatFloat(most.Seconds(), 'f', -1, 64),
		For:    "10m",
		Labels: map[string]string{"severity": "warning"},
		Annotations: annotations{
			Summary:     "The store of the limits is slow",
			Description: "1 % of the calls take longer than {{ $value | humanizeDuration }}." + because,
		},
	}
}

func deniesMost(limits []string) rule {
	among := amongLimits(limits)
	decided := outcomes(runtime.OutcomeAllowed, runtime.OutcomeDelayed, runtime.OutcomeChecked, runtime.OutcomeDenied)
	return rule{
		Alert:  "RateLimitDeniesMost",
		Expr:   perLimit("15m", among, outcomes(runtime.OutcomeDenied)) + " / " + perLimit("15m", among, decided) + " > 0.5",
		For:    "15m",
		Labels: map[string]string{"severity": "warning"},
		Annotations: annotations{
			Summary: "The limit {{ $labels.limit }} denies most requests",
			Description: "{{ $value | humanizePercentage }} of the requests are denied: an attack, a client that retries without waiting, " +
				"or a limit that is too low.",
		},
	}
}

func wouldDeny(limits []string) rule {
	return rule{
		Alert:  "RateLimitShadowWouldDeny",
		Expr:   perLimit("1h", amongLimits(limits), outcomes(runtime.OutcomeShadowDenied)) + " > 0",
		For:    "1h",
		Labels: map[string]string{"severity": "info"},
		Annotations: annotations{
			Summary:     "The limit {{ $labels.limit }} would deny requests, but is in shadow mode",
			Description: "{{ $value | humanize }} requests per second would be denied by mode: enforce.",
		},
	}
}
