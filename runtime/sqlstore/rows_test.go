package sqlstore

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// TestJSON writes rows in each of the forms that dialects take.
func TestJSON(t *testing.T) {
	_, v := bind([]stored{
		{runtime.Row{Name: "a", Key: `"\`, Shard: 2}, runtime.State{Value: -0.1, TS: 7, Prev: 3}},
		{runtime.Row{Name: "b"}, runtime.State{Value: 1e300, TS: -1}},
	})
	assert.Equal(t, `[["a","\"\\",2,"-0.1",7,"3"],["b","",0,"1e+300",-1,"0"]]`, v.arg(paramRows))
	assert.Equal(t, `[["a","\"\\",2],["b","",0]]`, v.arg(paramIDs))
	assert.Equal(t, `[["\"\\","-0.1",7],["","1e+300",-1]]`, v.arg(paramTakes))
}
