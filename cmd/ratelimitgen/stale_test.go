package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUnifiedDiff(t *testing.T) {
	const a = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n"
	for _, test := range []struct{ name, before, after, want string }{
		{"nothing", a, a, ""},
		{"one line", a, strings.Replace(a, "6\n", "six\n", 1), "@@ -3,7 +3,7 @@\n 3\n 4\n 5\n-6\n+six\n 7\n 8\n 9\n"},
		{"at the start", a, "0\n" + a, "@@ -1,3 +1,4 @@\n+0\n 1\n 2\n 3\n"},
		{"at the end", a, a + "13\n", "@@ -10,3 +10,4 @@\n 10\n 11\n 12\n+13\n"},
		{"far apart", a, strings.NewReplacer("2\n3", "3", "11\n", "").Replace(a),
			"@@ -1,5 +1,4 @@\n 1\n-2\n 3\n 4\n 5\n@@ -8,5 +7,4 @@\n 8\n 9\n 10\n-11\n 12\n"},
		{"all of it", "1\n", "2\n", "@@ -1,1 +1,1 @@\n-1\n+2\n"},
		{"from nothing", "", "1\n", "@@ -0,0 +1,1 @@\n+1\n"},
		{"no last line end", "1", "1\n", "@@ -1,1 +1,1 @@\n-1\n\\ No newline at end of file\n+1\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := unified("f", test.before, test.after)
			assert.Equal(t, test.want, strings.TrimPrefix(got, "--- f\n+++ f\n"))
		})
	}
}

func TestPatchAppliesUnifiedDiff(t *testing.T) {
	patch, err := exec.LookPath("patch")
	if err != nil {
		require.Empty(t, os.Getenv("CI"), "CI must have patch")
		t.Skip("patch is not installed")
	}
	random := rand.New(rand.NewPCG(1, 2))
	edited := func(text []string) (lines []string) {
		for _, line := range text {
			for n := random.IntN(16); n < 2; n++ {
				lines = append(lines, strconv.Itoa(random.IntN(100))+"\n")
			}
			if random.IntN(12) > 0 {
				lines = append(lines, line)
			}
		}
		return append(lines, "end\n")
	}
	dir, diff := t.TempDir(), ""
	var want []string
	for i := range 200 {
		old := make([]string, 60)
		for i := range old {
			old[i] = strconv.Itoa(random.IntN(100)) + "\n"
		}
		before, after := strings.Join(old, ""), strings.Join(edited(old), "")
		name := strconv.Itoa(i)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(before), 0o644))
		diff += unified(name, before, after)
		want = append(want, after)
	}
	command := exec.Command(patch, "--silent", "--strip=0", "--directory", dir)
	command.Stdin = strings.NewReader(diff)
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for i, text := range want {
		got, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(i)))
		require.NoError(t, err)
		require.Equal(t, text, string(got))
	}
}

// Comparing each line with each other line would take 10^10 steps here.
func TestUnifiedDiffOfDifferentFilesIsFast(t *testing.T) {
	before, after := strings.Repeat("a\nb\n", 50_000), strings.Repeat("c\nd\n", 50_000)
	got := unified("f", before, after)
	assert.Equal(t, 100_000, strings.Count(got, "\n-"))
	assert.Equal(t, 100_000, strings.Count(got, "\n+")-1)
}
