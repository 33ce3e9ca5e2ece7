package draw

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/bounds"
	"github.com/ratelimitgen/ratelimitgen/gen/sim"
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

var update = flag.Bool("update", false, "update testdata/draw")

// pictures are limits with pictures in testdata/draw: one version, or an old and a new one.
var pictures = map[string][]runtime.Policy{
	"token-bucket":   {{Kind: runtime.TokenBucket, Rate: 12, Capacity: 12, Period: time.Minute}},
	"send-message":   {{Kind: runtime.TokenBucket, Rate: 10, Capacity: 20, Period: time.Minute}},
	"fixed-window":   {{Kind: runtime.FixedWindow, Rate: 12, Capacity: 12, Period: time.Minute}},
	"sliding-window": {{Kind: runtime.SlidingWindow, Rate: 12, Capacity: 12, Period: time.Minute}},
	"precise":        {{Kind: runtime.SlidingWindow, Precise: true, Rate: 12, Capacity: 12, Period: time.Minute}},
	"reserving":      {{Kind: runtime.TokenBucket, Rate: 40_000, Capacity: 40_000, MaxReserved: 80_000, Period: time.Minute, Shards: 10}},
	"first-use":      {{Kind: runtime.FixedWindow, Rate: 3, Capacity: 3, Period: 10 * time.Minute, Start: runtime.StartFirstUse()}},
	"penalty":        {{Kind: runtime.TokenBucket, Rate: 12, Capacity: 12, Period: time.Minute, Penalty: runtime.Penalty{Steps: [runtime.MaxPenaltySteps]time.Duration{30 * time.Second}}}},
	"warn":           {{Kind: runtime.FixedWindow, Rate: 12, Capacity: 12, Period: time.Minute, Warn: runtime.Thresholds{50, 80}}},
	"shadow":         {{Kind: runtime.TokenBucket, Rate: 12, Capacity: 12, Period: time.Minute, Mode: runtime.ModeShadow}},
	"block":          {{Kind: runtime.TokenBucket, Rate: 12, Capacity: 12, Period: time.Minute, Mode: runtime.ModeBlock}},
	"calendar": {{Kind: runtime.FixedWindow, Rate: 100_000, Capacity: 150_000, Period: runtime.Calendar{Unit: runtime.Month}.Period(),
		Calendar: runtime.Calendar{Unit: runtime.Month, Zone: "Europe/Berlin"}}},
	"in-flight": {{Kind: runtime.InFlight, Slots: 12, Hold: 2 * time.Minute}},
	"edited-in-flight": {
		{Kind: runtime.InFlight, Slots: 5, Hold: time.Minute},
		{Kind: runtime.InFlight, Slots: 3, Hold: 2 * time.Minute},
	},
	"edited": {
		{Kind: runtime.TokenBucket, Rate: 10, Capacity: 10, Period: time.Hour},
		{Kind: runtime.TokenBucket, Rate: 10, Capacity: 240, Period: time.Hour},
	},
	"other-kind": {
		{Kind: runtime.FixedWindow, Rate: 12, Capacity: 12, Period: time.Minute},
		{Kind: runtime.TokenBucket, Rate: 6, Capacity: 6, Period: time.Minute},
	},
}

// drawn returns both pictures of some versions.
func drawn(t *testing.T, name string, policies []runtime.Policy) (tokens, envelope Picture) {
	t.Helper()
	var versions []*runtime.Policy
	for i := range policies {
		policies[i].Name = name
		require.NoError(t, policies[i].Validate())
		versions = append(versions, &policies[i])
	}
	s := StandardStory(versions[len(versions)-1])
	var runs []Run
	for _, p := range versions {
		runs = append(runs, Replay(p, s))
	}
	envelope, ok := Envelope(name, versions...)
	require.Equal(t, policies[0].Kind != runtime.InFlight, ok, "slots have no bound in a time")
	return Tokens(name, s, runs...), envelope
}

// readme are the pictures that README.md shows, which have files of their own. The others are in pictures.html, with one
// style sheet.
var readme = []string{"fixed-window-tokens", "precise-tokens", "send-message-tokens", "sliding-window-tokens", "token-bucket-tokens"}

func TestPictures(t *testing.T) {
	var page strings.Builder
	page.WriteString("<!doctype html><meta charset=\"utf-8\"><title>Pictures</title><style>" + Style + "svg{max-width:480px}</style>\n")
	for _, limit := range slices.Sorted(maps.Keys(pictures)) {
		tokens, envelope := drawn(t, limit, pictures[limit])
		for i, p := range []Picture{envelope, tokens} {
			if p.SVG == "" {
				continue
			}
			requireSound(t, &p)
			name := limit + []string{"-envelope", "-tokens"}[i]
			if slices.Contains(readme, name) {
				requireGolden(t, name+".svg", string(p.Standalone()))
			} else {
				page.WriteString("<h2>" + name + "</h2>\n" + p.SVG + "\n")
			}
		}
	}
	requireGolden(t, "pictures.html", page.String())
	files, err := filepath.Glob("../../testdata/draw/*")
	require.NoError(t, err)
	assert.Len(t, files, len(readme)+1, "testdata/draw has a picture of no limit")
}

func requireGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("../../testdata/draw", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "after an intended change, run go test ./gen/draw -update and look at the pictures")
}

// requireSound checks what every picture must have.
func requireSound(t *testing.T, p *Picture) {
	t.Helper()
	for _, text := range []string{p.SVG, string(p.Standalone())} {
		elements := map[string]int{}
		for d := xml.NewDecoder(strings.NewReader(text)); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, text)
			if start, ok := token.(xml.StartElement); ok {
				elements[start.Name.Local]++
				for _, a := range start.Attr {
					require.NotContains(t, []string{"id", "href", "style", "src"}, a.Name.Local)
				}
			}
		}
		require.Equal(t, 1, elements["svg"])
		require.Equal(t, 1, elements["title"])
		require.Equal(t, 1, elements["desc"])
		require.Zero(t, elements["script"])
		require.Contains(t, text, ` role="img"`)
		require.NotContains(t, text, "NaN")
		require.NotContains(t, text, "Inf")
	}
	require.NotEmpty(t, p.Text)
	require.NotEmpty(t, p.Table.Rows)
	for _, row := range p.Table.Rows {
		require.Len(t, row, len(p.Table.Head))
	}
}

func choose[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

func randomPolicy(r *rand.Rand) runtime.Policy {
	rate := choose[int64](r, 1, 2, 3, 7, 10, 100, 1000, 40_000, 1e9, runtime.MaxTokens)
	p := runtime.Policy{Name: "limit", Kind: choose(r, runtime.Kinds()...), Rate: rate, Capacity: rate,
		Mode:   choose(r, runtime.ModeEnforce, runtime.ModeEnforce, runtime.ModeShadow, runtime.ModeOff, runtime.ModeBlock),
		Period: choose(r, 1, time.Microsecond, time.Second, 90*time.Second, time.Hour, 24*time.Hour, 365*24*time.Hour, runtime.MaxPeriod)}
	if p.Kind == runtime.InFlight {
		p.Slots, p.Hold = min(rate, runtime.MaxSlots), p.Period
		p.Rate, p.Capacity, p.Period = 0, 0, 0
	}
	if p.Kind.Linear() {
		p.Capacity = min(runtime.MaxTokens, choose(r, 0, (rate+1)/2, rate, 2*rate, 30*rate))
		p.MaxReserved = min(runtime.MaxTokens, choose(r, 0, 0, 1, rate, 2*rate+1, runtime.Unbounded))
		if p.Capacity == 0 {
			p.MaxReserved = max(1, p.MaxReserved)
		}
	}
	switch {
	case p.Kind == runtime.SlidingWindow && rate <= runtime.MaxPreciseRate && r.IntN(2) == 0:
		p.Precise = true
	case p.Kind == runtime.FixedWindow && r.IntN(4) == 0:
		p.Start = runtime.StartFirstUse()
	case p.Kind == runtime.FixedWindow && r.IntN(3) == 0:
		p.Calendar = runtime.Calendar{Unit: choose(r, runtime.CalendarUnits()...), Zone: choose(r, "UTC", "Europe/Berlin")}
		p.Period = p.Calendar.Period()
	}
	return p
}

// Any valid limit, and any two, have pictures, with at most so many requests.
func TestAnyLimitHasPictures(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 150 {
		policies := []runtime.Policy{randomPolicy(r), randomPolicy(r)}[:1+r.IntN(2)]
		for _, p := range policies {
			require.NoError(t, p.Validate(), "%+v", p)
			require.LessOrEqual(t, len(StandardStory(&p).Requests), 200, "%+v", p)
		}
		var versions []*runtime.Policy
		for i := range policies {
			versions = append(versions, &policies[i])
		}
		s := StandardStory(versions[len(versions)-1])
		runs := []Run{Replay(versions[0], s), Replay(versions[len(versions)-1], s)}[:len(versions)]
		tokens := Tokens("limit", s, runs...)
		requireSound(t, &tokens)
		require.Less(t, len(tokens.SVG), 40_000, "%+v", policies)
		if envelope, ok := Envelope("limit", versions...); ok {
			requireSound(t, &envelope)
		}
	}
}

// The tokens that the curve and the table show are those of the limiter at any time, and the marks are its decisions.
func TestCurveIsTheLimiter(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	checked := 0
	for range 200 {
		p := randomPolicy(r)
		if p.Mode != runtime.ModeEnforce {
			continue
		}
		s := StandardStory(&p)
		run := Replay(&p, s)
		rule, state := RuleOf(&p), runtime.State{}
		origin := Origin(&p, &rule)
		step := func(at time.Duration, q runtime.Request) runtime.Decision {
			var d runtime.Decision
			var err error
			state, d, err = rule.Step(state, origin+int64(at), q)
			require.NoError(t, err)
			return d
		}
		// A slot that was lost, because its hold has ended, cannot be released.
		type holder struct {
			fence int64
			at    time.Duration
		}
		var running []holder
		release := func(until time.Duration) {
			for len(running) > 0 && running[0].at <= until {
				next, _, err := rule.Step(state, origin+int64(running[0].at), runtime.Request{Op: runtime.Release, Fence: running[0].fence})
				if err == nil {
					state = next
				}
				running = running[1:]
			}
		}
		for i, q := range s.Requests {
			release(q.At)
			d := step(q.At, runtime.Request{Count: q.Count, Reserve: q.Reserve})
			if d.Fence != 0 && q.Running > 0 {
				running = append(running, holder{d.Fence, q.At + q.Running})
			}
			require.Equal(t, sim.OutcomeOf(d), run.Marks[i].Outcome, "%+v", p)
			until := s.Length
			if i+1 < len(s.Requests) {
				until = s.Requests[i+1].At
			}
			var ats []time.Duration
			for range 5 {
				ats = append(ats, q.At+1+time.Duration(r.Int64N(int64(max(1, until-q.At)))))
			}
			slices.Sort(ats)
			for _, at := range ats {
				if at >= until || until-q.At < 1000 {
					continue // at the time of a request, the curve jumps
				}
				release(at)
				want := step(at, runtime.Request{Op: runtime.Peek}).Value
				scale := float64(p.Capacity) + min(float64(p.MaxReserved), 2*float64(p.Rate))
				require.InDelta(t, want, run.tokensAt(at), scale/2000, "%v of %+v", at, p)
				checked++
			}
		}
	}
	assert.Greater(t, checked, 5000)
}

// Every bound is one of bounds.Within, and the line between them is the envelope, to a few pixels.
func TestBoundsAreTheEnvelope(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	checked := 0
	for range 120 {
		p := randomPolicy(r)
		d := envelopeDrawing{policies: []*runtime.Policy{enforced(&p)}}
		if d.policies[0] == nil {
			continue
		}
		d.scale()
		list := d.bounds[0]
		require.True(t, slices.IsSortedFunc(list, func(a, b Bound) int { return int(a.Length - b.Length) }))
		for _, b := range list {
			require.Equal(t, bounds.Within(d.policies[0], b.Length), b.Tokens)
		}
		for range 50 {
			at := time.Duration(float64(d.from) * math.Pow(float64(d.to)/float64(d.from), r.Float64()))
			i, exact := slices.BinarySearchFunc(list, at, func(b Bound, at time.Duration) int { return int(min(1, max(-1, b.Length-at))) })
			if exact || i == 0 || i == len(list) {
				continue
			}
			a, b := list[i-1], list[i]
			ya, yb, x := d.y(float64(a.Tokens)), d.y(float64(b.Tokens)), (d.x(at)-d.x(a.Length))/(d.x(b.Length)-d.x(a.Length))
			if b.Length-a.Length > 1 {
				require.InDelta(t, d.y(float64(bounds.Within(d.policies[0], at))), ya+(yb-ya)*x, 3.5, "%v of %+v", at, p)
				checked++
			}
		}
	}
	assert.Greater(t, checked, 3000)
}

func TestUnboundedLimitsHaveNoEnvelope(t *testing.T) {
	p := runtime.Policy{Name: "a", Kind: runtime.TokenBucket, Rate: 1, Period: time.Second, MaxReserved: runtime.Unbounded}
	_, ok := Envelope("a", &p)
	assert.False(t, ok)
	assert.Nil(t, Bounds(&p, 1, time.Hour))
	p.Capacity = 3
	list := Bounds(&p, 1, time.Minute)
	assert.Equal(t, Bound{1, 3}, list[0], "without reservations")
}

// The table of a story adds up to its requests.
func TestTableHasEveryRequest(t *testing.T) {
	for name, policies := range pictures {
		p := policies[0]
		p.Name = name
		s := StandardStory(&p)
		table := Tokens(name, s, Replay(&p, s)).Table
		sum := 0
		for _, row := range table.Rows {
			for i, cell := range row {
				if i > 0 && table.Head[i] != "tokens" && table.Head[i] != "free slots" {
					n, err := strconv.Atoi(cell)
					require.NoError(t, err)
					sum += n
				}
			}
		}
		assert.Equal(t, len(s.Requests), sum, name)
	}
}

var colorOf = regexp.MustCompile(`--([a-z]+):(#[0-9a-f]{3,8})`)

// palettes returns the colors of a style sheet by name, for light and for dark pages.
func palettes(style string) (light, dark map[string]string) {
	light, dark = map[string]string{}, map[string]string{}
	for line := range strings.Lines(style) {
		to := light
		if strings.HasPrefix(line, "@media (prefers-color-scheme:dark)") {
			to = dark
		}
		for _, m := range colorOf.FindAllStringSubmatch(line, -1) {
			to[m[1]] = m[2]
		}
	}
	return light, dark
}

func luminance(t *testing.T, color string) float64 {
	t.Helper()
	if len(color) == 4 {
		color = "#" + strings.Repeat(color[1:2], 2) + strings.Repeat(color[2:3], 2) + strings.Repeat(color[3:4], 2)
	}
	linear := func(i int) float64 {
		n, err := strconv.ParseUint(color[i:i+2], 16, 8)
		require.NoError(t, err, color)
		c := float64(n) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(1) + 0.7152*linear(3) + 0.0722*linear(5)
}

func contrast(t *testing.T, a, b string) float64 {
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// Texts have a contrast of 4.5 to 1 on the page, and marks, curves and edges of 3 to 1, by the definition of WCAG 2.2.
func TestPalettesHaveContrast(t *testing.T) {
	page, err := os.ReadFile("../page/page.css")
	require.NoError(t, err)
	light, dark := palettes(Style + string(page))
	require.Greater(t, len(light), 15)
	for scheme, colors := range map[string]map[string]string{"light": light, "dark": dark} {
		for _, ground := range []string{"bg", "soft"} {
			for _, text := range []string{"ink", "dim", "fg", "muted", "link"} {
				require.Contains(t, colors, text)
				assert.GreaterOrEqual(t, contrast(t, colors[text], colors[ground]), 4.5, "%s: %s on %s", scheme, text, ground)
			}
			for _, mark := range []string{"line", "ok", "late", "no", "shadow", "old", "edge", "border", "focus", "button"} {
				require.Contains(t, colors, mark)
				assert.GreaterOrEqual(t, contrast(t, colors[mark], colors[ground]), 3.0, "%s: %s on %s", scheme, mark, ground)
			}
		}
		assert.GreaterOrEqual(t, contrast(t, colors["onbutton"], colors["button"]), 4.5, scheme)
	}
	// Pictures in a README are on its ground.
	for _, mark := range []string{"line", "ok", "late", "no", "shadow", "old"} {
		assert.GreaterOrEqual(t, contrast(t, light[mark], "#ffffff"), 3.0, mark)
		assert.GreaterOrEqual(t, contrast(t, dark[mark], "#0d1117"), 3.0, mark)
	}
}
