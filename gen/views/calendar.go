package views

import (
	"fmt"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// The windows of a calendar depend on data about time zones that most databases do not have, or have in another version
// than the program. So they are computed here, by the calendar itself, for these years.
const (
	firstYear = 2025
	lastYear  = 2049
)

// run is some windows of equal length of a limit, in nanoseconds since 1970 UTC.
type run struct {
	name                 string
	since, until, length int64
}

// runsOf returns the windows of a policy with a calendar that is the same for all keys.
func runsOf(p *runtime.Policy) (runs []run) {
	rule := p.Rule("")
	begin := time.Date(firstYear, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	end := time.Date(lastYear+1, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	for since := rule.WindowEnd(begin); since < end; {
		until := rule.WindowEnd(since)
		if last := len(runs) - 1; last >= 0 && runs[last].length == until-since {
			runs[last].until = until
		} else {
			runs = append(runs, run{p.Name, since, until, until - since})
		}
		since = until
	}
	return runs
}

// windowsView returns the SELECT of the view of the windows. The columns of VALUES have other names on each database, so
// that the first row is a SELECT.
func (w words) windowsView(runs []run) string {
	var b strings.Builder
	for i, r := range runs {
		switch i {
		case 0:
			fmt.Fprintf(&b, "SELECT '%s' AS name, %d AS since, %d AS until, %d AS length", r.name, r.since, r.until, r.length)
			continue
		case 1:
			b.WriteString("\nUNION ALL VALUES\n")
		default:
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, "\t%s('%s', %d, %d, %d)", w.row, r.name, r.since, r.until, r.length)
	}
	return b.String()
}
