package render

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/cells"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/judge"
)

func reviewOf(t *testing.T, old, new string) *review.Review {
	t.Helper()
	const head = "version: 1\nlimits:\n  send: "
	return judge.Review(parse(t, "old.yaml", head+old+"\n"), parse(t, "new.yaml", head+new+"\n"))
}

func TestPictureShowsOldAndNewOnOneScalePerInterval(t *testing.T) {
	r := reviewOf(t, "{kind: token bucket, rate: 60, period: 1m, key: {userID: int64}}", "{kind: token bucket, rate: 60, period: 1m, capacity: 120, key: {userID: int64}}")
	require.Len(t, r.Subjects, 1)
	assert.Equal(t, "```diff\n"+`- at once        ████████████████ 60
+                ████████████████████████████████ 120  ×2
- in any minute  █████████████████████ 120
+                ████████████████████████████████ 180  ×1.5
- in any hour    ███████████████████████████████ 3,660
+                ████████████████████████████████ 3,720
- in any day     ████████████████████████████████ 86,460
+                ████████████████████████████████ 86,520
`+"```\n", pictureOf(&r.Subjects[0]))
	assert.Equal(t, "Whoever hits the limit gets the next token after at most 1s (as before).", lockedOut(&r.Subjects[0]))
	assert.Equal(t, "1 change: looser", summaryOf(r))
}

func TestPictureOfBoundsWithoutScale(t *testing.T) {
	r := reviewOf(t, "{kind: token bucket, rate: 60, period: 1m}", "{kind: token bucket, rate: 60, period: 1m, mode: off}")
	picture := pictureOf(&r.Subjects[0])
	assert.Contains(t, picture, "- at once        ████████ 60\n+                ███████████████████████████████▶ unbounded\n")
	r = reviewOf(t, "{kind: token bucket, rate: 60, period: 1m}", "{kind: token bucket, rate: 60, period: 1m, mode: block}")
	assert.Contains(t, pictureOf(&r.Subjects[0]), "+                · 0\n")
	r = reviewOf(t, "{kind: token bucket, rate: 60, period: 1m}", "{kind: token bucket, rate: 60, period: 1m, denyCache: 1s}")
	assert.Empty(t, pictureOf(&r.Subjects[0]), "no bound has changed")
}

// A longer bar is a larger number, and only the larger one of two has the whole length.
func TestBarsFollowTheirValues(t *testing.T) {
	for _, most := range []int64{1, 7, 60, 1_000_000, math.MaxInt64 / 2} {
		last := -1
		for i := range int64(100) {
			value := most / 100 * (i + 1)
			text := bar(barLength, value, most)
			length := strings.Count(text, "█")
			assert.Equal(t, value > 0, length > 0)
			assert.GreaterOrEqual(t, length, last)
			assert.LessOrEqual(t, cells.Of(text), barLength)
			last = length
		}
		assert.Equal(t, strings.Repeat("█", barLength), bar(barLength, most, most))
	}
}

// The comment on one changed limit of many is one section.
func TestMarkdownOfOneChangeInManyIsShort(t *testing.T) {
	old := manyLimits(1000, "period: 1m")
	text := markdownOf(t, judge.Review(parse(t, "old.yaml", old), parse(t, "new.yaml", strings.Replace(old, "rate: 500,", "rate: 250,", 1))))
	assert.Equal(t, 1, strings.Count(text, "\n#### "))
	visible := text[:strings.Index(text, "<details>")]
	assert.Less(t, strings.Count(visible, "\n"), 25, visible)
	assert.Contains(t, text, "**1 change: tighter**")
	assert.Contains(t, text, "For one userID, at most, before (-) and now (+):\n```diff\n- at once        ████████████████████████████████ 500\n")
}
