package document

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCommentsAreNotTextOfValues(t *testing.T) {
	const src = `# one
version: 1 # two
limits: # three
  #four
  send:
    doc: | # five
      # not a comment
      text # nor this

        # nor this
    # six
    kind: token bucket	# seven
    rate: 10 # eight # the same
    period: 1m#no comment
  other: # nine
    doc: "a # no \" # no
      # no" # ten
    goName: 'it''s # no' # eleven
    key: {a: "#no", b: int} # twelve
    capacity: it's # thirteen
    list:
      - > # fourteen
       # no
       # no
      - |2
         # no
        # no
      # fifteen
      - plain
        goes on # sixteen
      - "a
        b" # seventeen
    flow: {a: b#c, "d":e#no}# eighteen
    after: "x"#nineteen
    between: [1,# twenty
      2]# twenty-one
    plain: a]# b}# no
# twenty-two`
	want := []string{
		" one", " two", " three", "four", " five", " six", " seven", " eight # the same", " nine", " ten", " eleven", " twelve", " thirteen",
		" fourteen", " fifteen", " sixteen", " seventeen", " eighteen", "nineteen", " twenty", " twenty-one", " twenty-two",
	}
	for what, text := range map[string]string{
		"line ends of Unix": src, "line ends of Windows": strings.ReplaceAll(src, "\n", "\r\n"), "a byte order mark": "\uFEFF" + src,
		"wide characters": strings.ReplaceAll(src, "doc: \"a", "doc: \"界"),
	} {
		assert.Equal(t, want, Comments([]byte(text)), what)
	}
	assert.Empty(t, Comments([]byte("a: [ # one")))
	assert.Empty(t, Comments(nil))
}
