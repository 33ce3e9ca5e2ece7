package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The README shows what explain says of the example, some lines of it.
func TestReadmeShowsWhatExplainSays(t *testing.T) {
	var out, problems bytes.Buffer
	require.Equal(t, exitYes, run([]string{"explain", "sendMessage", "../../limits.example.yaml"}, &out, &problems), problems.String())
	block := regexp.MustCompile("(?s)```explain\n(.*?)```").FindStringSubmatch(readme(t))
	require.NotNil(t, block)
	said := strings.Split(out.String(), "\n")
	for line := range strings.Lines(block[1]) {
		assert.Contains(t, said, strings.TrimSuffix(line, "\n"))
	}
}
