package explain

import (
	"fmt"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/meter"
)

// nextWindows is how many windows of a calendar a page lists.
const nextWindows = 4

// windows adds the windows of a calendar that begin after an instant, with their lengths, which differ.
func (p *Page) windows(policy *runtime.Policy, after time.Time) {
	c := policy.Calendar
	if c.Unit == 0 {
		return
	}
	if canonical := fields.CanonicalZone(c.Zone); canonical != "" && c.Zone != "UTC" {
		p.add("zone", fmt.Sprintf("%s is another name of %s.", c.Zone, canonical))
	}
	key, rule := "", meter.RuleOf(policy, "")
	if c.PerKey() {
		q := runtime.Request{Policy: policy}
		if c.ZonePerKey {
			key, q.Zone = ", of a key in UTC", time.UTC
		}
		if c.Anniversary {
			// The last day of January shows what happens in shorter months.
			q.Anniversary = runtime.Date{Year: after.Year() - 1, Month: time.January, Day: 31}
			key += fmt.Sprintf(", of a key with the anniversary %v", q.Anniversary)
		}
		rule = rule.For(q)
	}
	zone := time.UTC
	if !c.ZonePerKey {
		// The policy is valid, so that the zone exists.
		zone, _ = time.LoadLocation(c.Zone)
	}
	var rows [][]string
	start := rule.WindowEnd(after.UnixNano())
	for range nextWindows {
		end := rule.WindowEnd(start)
		begins := time.Unix(0, start).In(zone)
		rows = append(rows, []string{begins.Format("Mon 2006-01-02 15:04 -07:00"), words.Duration(time.Duration(end - start))})
		start = end
	}
	p.table("windows", fmt.Sprintf("the next %d after %s%s", nextWindows, after.In(zone).Format("2006-01-02 15:04 -07:00"),
		key), Table{Rows: rows, align: "lr"})
}
