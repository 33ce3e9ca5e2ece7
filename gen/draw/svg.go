package draw

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
)

// The measures of pictures, in pixels at the size that a page shows them on a desktop.
const (
	width = 480
	// left leaves room for the labels of the vertical axis.
	left, right, top = 66, 470, 22
	plotHeight       = 120
	bottom           = top + plotHeight
)

// svg is a picture that is being drawn.
type svg struct {
	strings.Builder
}

// begin writes the start tag, and the texts for readers who do not see the picture.
func begin(height int, title, text string) *svg {
	s := new(svg)
	s.WriteString(`<svg class="rl" role="img" viewBox="0 0 ` + strconv.Itoa(width) + " " + strconv.Itoa(height) + `">`)
	s.WriteString("<title>" + escape(title) + "</title><desc>" + escape(text) + "</desc>")
	return s
}

func (s *svg) end() string {
	s.WriteString("</svg>")
	return s.String()
}

var xmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

func escape(text string) string { return xmlEscapes.Replace(text) }

// path draws a path of a class. An empty one is left out.
func (s *svg) path(class, d string) {
	if d != "" {
		s.WriteString(`<path class="` + class + `" d="` + d + `"/>`)
	}
}

// label writes a text of a class at a place.
func (s *svg) label(class string, x, y float64, text string) {
	s.WriteString(`<text class="` + class + `" x="` + num(x) + `" y="` + num(y) + `">` + escape(text) + "</text>")
}

// num writes a coordinate to a tenth of a pixel.
func num(f float64) string {
	text := strconv.FormatFloat(math.Round(f*10)/10, 'f', -1, 64)
	if text == "-0" {
		return "0"
	}
	return text
}

// point is a place in a picture.
type point struct{ x, y float64 }

// lines returns the path through some places, without those that lie on the line between their neighbours.
func lines(places []point) string {
	var d strings.Builder
	var last point
	for i, p := range simplified(places) {
		p = point{math.Round(p.x*10) / 10, math.Round(p.y*10) / 10}
		switch {
		case i == 0:
			d.WriteString("M" + num(p.x) + " " + num(p.y))
		case p == last:
		case p.y == last.y:
			d.WriteString("H" + num(p.x))
		case p.x == last.x:
			d.WriteString("V" + num(p.y))
		default:
			d.WriteString("L" + num(p.x) + " " + num(p.y))
		}
		last = p
	}
	return d.String()
}

// thinned leaves out places of a curve that has many per pixel: it keeps the first, the last, the highest and the lowest
// of each pixel.
func thinned(places []point) (kept []point) {
	for len(places) > 0 {
		n, low, high := 1, 0, 0
		for ; n < len(places) && math.Floor(places[n].x) == math.Floor(places[0].x); n++ {
			if places[n].y < places[low].y {
				low = n
			}
			if places[n].y > places[high].y {
				high = n
			}
		}
		for i := range n {
			if n <= 8 || i == 0 || i == low || i == high || i == n-1 {
				kept = append(kept, places[i])
			}
		}
		places = places[n:]
	}
	return kept
}

// simplified leaves out the places that are less than half a pixel from the line between those that remain, by the
// method of Douglas and Peucker.
func simplified(places []point) (kept []point) {
	if len(places) < 3 {
		return places
	}
	first, last := places[0], places[len(places)-1]
	far, distance := 0, 0.4
	for i, p := range places[1 : len(places)-1] {
		if d := fromLine(p, first, last); d > distance {
			far, distance = i+1, d
		}
	}
	if far == 0 {
		return []point{first, last}
	}
	before := simplified(places[:far+1])
	return append(before[:len(before):len(before)], simplified(places[far:])[1:]...)
}

// fromLine returns the distance of a place from the line between two others.
func fromLine(p, a, b point) float64 {
	dx, dy := b.x-a.x, b.y-a.y
	length := math.Hypot(dx, dy)
	if length == 0 {
		return math.Hypot(p.x-a.x, p.y-a.y)
	}
	return math.Abs(dx*(p.y-a.y)-dy*(p.x-a.x)) / length
}

// steps returns round numbers from low to high, at most most of them, with 1, 2 or 5 as their first digit of difference.
func steps(low, high float64, most int) (list []float64) {
	step := 1.0
	for i := 0; (high-low)/step+1 > float64(most); i++ {
		step *= []float64{2, 2.5, 2}[i%3]
	}
	for v := math.Ceil(low/step) * step; v <= high; v += step {
		list = append(list, v)
	}
	return list
}

// roundTimes are the differences of labels on an axis of time.
var roundTimes = []time.Duration{
	1, 2, 5, 10, 20, 50, 100, 200, 500,
	time.Microsecond, 2 * time.Microsecond, 5 * time.Microsecond, 10 * time.Microsecond, 20 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	words.Day, 2 * words.Day, 5 * words.Day, 10 * words.Day, 20 * words.Day, 50 * words.Day, 100 * words.Day, 200 * words.Day, 500 * words.Day, 1000 * words.Day,
}

// timeSteps returns at most most+1 round times from 0 to a length.
func timeSteps(length time.Duration, most int) (list []time.Duration) {
	step := roundTimes[len(roundTimes)-1]
	for _, t := range roundTimes {
		if length/t <= time.Duration(most) {
			step = t
			break
		}
	}
	for t := time.Duration(0); t <= length; t += step {
		list = append(list, t)
	}
	return list
}

// timeLabel writes a time on an axis. Weeks would be out of step with days.
func timeLabel(t time.Duration) string {
	if t > 0 && t%words.Day == 0 {
		return words.Number(int64(t/words.Day)) + "d"
	}
	return words.Duration(t)
}

// amount writes a number of tokens on an axis, in few characters: 40k, 1.5M.
func amount(n float64) string {
	for _, unit := range []struct {
		from, size float64
		name       string
	}{{1e15, 1e15, "P"}, {1e12, 1e12, "T"}, {1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e4, 1e3, "k"}} {
		if math.Abs(n) >= unit.from {
			return strconv.FormatFloat(n/unit.size, 'g', 4, 64) + unit.name
		}
	}
	return words.Number(int64(n))
}

// tokens writes a number of tokens in a table, to a tenth of a token.
func tokens(n float64) string {
	n = math.Round(n*10) / 10
	whole := math.Trunc(n)
	text := words.Number(int64(whole))
	if tenth := math.Abs(math.Round((n - whole) * 10)); tenth > 0 {
		if n < 0 && whole == 0 {
			text = "-0"
		}
		text += "." + strconv.Itoa(int(tenth))
	}
	return text
}
