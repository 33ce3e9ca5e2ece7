package spec

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEveryRuleShowsWhatItSays(t *testing.T) {
	for _, rule := range Rules() {
		if rule.Wrong == "" {
			continue
		}
		t.Run(rule.ID, func(t *testing.T) {
			_, wrong := Parse("limits.yaml", []byte(rule.Wrong))
			assert.Contains(t, ids(wrong), rule.ID)
			_, right := Parse("limits.yaml", []byte(rule.Right))
			assert.Empty(t, right)
			assert.NotEmpty(t, rule.Summary)
		})
	}
}

// ids returns the ids of the diagnostics.
func ids(ds Diagnostics) []string {
	var ids []string
	for _, d := range ds {
		ids = append(ids, d.ID)
	}
	return ids
}
