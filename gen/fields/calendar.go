package fields

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var calendarForm = regexp.MustCompile(`^(day|week|month|year|[1-9][0-9]{0,3} (days?|weeks?|months?|years?))$`)

// parseCalendar returns the calendar of a period such as "month" or "3 months", or false for another text.
func parseCalendar(text string) (c runtime.Calendar, ok bool) {
	if !calendarForm.MatchString(text) {
		return c, false
	}
	count, unit, several := strings.Cut(text, " ")
	if !several {
		count, unit = "1", text
	}
	// One unit has one form, so that equal limits have equal policies.
	if c.Count, _ = strconv.Atoi(count); c.Count == 1 {
		c.Count = 0
	}
	c.Unit, _ = diag.Named(runtime.CalendarUnits(), strings.TrimSuffix(unit, "s"))
	return c, true
}

// unitsOf is a number of calendar units as a period has it.
func unitsOf(count int64, unit string) string {
	if count == 1 {
		return unit
	}
	return strconv.FormatInt(count, 10) + " " + unit + "s"
}

func calendarPeriod(c runtime.Calendar) string {
	if c.Count > 1 {
		return fmt.Sprintf("%d %ss", c.Count, c.Unit)
	}
	return c.Unit.String()
}

// fixedLength is a duration that is about as long as a window.
func fixedLength(c runtime.Calendar) string {
	days := map[runtime.CalendarUnit]int{runtime.Day: 1, runtime.Week: 7, runtime.Month: 30, runtime.Year: 365}
	return strconv.Itoa(days[c.Unit]*max(1, c.Count)) + "d"
}

// aboutUnits are the lengths that people write for a unit of the calendar.
var aboutUnits = map[time.Duration]runtime.CalendarUnit{
	words.Day: runtime.Day, words.Week: runtime.Week, 30 * words.Day: runtime.Month, 31 * words.Day: runtime.Month, 365 * words.Day: runtime.Year,
}
