package gen

import (
	"strconv"
	"time"

	"github.com/dave/jennifer/jen"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// tokens is a number of tokens, with its digits in groups of three if there are more than four: 40_000.
func tokens(n int64) *jen.Statement {
	digits := strconv.FormatInt(n, 10)
	if len(digits) > 4 {
		for i := len(digits) - 3; i > 0; i -= 3 {
			digits = digits[:i] + "_" + digits[i:]
		}
	}
	return jen.Op(digits)
}

var units = []struct {
	length time.Duration
	name   string
}{
	{time.Hour, "Hour"},
	{time.Minute, "Minute"},
	{time.Second, "Second"},
	{time.Millisecond, "Millisecond"},
	{time.Microsecond, "Microsecond"},
	{time.Nanosecond, "Nanosecond"},
}

// duration is a length of time in the longest unit that divides it: time.Minute, 90 * time.Second.
func duration(d time.Duration) *jen.Statement {
	if d == 0 {
		return jen.Lit(0)
	}
	i := 0
	for d%units[i].length != 0 {
		i++
	}
	unit := jen.Qual(timePath, units[i].name)
	if n := int64(d / units[i].length); n != 1 {
		return jen.Op(strconv.FormatInt(n, 10)).Op("*").Add(unit)
	}
	return unit
}

// start says where the windows begin, as the author is likely to have written it: beyond a year, an offset
// from 1970 was a date.
func start(s runtime.Start) *jen.Statement {
	const year = 365 * 24 * time.Hour
	offset, _ := s.Offset()
	switch {
	case s.FirstUse():
		return jen.Qual(runtimePath, "StartFirstUse").Call()
	case offset.Abs() < year:
		return jen.Qual(runtimePath, "StartOffset").Call(duration(offset))
	}
	return jen.Qual(runtimePath, "StartAt").Call(date(time.Unix(0, int64(offset)).UTC()))
}

// date is an instant: time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC).
func date(t time.Time) *jen.Statement {
	return jen.Qual(timePath, "Date").Call(
		jen.Lit(t.Year()), jen.Qual(timePath, t.Month().String()), jen.Lit(t.Day()),
		jen.Lit(t.Hour()), jen.Lit(t.Minute()), jen.Lit(t.Second()), jen.Lit(t.Nanosecond()),
		jen.Qual(timePath, "UTC"),
	)
}
