package fields

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/ids"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var warnField = limitField{
	name: "warn", synonyms: []string{"warnat", "warnings", "warning", "alert", "alerts", "alertat", "notify", "notifyat", "threshold", "thresholds", "softlimit"},
	about:     "Parts of the capacity in force at which the limit warns. The request that passes such a part has it as `Crossed` in its decision; `limiter.OnWarn`, observers and a metric have it too.",
	accepts:   fmt.Sprintf("a percentage from 1%% to 100%%, or a list of up to %d, the smallest first; not with capacity 0", runtime.MaxThresholds),
	absent:    "none",
	example:   "[80%, 100%]",
	schema:    warnSchema,
	read:      (*parser).readWarn,
	check:     (*parser).checkWarn,
	change:    ids.WarnChanged,
	effective: func(l *spec.Limit) string { return l.Policy.Warn.String() },
	sentences: warnSentences,
}

const warnHelp = "write percentages such as warn: [80%, 100%]"

// percentForm is a percentage as the file has it.
var percentForm = regexp.MustCompile(`^([1-9][0-9]?|100)%$`)

// warnSchema is the schema of a percentage, or of a list of them.
var warnSchema = object{
	"type": []string{"string", "array"}, "pattern": percentForm.String(),
	"minItems": 1, "maxItems": runtime.MaxThresholds, "uniqueItems": true,
	"items": object{
		"type": "string", "pattern": percentForm.String(), "patternErrorMessage": "Write a percentage from 1% to 100%.",
		"defaultSnippets": []any{object{"label": "80%", "body": "80%"}},
	},
	"defaultSnippets": []any{object{"label": "80%", "body": "80%"}, object{"label": "[80%, 100%]", "body": []string{"80%", "100%"}}},
}

// readWarn reads the thresholds.
func (p *parser) readWarn(l *draft, e document.Entry) bool {
	items := []*yaml.Node{e.Value}
	if e.Value.Kind == yaml.SequenceNode {
		items = e.Value.Content
	}
	switch n := len(items); {
	case n == 0:
		p.doc.Report(e.At, ids.BadWarn, warnHelp, "warn must not be empty")
		return false
	case n > runtime.MaxThresholds:
		p.doc.Report(e.At, ids.BadWarn, "leave some out", "warn has at most %d percentages, not %d", runtime.MaxThresholds, n)
		return false
	}
	all := true
	var thresholds runtime.Thresholds
	for i, item := range items {
		if p.doc.Muted(item) {
			all = false
			continue
		}
		percent, ok := p.readPercent(item)
		if ok && i > 0 && percent <= thresholds[i-1] {
			p.doc.Report(p.doc.Source.At(item), ids.BadWarn, "begin with the smallest, each once",
				"warn must ascend: %d%% is after %d%%", percent, thresholds[i-1])
			ok = false
		}
		thresholds[i], all = percent, all && ok
	}
	l.policy.Warn = thresholds
	return all
}

// readPercent reads a percentage, or reports another value.
func (p *parser) readPercent(n *yaml.Node) (uint8, bool) {
	text := n.Value
	if document.IsString(n) && percentForm.MatchString(text) {
		percent, _ := strconv.Atoi(strings.TrimSuffix(text, "%"))
		return uint8(percent), true
	}
	at := p.doc.Source.At(n)
	if f, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64); err == nil && (f <= 0 || f > 100) {
		p.doc.Report(at, ids.BadWarn, warnHelp, "warn must be 1%% to 100%% of the capacity, not %s", document.Describe(n))
		return 0, false
	}
	p.doc.Report(at, ids.BadWarn, warnHelp, "warn must be a whole percentage such as 80%%, not %s", document.Describe(n))
	p.doc.Offer(meantPercent(n, percentForm))
	return 0, false
}

// meantPercent returns the percentage of a form that a number probably means: 80 and 0.8 mean 80%. It is "" for other
// values.
func meantPercent(n *yaml.Node, form *regexp.Regexp) string {
	f, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(n.Value, "%")), 64)
	if n.Kind != yaml.ScalarNode || err != nil {
		return ""
	}
	if f <= 1 && strings.Contains(n.Value, ".") && !strings.HasSuffix(n.Value, "%") {
		f *= 100
	}
	if text := strconv.FormatFloat(f, 'f', -1, 64) + "%"; form.MatchString(text) {
		return text
	}
	return ""
}

// checkWarn reports thresholds of a limit whose tokens can only be reserved.
func (p *parser) checkWarn(l *draft) {
	capacity, ok := l.given["capacity"]
	if warn, given := l.given["warn"]; ok && given && l.policy.Kind != runtime.InFlight && l.policy.Capacity == 0 {
		p.doc.Report(warn.At, ids.BadWarn, "leave warn out, or raise capacity",
			"a limit with capacity 0 has nothing of which a part could be used")
		p.doc.Note(capacity.At, "capacity is given here")
	}
}

// Thresholds lists how many tokens or slots are used at each threshold of a policy: "16 tokens (80%)". If callers give the
// capacity, that is not known, and the text is "80%".
func Thresholds(p *runtime.Policy) (list []string) {
	for _, percent := range p.Warn[:p.Warn.Len()] {
		text := fmt.Sprintf("%d%%", percent)
		if p.AtMost.Full() == 0 {
			text = fmt.Sprintf("%s (%s)", words.Count(ceilPercent(percent, p.Full()), spec.Unit(p)), text)
		}
		list = append(list, text)
	}
	return list
}

// ceilPercent returns a percentage of a capacity, rounded up.
func ceilPercent(percent uint8, full int64) int64 { return (int64(percent)*full + 99) / 100 }

func warnSentences(l *spec.Limit) []string {
	p := &l.Policy
	if p.Warn.Len() == 0 {
		return nil
	}
	about := ""
	if p.Shards > 1 {
		about = "about "
	}
	sentence := fmt.Sprintf("Warns when %s%s of the capacity are used.", about, words.List(Thresholds(p), "and"))
	if p.Lease != (runtime.Lease{}) {
		sentence += " Leased tokens count as used."
	}
	return []string{sentence}
}
