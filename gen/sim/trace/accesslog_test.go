package trace

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestQuotedFieldOfAnAccessLogEndsAtAQuoteWithoutBackslash(t *testing.T) {
	list, err := splitAccess([]byte(`a "b \" c" "d\\" e`), nil)
	require.NoError(t, err)
	var texts []string
	for _, f := range list {
		texts = append(texts, string(f.text))
	}
	assert.Equal(t, []string{"a", `b \" c`, `d\\`, "e"}, texts)
	_, err = splitAccess([]byte(`a "b\"`), nil)
	assert.ErrorContains(t, err, "a quoted field without a closing quote")
}
