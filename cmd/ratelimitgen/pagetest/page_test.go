package pagetest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/page"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

var shots = flag.String("shots", "", "write screenshots into this directory")

// example is the page of limits.example.yaml, compared with an earlier version.
func example(t *testing.T, against bool) []byte {
	t.Helper()
	text, err := os.ReadFile("../../../limits.example.yaml")
	require.NoError(t, err)
	parse := func(name string, text []byte) *spec.File {
		file, diagnostics := fields.Parse(name, text)
		require.Empty(t, diagnostics)
		return file
	}
	p := page.Page{File: parse("limits.example.yaml", text)}
	if against {
		old := strings.NewReplacer("capacity: 20\n", "capacity: 10\n", "rate: 100\n", "rate: 50\n", "pro: 600,", "pro: 300,",
			"kind: sliding window\n    rate: 5", "kind: fixed window\n    rate: 8").Replace(string(text))
		p.Old = parse("main:limits.example.yaml", []byte(old))
	}
	var out bytes.Buffer
	require.NoError(t, p.Write(&out))
	return out.Bytes()
}

// tab is a page in Chromium.
type tab struct {
	context.Context
	t *testing.T

	mu sync.Mutex
	// requests are the addresses that the page has requested, and problems the errors on its console.
	requests, problems []string
	// served are the paths that the server was asked for.
	served []string
}

// open opens a page, after emulating something.
func open(t *testing.T, html []byte, emulate ...chromedp.Action) *tab {
	t.Helper()
	browser, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") != "" {
			require.NoError(t, err, "install chromium")
		}
		t.Skip("chromium is not installed")
	}
	tab := &tab{t: t}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tab.mu.Lock()
		tab.served = append(tab.served, r.URL.Path)
		tab.mu.Unlock()
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(html)
	}))
	t.Cleanup(server.Close)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(browser), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	tab.Context, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	chromedp.ListenTarget(tab, tab.listen)
	tab.run(append([]chromedp.Action{network.Enable(), log.Enable(), runtime.Enable()}, emulate...)...)
	tab.run(chromedp.Navigate(server.URL+"/limits.html"), chromedp.WaitReady("footer"),
		chromedp.Evaluate(`window.plays = () => [...document.querySelectorAll("[data-play]")].map(place => place.playground).filter(play => play)`, nil))
	return tab
}

func (t *tab) listen(event any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		t.requests = append(t.requests, e.Request.URL)
	case *runtime.EventExceptionThrown:
		t.problems = append(t.problems, e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		t.problems = append(t.problems, string(e.Type))
	case *log.EventEntryAdded:
		t.problems = append(t.problems, e.Entry.Text)
	}
}

func (t *tab) run(actions ...chromedp.Action) {
	t.t.Helper()
	require.NoError(t.t, chromedp.Run(t, actions...))
}

// eval returns the value of an expression.
func eval[T any](t *tab, expression string) (value T) {
	t.t.Helper()
	t.run(chromedp.Evaluate(expression, &value))
	return value
}

// evalAwait is eval for a promise.
func evalAwait[T any](t *tab, expression string) (value T) {
	t.t.Helper()
	t.run(chromedp.Evaluate(expression, &value, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	return value
}

// until waits until an expression is true.
func (t *tab) until(expression string) {
	t.t.Helper()
	t.run(chromedp.Poll(expression, nil, chromedp.WithPollingTimeout(20*time.Second)))
}

func (t *tab) press(keys ...string) {
	t.t.Helper()
	for _, key := range keys {
		t.run(chromedp.KeyEvent(key))
	}
}

// shot writes a screenshot of the page, or of the element that a selector matches, if -shots is given.
func (t *tab) shot(name, selector string) {
	t.t.Helper()
	if *shots == "" {
		return
	}
	// Contents outside of the window are otherwise not drawn.
	t.run(chromedp.Evaluate(`for (const e of document.querySelectorAll(".limit, .group, #playground")) e.style.contentVisibility = "visible"`, nil))
	box := eval[[]float64](t, `(() => { const r = (document.querySelector(`+strconv.Quote(selector)+`) || document.documentElement).getBoundingClientRect(); return [r.x + scrollX, r.y + scrollY, r.width, r.height]; })()`)
	var png []byte
	t.run(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		png, err = cdppage.CaptureScreenshot().WithCaptureBeyondViewport(true).WithClip(&cdppage.Viewport{X: box[0], Y: box[1], Width: box[2], Height: box[3], Scale: 1}).Do(ctx)
		return err
	}))
	require.NoError(t.t, os.WriteFile(filepath.Join(*shots, name+".png"), png, 0o644))
}

func media(features ...string) chromedp.Action {
	var list []*emulation.MediaFeature
	for i := 0; i < len(features); i += 2 {
		list = append(list, &emulation.MediaFeature{Name: features[i], Value: features[i+1]})
	}
	return emulation.SetEmulatedMedia().WithFeatures(list)
}

const openAll = `for (const d of document.querySelectorAll("details")) d.open = true`

// All playgrounds and drawings together request nothing but the page, and report no error.
func TestPageLoadsNothing(t *testing.T) {
	for name, against := range map[string]bool{"alone": false, "against": true} {
		t.Run(name, func(t *testing.T) {
			tab := open(t, example(t, against))
			tab.run(chromedp.Evaluate(openAll, nil))
			tab.until(`plays().length === document.querySelectorAll("details.try").length`)
			tab.run(chromedp.Evaluate(`for (const b of document.querySelectorAll(".hit")) b.click()`, nil))
			tab.until(`plays().every(p => p.now > 0)`)
			assert.Greater(t, eval[int](tab, `plays().length`), 10)
			assert.Equal(t, 0, eval[int](tab, `[...document.querySelectorAll("[role=status]")].filter(p => p.textContent === "").length`))
			tab.mu.Lock()
			defer tab.mu.Unlock()
			assert.Equal(t, []string{"/limits.html"}, tab.served)
			for _, url := range tab.requests {
				assert.True(t, strings.HasSuffix(url, "/limits.html") || strings.HasPrefix(url, "data:"), url)
			}
			assert.Empty(t, tab.problems)
		})
	}
}

// The policy of the page also stops what a script would load.
func TestPolicyForbidsRequests(t *testing.T) {
	tab := open(t, example(t, false))
	for _, load := range []string{
		`new Promise(done => { const i = new Image(); i.onload = () => done(false); i.onerror = () => done(true); i.src = "/x.png"; })`,
		`fetch("/y").then(() => false, () => true)`,
	} {
		assert.True(t, evalAwait[bool](tab, load), load)
	}
	tab.mu.Lock()
	defer tab.mu.Unlock()
	assert.Equal(t, []string{"/limits.html"}, tab.served)
}

func TestKeyboardAlone(t *testing.T) {
	tab := open(t, example(t, false), media("prefers-reduced-motion", "reduce"))
	focused := func() string {
		return eval[string](tab, `document.activeElement.closest("details.try") ? document.activeElement.tagName + ":" + document.activeElement.textContent : ""`)
	}
	reach := func(what string) {
		t.Helper()
		for range 200 {
			if strings.HasPrefix(focused(), what) {
				return
			}
			tab.press(kb.Tab)
		}
		t.Fatalf("no Tab leads to %q", what)
	}
	reach("SUMMARY:Try it")
	tab.press(kb.Enter)
	reach("BUTTON:Hit")
	tab.press(kb.Enter)
	tab.until(`document.activeElement.closest("details").querySelector("[role=status]").textContent.startsWith("hit: allowed, ")`)
	reach("BUTTON:Hit 10 times")
	tab.press(kb.Enter, kb.Enter)
	tab.until(`document.activeElement.closest("details").querySelector("[role=status]").textContent.startsWith("last hit: denied, retry after ")`)
	reach("BUTTON:Step forward")
	tab.press(" ", " ")
	tab.until(`plays()[0].now > 0`)
	reach("INPUT:")
	before := eval[string](tab, `document.activeElement.getAttribute("aria-valuetext")`)
	tab.press(kb.ArrowRight)
	assert.NotEqual(t, before, eval[string](tab, `document.activeElement.getAttribute("aria-valuetext")`))
	assert.NotEmpty(t, eval[string](tab, `document.activeElement.closest("label").textContent`))
	outline := eval[string](tab, `getComputedStyle(document.activeElement).outlineStyle`)
	assert.NotEqual(t, "none", outline, "the focus is visible")
	assert.Empty(t, tab.problems)
}

func TestReducedMotionStartsPaused(t *testing.T) {
	for value, want := range map[string]string{"reduce": "Run", "no-preference": "Pause"} {
		t.Run(value, func(t *testing.T) {
			tab := open(t, example(t, false), media("prefers-reduced-motion", value))
			tab.run(chromedp.Evaluate(`document.querySelector("#playground details").open = true`, nil))
			tab.until(`plays().length === 1`)
			assert.Equal(t, want, eval[string](tab, `plays()[0].pause.textContent`))
			frames := `new Promise(done => { let n = 0; const f = () => ++n < 30 ? requestAnimationFrame(f) : done(plays()[0].now); f(); })`
			now := evalAwait[float64](tab, frames)
			if value == "reduce" {
				assert.Zero(t, now)
				tab.run(chromedp.Evaluate(`plays()[0].pause.click()`, nil))
			}
			tab.until(`plays()[0].now > 0`)
			tab.run(chromedp.Evaluate(`plays()[0].running && plays()[0].pause.click()`, nil))
			now = evalAwait[float64](tab, frames)
			assert.Equal(t, now, eval[float64](tab, `plays()[0].now`), "pause stops everything")
		})
	}
}

// A change of the plan, or of a number, keeps the used tokens.
func TestPlaygroundKeepsWhatWasUsed(t *testing.T) {
	tab := open(t, example(t, true), media("prefers-reduced-motion", "reduce"))
	tab.run(chromedp.Evaluate(`document.querySelector("#limit-apiCalls details.try").open = true`, nil))
	tab.until(`plays().length === 1`)
	assert.Equal(t, []string{"free", "pro"}, eval[[]string](tab, `[...document.querySelectorAll("select option")].map(o => o.textContent)`), "enterprise is unlimited")
	status := func() string { return eval[string](tab, `plays()[0].lanes.at(-1).status.textContent`) }
	set := func(name, value string) {
		t.Helper()
		tab.run(chromedp.Evaluate(`(() => {
			const label = [...plays()[0].controls.querySelectorAll("label")].find(l => l.firstChild.textContent === "`+name+`");
			const input = label.querySelector("input, select");
			input.value = "`+value+`";
			input.dispatchEvent(new Event(input.tagName === "SELECT" ? "change" : "input"));
		})()`, nil))
	}
	set("Tokens per request", "40")
	tab.run(chromedp.Evaluate(`plays()[0].hit(1)`, nil))
	assert.Equal(t, "60 of 100 tokens left. Allowed 1, denied 0. Full in 40s.", status())
	set("Plan", "pro")
	assert.Equal(t, "960 of 1,000 tokens left. Allowed 1, denied 0. Full in 4s.", status())
	set("Capacity", "1500")
	assert.Equal(t, "1,460 of 1,500 tokens left. Allowed 1, denied 0. Full in 4s.", status())
	set("Rate", "60")
	assert.Equal(t, "1,460 of 1,500 tokens left. Allowed 1, denied 0. Full in 40s.", status())
	set("Plan", "free")
	tab.run(chromedp.Evaluate(`plays()[0].hit(10); plays()[0].restart()`, nil))
	assert.Equal(t, "100 of 100 tokens left. Allowed 0, denied 0. Full.", status())
	assert.Empty(t, tab.problems)
}

// Slots are acquired and released, one whose holder crashes is free when its hold ends, and one that runs longer is renewed.
func TestPlaygroundOfSlots(t *testing.T) {
	tab := open(t, example(t, false), media("prefers-reduced-motion", "reduce"))
	tab.run(chromedp.Evaluate(`document.querySelector("#limit-runningExports details.try").open = true`, nil))
	tab.until(`plays().length === 1`)
	tab.run(chromedp.Evaluate(`{ const p = plays()[0]; p.usePlan(p.config.plans[1]); p.settings.stream = 0; p.settings.running = 3; }`, nil))
	status := func() string { return eval[string](tab, `plays()[0].lanes[0].status.textContent`) }
	pass := func(seconds string) {
		tab.run(chromedp.Evaluate(`plays()[0].pass(`+seconds+`e9); plays()[0].draw()`, nil))
	}
	assert.Equal(t, []string{"Acquire", "Acquire 10 times", "Release one", "Run", "Step forward", "Start over"},
		eval[[]string](tab, `[...document.querySelectorAll("#limit-runningExports button")].map(b => b.textContent)`))
	tab.run(chromedp.Evaluate(`plays()[0].hit(10)`, nil))
	assert.Equal(t, "5 of 5 slots in use. Acquired 5, denied 5. All are free in 2m, unless released before or renewed.", status())
	assert.Equal(t, "last hit: denied, free in 2m at the latest", eval[string](tab, `plays()[0].live.textContent`))
	tab.run(chromedp.Evaluate(`plays()[0].release()`, nil))
	assert.Contains(t, status(), "4 of 5 slots in use. ")
	pass("300")
	assert.Contains(t, status(), "4 of 5 slots in use. ", "they are renewed")
	pass("61")
	assert.Equal(t, "0 of 5 slots in use. Acquired 5, denied 5.", status())
	tab.run(chromedp.Evaluate(`plays()[0].settings.crashing = 1; plays()[0].hit(1)`, nil))
	pass("119")
	assert.Contains(t, status(), "1 of 5 slots in use. ")
	pass("2")
	assert.Equal(t, "0 of 5 slots in use. Acquired 6, denied 5.", status())
	assert.Empty(t, tab.problems)
}

// Requests of the priorities take turns, or are of one of them, and the denied ones are counted by priority.
func TestPlaygroundOfPriorities(t *testing.T) {
	tab := open(t, example(t, false), media("prefers-reduced-motion", "reduce"))
	tab.run(chromedp.Evaluate(`document.querySelector("#limit-thumbnails details.try").open = true`, nil))
	tab.until(`plays().length === 1`)
	hit := func(priority int) string {
		return eval[string](tab, fmt.Sprintf(`(() => { const p = plays()[0]; p.settings.count = 10; p.settings.priority = %d; p.hit(10); return p.lanes[0].status.textContent; })()`, priority))
	}
	assert.Equal(t, "30 of 100 tokens left. Allowed 7, denied 3: visitor 0, archive 3. Full in 3s 500ms.", hit(-1))
	assert.Equal(t, "30 of 100 tokens left. Allowed 7, denied 13: visitor 0, archive 13. Full in 3s 500ms.", hit(1))
	assert.Equal(t, "0 of 100 tokens left. Allowed 10, denied 20: visitor 7, archive 13. Full in 5s.", hit(0))
	assert.Empty(t, tab.problems)
}

// A calendar's windows begin when the Go code says: here after 31, 28, 31 and 30 days, less an hour in March.
func TestPlaygroundOfCalendar(t *testing.T) {
	tab := open(t, example(t, false), media("prefers-reduced-motion", "reduce"))
	tab.run(chromedp.Evaluate(`document.querySelector("#limit-monthlyReports details.try").open = true`, nil))
	tab.until(`plays().length === 1`)
	hours := eval[[]float64](tab, `(() => { const r = plays()[0].lanes[0].rule, list = []; for (let at = 0; list.length < 4;) { const end = r.windowEnd(at); list.push((end - at) / 36e11); at = end; } return list; })()`)
	assert.Equal(t, []float64{31 * 24, 28 * 24, 31*24 - 1, 30 * 24}, hours)
}

// On no width is there something beside the page.
func TestPageFitsItsWidth(t *testing.T) {
	for _, c := range []struct {
		name   string
		width  int64
		scheme string
	}{{"desktop-light", 1280, "light"}, {"desktop-dark", 1280, "dark"}, {"phone-light", 400, "light"}, {"phone-dark", 400, "dark"}, {"narrow", 320, "light"}} {
		t.Run(c.name, func(t *testing.T) {
			size := emulation.SetDeviceMetricsOverride(c.width, 900, 1, false)
			tab := open(t, example(t, true), media("prefers-color-scheme", c.scheme, "prefers-reduced-motion", "reduce"), size)
			tab.run(chromedp.Evaluate(`for (const d of document.querySelectorAll("details.limit, #playground details, #limit-llmTokens details, #limit-runningExports details, #limit-apiCalls details, #limit-monthlyReports details")) d.open = true`, nil))
			tab.until(`plays().length >= 5`)
			tab.run(chromedp.Evaluate(`for (const p of plays()) { p.hit(1); for (let i = 0; i < 23; i++) p.forward(); p.hit(10); p.forward(); }`, nil))
			assert.LessOrEqual(t, eval[int64](tab, `document.documentElement.scrollWidth`), c.width)
			tab.shot(c.name, "html")
			tab.shot(c.name+"-playground", "#playground")
			tab.shot(c.name+"-llm", "#limit-llmTokens")
			tab.shot(c.name+"-changed", "#limit-sendMessage")
			tab.shot(c.name+"-search", "#limit-search")
			tab.shot(c.name+"-slots", "#limit-runningExports")
			tab.shot(c.name+"-calendar", "#limit-monthlyReports")
		})
	}
}

// A link opens the limit that it leads to, also if there are too many to be open at first. Its drawings and its playground
// are unpacked then, and those of no other limit.
func TestLinksOpenLimits(t *testing.T) {
	var text strings.Builder
	text.WriteString("version: 1\nlimits:\n")
	for i := range 1000 {
		text.WriteString("  limit" + string(rune('a'+i%26)) + strings.Repeat("x", i/26) + ": {kind: token bucket, rate: 10, period: 1m}\n")
	}
	file, diagnostics := fields.Parse("limits.yaml", []byte(text.String()))
	require.Empty(t, diagnostics)
	var out bytes.Buffer
	require.NoError(t, (&page.Page{File: file}).Write(&out))
	tab := open(t, out.Bytes(), emulation.SetDeviceMetricsOverride(400, 900, 1, false))
	require.Equal(t, 0, eval[int](tab, `document.querySelectorAll("details.limit[open]").length`))
	tab.run(chromedp.Evaluate(`document.querySelector("nav a[href='#limit-limitcxxx']").click()`, nil))
	tab.until(`document.querySelectorAll("details.limit[open]").length === 1 && document.getElementById("limit-limitcxxx").open`)
	tab.until(`document.querySelectorAll("#limit-limitcxxx figure > svg").length === 2 && document.querySelector("#limit-limitcxxx details.try")`)
	require.Equal(t, 2, eval[int](tab, `document.querySelectorAll("figure").length`))
	tab.run(chromedp.Evaluate(`document.querySelector("#limit-limitcxxx details.try").open = true`, nil))
	tab.until(`plays().length === 1 && document.querySelector("#limit-limitcxxx .hit").offsetParent !== null`)
	assert.LessOrEqual(t, eval[int64](tab, `document.documentElement.scrollWidth`), int64(400))
	tab.shot("packed-400", "#limit-limitcxxx")
	tab.run(emulation.SetDeviceMetricsOverride(1400, 900, 1, false))
	tab.shot("packed-1400", "#limit-limitcxxx")
	tab.run(chromedp.Evaluate(`document.querySelector("input.filter").focus()`, nil))
	tab.press(strings.Split("limitcxxx", "")...)
	tab.until(`[...document.querySelectorAll("nav li")].filter(l => !l.hidden).length < 40`)
	assert.Empty(t, tab.problems)
	tab.shot("thousand", "nav")
}
