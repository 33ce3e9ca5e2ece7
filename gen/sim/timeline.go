package sim

import (
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// mostBins is how many bins a timeline has at most. So many are left after they have been joined that they can
// be shown by columns of a round width.
const mostBins = 600

// binWidths are the widths that the bins of a timeline can have. Each divides the next.
var binWidths = []time.Duration{
	time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond,
	time.Second, 10 * time.Second, time.Minute, 10 * time.Minute,
	time.Hour, 6 * time.Hour, day, 10 * day, 100 * day, 1000 * day,
}

// bin counts what became of the requests of a while.
type bin struct{ allowed, delayed, denied int64 }

func (b *bin) join(o bin) {
	b.allowed += o.allowed
	b.delayed += o.delayed
	b.denied += o.denied
}

// timeline counts the answers over time. It has no more than mostBins bins, however long the time gets: they
// become wider.
type timeline struct {
	// scale says which of binWidths is theirs.
	scale int
	// first is the number of the first bin, counting from 1970 UTC.
	first int64
	bins  []bin
}

func (t *timeline) width() int64 { return int64(binWidths[t.scale]) }

// add counts an answer, at an instant no earlier than that of the first one.
func (t *timeline) add(at int64, d runtime.Decision) {
	if len(t.bins) == 0 {
		t.first = at / t.width()
	}
	for at/t.width()-t.first >= mostBins {
		t.widen()
	}
	i := int(at/t.width() - t.first)
	for len(t.bins) <= i {
		t.bins = append(t.bins, bin{})
	}
	switch b := &t.bins[i]; {
	case !d.Allowed:
		b.denied++
	case d.Delay > 0:
		b.delayed++
	default:
		b.allowed++
	}
}

// widen joins the bins into those of the next width.
func (t *timeline) widen() {
	factor := int64(binWidths[t.scale+1] / binWidths[t.scale])
	first := t.first / factor
	n := 0
	for i, b := range t.bins {
		to := int((t.first+int64(i))/factor - first)
		if to == n {
			t.bins[n] = bin{}
			n++
		}
		t.bins[to].join(b)
	}
	t.scale++
	t.first, t.bins = first, t.bins[:n]
}

// columns returns the bins joined into columns of a width that theirs divides, from the column that contains
// the instant first to the one that contains last.
func (t *timeline) columns(first, last, width int64) []bin {
	columns := make([]bin, last/width-first/width+1)
	for i, b := range t.bins {
		at := (t.first + int64(i)) * t.width()
		if b != (bin{}) {
			columns[at/width-first/width].join(b)
		}
	}
	return columns
}
