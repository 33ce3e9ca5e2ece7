package review

import (
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// Within returns the most tokens that one key can use in an interval of length t: see [spec.Within].
func Within(p *runtime.Policy, t time.Duration) int64 { return spec.Within(p, t) }
