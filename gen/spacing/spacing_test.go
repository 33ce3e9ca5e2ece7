package spacing_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/diag"
	"github.com/ratelimitgen/ratelimitgen/gen/document"
	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/spacing"
)

func TestSpacing(t *testing.T) {
	for _, test := range []struct{ name, before, after string }{
		{"indentation", "a:\n    b:\n        c: 1\n    d: 2\n", "a:\n  b:\n    c: 1\n  d: 2\n"},
		{"spaces", "a :   {b:1,c : [ x ,y ]   ,  }   \n", "a: {b:1, c: [x, y],}\n"},
		{"quotes", "a: { \"b\":1 , 'c' :  'it''s  so' }\n", "a: {\"b\": 1, 'c': 'it''s  so'}\n"},
		{"words of a text", "a: b  c\n", "a: b  c\n"},
		{"empty lines", "\n\na: 1\n\n\n\nb: 2\n\n\n", "a: 1\n\nb: 2\n"},
		{"no end of line", "a: 1", "a: 1\n"},
		{"line ends of Windows", "a: 1\r\nb: |\r\n  x\r\n", "a: 1\nb: |\n  x\n"},
		{"byte order mark", "\uFEFFa: 1\n", "a: 1\n"},
		{"comments after lines", "a: 1   # x  \nb: 2 #y\n", "a: 1 # x\nb: 2 #y\n"},
		{"aligned comments", "a: 1      # x\nlong: 2   # y\nc: 3 # z\n", "a: 1    # x\nlong: 2 # y\nc: 3 # z\n"},
		{"comments without a space before", "a: {b: 1}#x\nc: [2,# y\n  3]\nd: \"z\"# z\n", "a: {b: 1} #x\nc: [2, # y\n  3]\nd: \"z\" # z\n"},
		{"comments before entries", "# top\na:\n    # of b\n    b: 1\n", "# top\na:\n  # of b\n  b: 1\n"},
		{"comments at the end of blocks", "a:\n    b:\n        c: 1\n        # of c\n    # of b\n# of a\nd: 1\n    # no block\n", "a:\n  b:\n    c: 1\n    # of c\n  # of b\n# of a\nd: 1\n# no block\n"},
		{"texts of several lines", "a:\n    b: |\n        x\n\n          y\n         \n    c: >-\n       z\n    d: \"u\n      v\"\n    e: w\n       w\n", "a:\n  b: |\n    x\n\n      y\n     \n  c: >-\n    z\n  d: \"u\n    v\"\n  e: w\n     w\n"},
		{"text with an indentation", "a:\n    b: |2\n        x\n      y\n    c: |+\n      z\n\n\n", "a:\n  b: |2\n      x\n    y\n  c: |+\n    z\n\n\n"},
		{"lists", "a:\n- x\n-   y\nb:\n      - c: 1\n        d: 2\n      -\n        e: 3\n      - - f\n", "a:\n  - x\n  - y\nb:\n  - c: 1\n    d: 2\n  -\n    e: 3\n  - - f\n"},
		{"braces over lines", "a:\n    b: {\n        # of c\n        c: 1,   # x\n    }\n", "a:\n  b: {\n      # of c\n      c: 1, # x\n  }\n"},
		{"beginning of a document", "---\na:   1\n...\n", "---\na: 1\n...\n"},
		{"empty values", "a:\nb:   # x\nc: 1\n", "a:\nb: # x\nc: 1\n"},
	} {
		got, err := spacing.Uniform([]byte(test.before))
		require.NoError(t, err, test.name)
		assert.Equal(t, test.after, string(got), test.name)
		again, err := spacing.Uniform(got)
		require.NoError(t, err, test.name)
		assert.Equal(t, string(got), string(again), test.name)
	}
}

// files returns the valid files of this module.
func files(t testing.TB) (texts []string) {
	for _, pattern := range []string{"../../limits.example.yaml", "../../cmd/ratelimitgen/starter.yaml", "../../testdata/published/*.yaml", "../../testdata/gen/*/limits.yaml"} {
		paths, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, paths, pattern)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			texts = append(texts, string(text))
		}
	}
	return texts
}

func TestFilesOfThisModuleAreFormatted(t *testing.T) {
	for _, text := range files(t) {
		got, err := spacing.Uniform([]byte(text))
		require.NoError(t, err)
		assert.Equal(t, text, string(got))
	}
}

// A formatted file has the same limits and comments, and stays as it is.
func FuzzUniform(f *testing.F) {
	for i, text := range files(f) {
		f.Add(text, uint64(i), byte(i))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64, edits byte) {
		text = respace(text, seed, edits)
		before, invalid := fields.Parse("a.yaml", []byte(text))
		if len(invalid) > 0 {
			return
		}
		got, err := spacing.Uniform([]byte(text))
		require.NoError(t, err, "%s", text)
		after, invalid := fields.Parse("a.yaml", got)
		require.Empty(t, invalid, "%s\n\n%s", text, got)
		withoutPlaces(reflect.ValueOf(before))
		withoutPlaces(reflect.ValueOf(after))
		require.Equal(t, before, after, "%s\n\n%s", text, got)
		require.Equal(t, commentsOf(text), commentsOf(string(got)))
		again, err := spacing.Uniform(got)
		require.NoError(t, err)
		require.Equal(t, string(got), string(again), "%s", text)
	})
}

func commentsOf(text string) (list []string) {
	for _, comment := range document.Comments([]byte(text)) {
		list = append(list, strings.TrimRight(comment, " \t"))
	}
	return list
}

// respace edits the spacing of a text at random.
func respace(text string, seed uint64, edits byte) string {
	random := rand.New(rand.NewPCG(seed, 0))
	for range edits % 32 {
		lines := strings.Split(text, "\n")
		switch i := random.IntN(len(lines)); random.IntN(8) {
		case 0: // the indentation of all lines
			for j, line := range lines {
				indent := len(line) - len(strings.TrimLeft(line, " "))
				lines[j] = strings.Repeat(" ", indent) + line
			}
		case 1:
			lines[i] += []string{" ", " # more", "\n", "\n\n", "\r", "\n# more", "\n      # more"}[random.IntN(7)]
		case 2:
			lines[i] = strings.Repeat(" ", random.IntN(3)) + lines[i]
		case 3:
			lines[i] = strings.TrimPrefix(lines[i], " ")
		case 4:
			lines[i] = strings.ReplaceAll(lines[i], ", ", []string{",", " ,  ", ",\n          "}[random.IntN(3)])
		case 5:
			lines[i] = strings.ReplaceAll(lines[i], ": ", []string{":    ", " : ", ":\n            "}[random.IntN(3)])
		case 6:
			lines[i] = strings.NewReplacer("{", "{ ", "}", " }", "[", "[ ", "]", " ]").Replace(lines[i])
		case 7:
			if at := strings.IndexByte(lines[i], ' '); at >= 0 {
				lines[i] = lines[i][:at] + []string{"  ", "\t", "\n", "\n       "}[random.IntN(4)] + lines[i][at+1:]
			}
		}
		text = strings.Join(lines, "\n")
	}
	return text
}

// withoutPlaces sets all places in a value to zero.
func withoutPlaces(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			withoutPlaces(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			withoutPlaces(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if v.Type().Elem() == reflect.TypeFor[diag.Pos]() {
				v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
			}
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[diag.Pos]() && v.CanSet() {
			v.SetZero()
			return
		}
		for i := range v.NumField() {
			withoutPlaces(v.Field(i))
		}
	}
}
