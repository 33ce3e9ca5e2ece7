package sim

// ink is the escape codes around the parts of a report; the zero ink has none.
type ink struct{ bold, faint, green, yellow, red, off string }

var colored = ink{bold: "\x1b[1m", faint: "\x1b[2m", green: "\x1b[32m", yellow: "\x1b[33m", red: "\x1b[31m", off: "\x1b[0m"}

func inkOf(color bool) ink {
	if color {
		return colored
	}
	return ink{}
}
