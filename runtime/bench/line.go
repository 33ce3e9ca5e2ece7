package main

// line is what something costs that is done to a number of rows, in seconds: Fixed, and PerRow more for each.
type line struct {
	Fixed  float64 `json:"fixed"`
	PerRow float64 `json:"perRow"`
}

// fit returns the line with the least squares of the errors, each as a part of what was measured: so what is
// cheap counts as much as what is dear. Two different numbers of rows are the least that it needs.
func fit(rows, seconds []float64) line {
	var w, x, y, xx, xy float64
	for i, n := range rows {
		weight := 1 / (seconds[i] * seconds[i])
		w += weight
		x += weight * n
		y += weight * seconds[i]
		xx += weight * n * n
		xy += weight * n * seconds[i]
	}
	perRow := (w*xy - x*y) / (w*xx - x*x)
	return line{Fixed: (y - perRow*x) / w, PerRow: perRow}
}
