package operate_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/operate"
)

// A limit that only counts has no tokens left to show: operators see the use of each key.
func TestShowsWhatIsUsedOfAnUnlimitedRate(t *testing.T) {
	builds := &runtime.Policy{Name: "builds", Kind: runtime.FixedWindow, Rate: runtime.MaxTokens, Capacity: runtime.MaxTokens, Period: time.Hour, Start: runtime.StartOffset(0)}
	store := &memstore.Store{Clock: func() time.Time { return start }}
	for org, n := range map[int64]int64{7: 1_234, 8: 5} {
		_, err := limiter.New(store).Limit(builds, runtime.KeyOf(runtime.Int64(org))).AllowN(t.Context(), n)
		require.NoError(t, err)
	}
	p := operate.Program{Store: store, Catalog: &runtime.Catalog{Limits: []runtime.CatalogLimit{
		{Name: "builds", Key: []runtime.CatalogKey{{Name: "org", Type: "int64"}}, Policies: []*runtime.Policy{builds}},
	}}}
	for command, want := range map[string]string{
		"top": "LIMIT   PLAN  KEY  LEFT       CAPACITY   FULL IN  IN FORCE\n" +
			"builds  -     7    1234 used  unlimited  30m0s    -\n" +
			"builds  -     8    5 used     unlimited  30m0s    -\n",
		"show builds 7": "builds, key 7\n  unlimited, 1,234 used, window ends in 30m0s\n",
	} {
		var out bytes.Buffer
		assert.Equal(t, operate.OK, p.Main(context.Background(), strings.Fields(command), &out, &out))
		assert.Contains(t, out.String(), want, command)
	}
}
