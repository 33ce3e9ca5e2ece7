package main

import (
	"fmt"
	"slices"
	"strings"
)

// contextLines is how many lines are shown around a change.
const contextLines = 3

// unified returns the difference between two versions of a file as diff -u prints it, "" if there is none.
func unified(path, before, after string) string {
	a, b := lines(before), lines(after)
	var out strings.Builder
	for _, h := range hunks(changes(a, b)) {
		if out.Len() == 0 {
			fmt.Fprintf(&out, "--- %s\n+++ %s\n", path, path)
		}
		h.write(&out, a, b)
	}
	return out.String()
}

func lines(text string) []string {
	split := strings.SplitAfter(text, "\n")
	if last := len(split) - 1; split[last] == "" {
		return split[:last]
	}
	return split
}

// change says that the lines fromA to toA of the one version were replaced by fromB to toB of the other.
// Lines count from 0, and the last is exclusive.
type change struct{ fromA, toA, fromB, toB int }

// changes returns what happened between lines that are the same in both versions. The lines that hold the
// two together are those that occur once in each, as many as come in the same order.
func changes(a, b []string) []change {
	var found []change
	i, j := 0, 0
	for _, anchor := range append(anchors(a, b), [2]int{len(a), len(b)}) {
		if anchor[0] < i {
			continue
		}
		for i < anchor[0] && j < anchor[1] && a[i] == b[j] {
			i, j = i+1, j+1
		}
		endA, endB := anchor[0], anchor[1]
		for endA > i && endB > j && a[endA-1] == b[endB-1] {
			endA, endB = endA-1, endB-1
		}
		if i < endA || j < endB {
			found = append(found, change{i, endA, j, endB})
		}
		i, j = anchor[0], anchor[1]
	}
	return found
}

// anchors returns the longest ordered run of pairs of equal lines among those that occur once in a and
// once in b.
func anchors(a, b []string) [][2]int {
	inA, inB := once(a), once(b)
	var pairs [][2]int
	for i, line := range a {
		j, ok := inB[line]
		if _, single := inA[line]; single && ok {
			pairs = append(pairs, [2]int{i, j})
		}
	}
	return longestRising(pairs)
}

// once returns where the lines stand that occur once.
func once(text []string) map[string]int {
	at, twice := map[string]int{}, map[string]bool{}
	for i, line := range text {
		if _, seen := at[line]; seen {
			twice[line] = true
		}
		at[line] = i
	}
	for line := range twice {
		delete(at, line)
	}
	return at
}

// longestRising returns the longest subsequence of pairs, which rise in their first number, that rises in
// the second too.
func longestRising(pairs [][2]int) [][2]int {
	var ends []int // the pair that the best subsequence of each length ends with
	before := make([]int, len(pairs))
	for p, pair := range pairs {
		length, _ := slices.BinarySearchFunc(ends, pair[1], func(end, j int) int { return pairs[end][1] - j })
		before[p] = -1
		if length > 0 {
			before[p] = ends[length-1]
		}
		ends = append(ends[:length], append([]int{p}, ends[min(length+1, len(ends)):]...)...)
	}
	if len(ends) == 0 {
		return nil
	}
	var rising [][2]int
	for p := ends[len(ends)-1]; p >= 0; p = before[p] {
		rising = append(rising, pairs[p])
	}
	slices.Reverse(rising)
	return rising
}

// hunk is a run of changes that are shown together.
type hunk []change

// hunks puts changes together that are too near for the context between them.
func hunks(all []change) []hunk {
	var found []hunk
	for i, c := range all {
		if i == 0 || c.fromA-all[i-1].toA > 2*contextLines {
			found = append(found, nil)
		}
		last := &found[len(found)-1]
		*last = append(*last, c)
	}
	return found
}

func (h hunk) write(out *strings.Builder, a, b []string) {
	first, last := h[0], h[len(h)-1]
	lead := min(contextLines, first.fromA)
	fromA, toA := first.fromA-lead, min(last.toA+contextLines, len(a))
	fromB, toB := first.fromB-lead, last.toB+toA-last.toA
	fmt.Fprintf(out, "@@ -%s +%s @@\n", extent(fromA, toA), extent(fromB, toB))
	for _, c := range h {
		writeLines(out, " ", a[fromA:c.fromA])
		writeLines(out, "-", a[c.fromA:c.toA])
		writeLines(out, "+", b[c.fromB:c.toB])
		fromA = c.toA
	}
	writeLines(out, " ", a[fromA:toA])
}

// extent is a run of lines as diff writes it: the first, counted from 1, and how many. Of no lines, the
// first is the one before.
func extent(from, to int) string {
	first := from + 1
	if from == to {
		first = from
	}
	return fmt.Sprintf("%d,%d", first, to-from)
}

func writeLines(out *strings.Builder, mark string, lines []string) {
	for _, line := range lines {
		out.WriteString(mark + line)
		if !strings.HasSuffix(line, "\n") {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}
