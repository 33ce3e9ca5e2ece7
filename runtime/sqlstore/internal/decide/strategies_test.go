package decide

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPackageCommentListsTheStrategies(t *testing.T) {
	source, err := os.ReadFile("../../store.go")
	require.NoError(t, err)
	comment, _, _ := strings.Cut(string(source), "\npackage sqlstore")
	_, list, _ := strings.Cut(strings.Join(strings.Fields(strings.ReplaceAll(comment, "//", "")), " "), "a table of strategies")
	require.NotEmpty(t, list)
	for _, s := range strategies {
		at := strings.Index(list, s.name)
		if assert.GreaterOrEqual(t, at, 0, "%q, in this order", s.name) {
			list = list[at+len(s.name):]
		}
	}
}
