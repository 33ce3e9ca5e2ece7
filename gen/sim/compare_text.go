package sim

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
)

// before and after say an outcome on the old side, and on the new one.
var (
	before = [outcomes]string{"now allowed", "now delayed", "now denied", "now too large ever to pass"}
	after  = [outcomes]string{"would pass", "would be delayed", "would be denied", "would be too large ever to pass"}
)

// good says that callers gain by a change.
func good(from, to outcome) bool { return to < from }

// WriteText prints what would change for each limit that was asked, and for which keys most, in lines of at
// most 80 cells. The error is that of w.
func (c *Comparison) WriteText(w io.Writer, color bool) error {
	var out bytes.Buffer
	c.span.write(&out, c.LeftOut)
	same := 0
	for _, l := range c.limits {
		switch {
		case l.asked == 0:
		case l.same():
			same++
		default:
			fmt.Fprintf(&out, "\n")
			l.write(&out, inkOf(color))
		}
	}
	if same > 0 {
		out.WriteString("\n")
		c.writeSame(&out)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// writeSame lists the limits for which nothing changes.
func (c *Comparison) writeSame(out *bytes.Buffer) {
	var t table
	for _, l := range c.limits {
		if l.asked > 0 && l.same() {
			t = append(t, []string{shown(l.name, 40), "nothing would change", plural(l.asked, "request")})
		}
	}
	t.write(out, "")
	for _, l := range c.limits {
		if caveat := l.caveat(); l.asked > 0 && l.same() && caveat != "" {
			out.WriteString(cells.Wrap(shown(l.name, 40)+": "+caveat, "  "))
		}
	}
}

// write says what would change for one limit.
func (c *compared) write(out *bytes.Buffer, ink ink) {
	fmt.Fprintf(out, "%s%s%s\n", ink.bold, shown(c.name, 60), ink.off)
	switch {
	case c.reshaped:
		fmt.Fprintf(out, "  %s\n", reshapedWords)
		fallthrough
	case c.old == nil:
		writeSide(out, "new", c.new)
		fmt.Fprintf(out, "  %s\n", c.addedWords())
		c.writeCaveat(out)
		return
	case c.new == nil:
		writeSide(out, "old", c.old)
		fmt.Fprintf(out, "  %s\n", c.removedWords())
		c.writeCaveat(out)
		return
	}
	writeSide(out, "old", c.old)
	writeSide(out, "new", c.new)
	c.writeChanges(out, ink)
	c.writeCaveat(out)
	c.writeTotals(out)
	c.writeKeys(out)
}

const reshapedWords = "the key has other parts than before, so that every count starts anew"

// addedWords says what would become of the requests of a limit that is new.
func (c *compared) addedWords() string {
	return fmt.Sprintf("of %s%s, now not held to this rule, %s would be denied",
		plural(c.asked, "request"), ofKeys(int64(len(c.new.counts)), c.new), grouped(c.new.denied))
}

// removedWords says what would become of the requests of a limit that is gone.
func (c *compared) removedWords() string {
	return fmt.Sprintf("%s%s would no longer be limited; %s of them %s now denied",
		plural(c.asked, "request"), ofKeys(int64(len(c.old.counts)), c.old), grouped(c.old.denied), isOrAre(c.old.denied))
}

func (c *compared) writeCaveat(out *bytes.Buffer) {
	if caveat := c.caveat(); caveat != "" {
		out.WriteString(cells.Wrap(caveat, "  "))
	}
}

// writeSide says the rule of one side.
func writeSide(out *bytes.Buffer, side string, l *replayed) {
	rule := cells.Wrap(l.Words, "       ")
	out.WriteString("  " + side + rule[len("  "+side):])
}

// writeChanges says how many requests would fare otherwise, and how.
func (c *compared) writeChanges(out *bytes.Buffer, ink ink) {
	c.eachChange(func(from, to outcome, words string) {
		color := ink.red
		if good(from, to) {
			color = ink.green
		}
		out.WriteString(color + strings.TrimSuffix(cells.Wrap(words, "  "), "\n") + ink.off + "\n")
	})
}

// eachChange hands on how requests would fare otherwise, and how many.
func (c *compared) eachChange(say func(from, to outcome, words string)) {
	for from := range outcomes {
		for to := range outcomes {
			if n := c.changes[from][to]; n > 0 {
				say(from, to, fmt.Sprintf("%s of %s%s, %s, %s",
					grouped(n), plural(c.asked, "request"), ofKeys(c.keys[from][to], c.new), before[from], after[to]))
			}
		}
	}
}

// writeTotals says what became of the requests on both sides.
func (c *compared) writeTotals(out *bytes.Buffer) {
	t := table{append([]string{""}, tallyHead...)}
	for _, side := range []struct {
		name string
		*replayed
	}{{"old", c.old}, {"new", c.new}} {
		t = append(t, append([]string{side.name}, side.row(len(side.counts))...))
	}
	t.write(out, "  ")
}

// writeKeys lists the keys for which most would change.
func (c *compared) writeKeys(out *bytes.Buffer) {
	if len(c.new.Key) == 0 || c.changed() == 0 {
		return
	}
	var t table
	byChanged := func(a, b *changedKey) int {
		return cmp.Or(cmp.Compare(a.changed, b.changed), -strings.Compare(a.key, b.key))
	}
	for _, k := range most(maps.Values(c.byKey), mostKeys, byChanged) {
		if k.changed > 0 {
			t = append(t, []string{shown(k.key, 36), grouped(k.changed) + " of " + grouped(k.asked)})
		}
	}
	out.WriteString("  most for these keys\n")
	t.write(out, "    ")
}

// ofKeys says whose requests they are, if the limit has a key.
func ofKeys(n int64, l *replayed) string {
	if len(l.Key) == 0 {
		return ""
	}
	return " of " + plural(n, "key")
}

func isOrAre(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
