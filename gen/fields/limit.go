package fields

import (
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// limitFields are the fields of one limit, in the order in which people read them.
var limitFields = []limitField{
	docField,
	keyField,
	kindField,
	rateField,
	countField,
	periodField,
	zoneField,
	capacityField,
	holdField,
	maxReservedField,
	startField,
	preciseField,
	shardsField,
	modeField,
	penaltyField,
	forgiveField,
	timeoutField,
	onErrorField,
	jitterField,
	denyCacheField,
	leaseField,
	durabilityField,
	pricesField,
	overridesField,
	exceptionsField,
	prioritiesField,
	goNameField,
}

// limitSnippet is a limit that editors complete.
var limitSnippet = object{"kind": "${1:token bucket}", "rate": "^${2:10}", "period": "${3:1m}"}

func limitSchema() object {
	schema := mapSchema(limitFields)
	var conditions []any
	for _, f := range limitFields {
		conditions = append(conditions, f.conditions...)
	}
	schema["allOf"] = conditions
	schema["defaultSnippets"] = []any{object{"label": "limit", "body": limitSnippet}}
	return schema
}

// Sentences returns a limit without plans, or one plan, in sentences: its rule, and the others, the most important first.
func Sentences(l *spec.Limit) (rule string, sentences []string) {
	m := l.Policy.Mode
	switch {
	case l.Unlimited():
		return "Unlimited: every request is allowed, and none is counted.", nil
	case l.UnlimitedRate:
		rule = "Unlimited when it is not blocked."
	case l.Zero():
		return spec.Capital(NumberOf(l)) + " 0: every request is denied.", ModeWords(l)
	default:
		rule = ruleSentence(l)
	}
	if m != runtime.ModeEnforce && m != runtime.ModeShadow {
		// The other fields have no effect.
		return rule, append(ModeWords(l), keySentences(l)...)
	}
	for _, f := range limitFields {
		if f.sentences != nil {
			sentences = append(sentences, f.sentences(l)...)
		}
	}
	return rule, append(sentences, keySentences(l)...)
}
