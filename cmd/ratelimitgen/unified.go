package main

import (
	"fmt"
	"slices"
	"strings"
)

// contextLines is the number of unchanged lines around a change, as in diff -u.
const contextLines = 3

// unified returns the difference between two versions of a file in the format of diff -u, "" if they are equal. It is
// Bram Cohen's patience diff, which needs no table of all pairs of lines: it aligns the versions by the lines that
// occur once in each.
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

// change replaces the lines fromA to toA of one version by fromB to toB of the other. Lines count from 0, and the
// last is exclusive.
type change struct{ fromA, toA, fromB, toB int }

// changes returns the changes between the anchors, without the lines before and after them that are equal.
func changes(a, b []string) []change {
	var found []change
	i, j := 0, 0
	for _, anchor := range append(anchors(a, b), [2]int{len(a), len(b)}) {
		// Lines that repeat are no anchors, so the ends of the gap may still be equal.
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

// anchors returns the indexes in a and in b of the lines that occur once in each, as many as have the same order in
// both.
func anchors(a, b []string) [][2]int {
	inA, inB := unique(a), unique(b)
	var pairs [][2]int
	for i, line := range a {
		j, ok := inB[line]
		if _, single := inA[line]; single && ok {
			pairs = append(pairs, [2]int{i, j})
		}
	}
	return longestIncreasing(pairs)
}

// unique returns the indexes of the lines that occur once.
func unique(text []string) map[string]int {
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

// longestIncreasing returns the longest subsequence of pairs whose second numbers increase. The first numbers of
// pairs must increase.
func longestIncreasing(pairs [][2]int) [][2]int {
	// Patience sorting: ends has, for each length, the last pair of the subsequence with the smallest second number,
	// so that its second numbers are sorted and can be searched.
	var ends []int
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
	var longest [][2]int
	for p := ends[len(ends)-1]; p >= 0; p = before[p] {
		longest = append(longest, pairs[p])
	}
	slices.Reverse(longest)
	return longest
}

// hunk is a run of changes with common context.
type hunk []change

// hunks joins changes whose context lines would overlap.
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
	fmt.Fprintf(out, "@@ -%s +%s @@\n", lineRange(fromA, toA), lineRange(fromB, toB))
	for _, c := range h {
		writeLines(out, " ", a[fromA:c.fromA])
		writeLines(out, "-", a[c.fromA:c.toA])
		writeLines(out, "+", b[c.fromB:c.toB])
		fromA = c.toA
	}
	writeLines(out, " ", a[fromA:toA])
}

// lineRange is a range of lines in the format of diff: the first line, counted from 1, and the number of lines.
func lineRange(from, to int) string {
	first := from + 1
	if from == to { // diff gives an empty range the number of the line before it
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
