// Package browsertest drives the console in Chromium.
package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/console"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/operate"
)

const (
	hostileKey = `<img src=x onerror="document.title='pwned'">`
	hostileDoc = `bounds posts. <script>document.title='pwned'</script>`
)

// browser returns a tab of a new Chromium, with a new profile.
func browser(t *testing.T) context.Context {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("/usr/bin/chromium"), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.WindowSize(1000, 1200),
		chromedp.Flag("host-resolver-rules", "MAP evil.example 127.0.0.1"))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// site is a console in which everybody may change everything, with one key in debt.
func site(t *testing.T, allowed bool) (at string, store *memstore.Store) {
	send := &runtime.Policy{Name: "send", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 20,
		Overrides: runtime.OverrideBounds{Rate: 100, Capacity: 200}}
	catalog := &runtime.Catalog{Limits: []runtime.CatalogLimit{
		{Name: "send", Doc: hostileDoc, Key: []runtime.CatalogKey{{Name: "user", Type: "string"}}, Policies: []*runtime.Policy{send}}}}
	start := time.Now()
	store = &memstore.Store{Clock: func() time.Time { return start }}
	_, err := limiter.New(store).Limit(send, runtime.KeyOf(runtime.String(hostileKey))).Charge(t.Context(), 25)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/ops/limits/", http.StripPrefix("/ops/limits", console.New(console.Options{Catalog: catalog, Store: store, ShowKeys: true,
		AllowChanges: func(*http.Request) (string, bool) { return "alice", allowed }})))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL + "/ops/limits/", store
}

func run(t *testing.T, ctx context.Context, actions ...chromedp.Action) {
	t.Helper()
	require.NoError(t, chromedp.Run(ctx, actions...))
}

func entries(t *testing.T, store *memstore.Store) []runtime.OverrideEntry {
	all, err := store.OverridesSince(t.Context(), 1)
	require.NoError(t, err)
	return all
}

// An operator lists, searches, and changes a key: with scripts, and without.
func TestOperator(t *testing.T) {
	for name, disabled := range map[string]bool{"with scripts": false, "without scripts": true} {
		t.Run(name, func(t *testing.T) {
			at, store := site(t, true)
			ctx := browser(t)
			var list, limit, key, title, after, overridden string
			run(t, ctx, emulation.SetScriptExecutionDisabled(disabled),
				chromedp.Navigate(at), chromedp.Text("body", &list, chromedp.ByQuery), chromedp.Title(&title),
				chromedp.Click(`table.limits a`, chromedp.ByQuery), chromedp.WaitVisible(`form.find`, chromedp.ByQuery), chromedp.Text("body", &limit, chromedp.ByQuery),
				chromedp.SendKeys(`input[name=part]`, hostileKey, chromedp.ByQuery), chromedp.Click(`form.find button`, chromedp.ByQuery),
				chromedp.WaitVisible(`svg`, chromedp.ByQuery), chromedp.Text("body", &key, chromedp.ByQuery))
			assert.Contains(t, limit, hostileDoc)
			assert.Contains(t, list, operate.QuoteKey(hostileKey))
			assert.Equal(t, "Rate limits", title)
			assert.Contains(t, key, "0 of 20 left, full after 2m30s")
			run(t, ctx,
				chromedp.SendKeys(`form.override input[name=rate]`, "50", chromedp.ByQuery), chromedp.SetValue(`form.override select[name=for]`, "until", chromedp.ByQuery),
				chromedp.SetValue(`form.override input[name=until]`, "2099-12-31T06:30", chromedp.ByQuery),
				chromedp.SendKeys(`form.override input[name=reason]`, "launch", chromedp.ByQuery), chromedp.Click(`form.override button`, chromedp.ByQuery),
				chromedp.WaitVisible(`//strong[text()="In force"]`), chromedp.Text("body", &overridden, chromedp.ByQuery),
				chromedp.SendKeys(`form.reset input[name=reason]`, "it was us", chromedp.ByQuery), chromedp.Click(`form.reset button`, chromedp.ByQuery),
				chromedp.WaitVisible(`//td[text()="it was us"]`), chromedp.Text("body", &after, chromedp.ByQuery), chromedp.Title(&title))
			assert.Contains(t, overridden, "rate 50, until 2099-12-31 06:30:00Z")
			assert.Contains(t, after, "20 of 20 left")
			assert.NotEqual(t, "pwned", title)
			log := entries(t, store)
			require.Len(t, log, 2)
			assert.Equal(t, []string{"numbers", "launch", "alice"}, []string{log[0].What, log[0].Reason, log[0].Author})
			assert.Equal(t, []string{"reset", "it was us", "alice"}, []string{log[1].What, log[1].Reason, log[1].Author})
		})
	}
}

// Chromium does not send a form without a reason, and without the leave of the program there are no forms.
func TestForbidden(t *testing.T) {
	at, store := site(t, true)
	ctx := browser(t)
	run(t, ctx, chromedp.Navigate(at), chromedp.Click(`td.text a`, chromedp.ByQuery), chromedp.WaitVisible(`form.reset`, chromedp.ByQuery),
		chromedp.Click(`form.reset button`, chromedp.ByQuery), chromedp.WaitVisible(`form.reset input:invalid`, chromedp.ByQuery))
	assert.Empty(t, entries(t, store))

	at, _ = site(t, false)
	var text string
	run(t, ctx, chromedp.Navigate(at), chromedp.Click(`td.text a`, chromedp.ByQuery), chromedp.WaitVisible(`svg`, chromedp.ByQuery), chromedp.OuterHTML("body", &text, chromedp.ByQuery))
	assert.NotContains(t, text, `action="change"`)
}

// A change of all keys is not sent before its end is chosen, and its box is checked.
func TestWholeLimit(t *testing.T) {
	at, store := site(t, true)
	ctx := browser(t)
	run(t, ctx, chromedp.Navigate(at+"limit?name=send"), chromedp.Click(`form.block button`, chromedp.ByQuery),
		chromedp.WaitVisible(`form.block select[name=for]:invalid`, chromedp.ByQuery))
	run(t, ctx, chromedp.SetValue(`form.block select[name=for]`, "for-good", chromedp.ByQuery),
		chromedp.SendKeys(`form.block input[name=reason]`, "their bug", chromedp.ByQuery), chromedp.Click(`form.block button`, chromedp.ByQuery),
		chromedp.WaitVisible(`form.block input[name=whole]:invalid`, chromedp.ByQuery))
	assert.Empty(t, entries(t, store))
	run(t, ctx, chromedp.Click(`form.block input[name=whole]`, chromedp.ByQuery), chromedp.Click(`form.block button`, chromedp.ByQuery),
		chromedp.WaitVisible(`//p[contains(., "for all keys of send: block, for good")]`))
	log := entries(t, store)
	require.Len(t, log, 1)
	assert.Equal(t, []string{"send", "", "block", "their bug"}, []string{log[0].Limit, log[0].Key, log[0].What, log[0].Reason})
}

// The first page blocks a key in all limits, and says what was done in each.
func TestAllLimits(t *testing.T) {
	at, store := site(t, true)
	ctx := browser(t)
	var done string
	run(t, ctx, chromedp.Navigate(at), chromedp.SendKeys(`form.block input[name="part.user"]`, hostileKey, chromedp.ByQuery),
		chromedp.SetValue(`form.block select[name=for]`, "for-good", chromedp.ByQuery),
		chromedp.SendKeys(`form.block input[name=reason]`, "spam", chromedp.ByQuery), chromedp.Click(`form.block button`, chromedp.ByQuery),
		chromedp.WaitVisible(`table.changed`, chromedp.ByQuery), chromedp.Text("body", &done, chromedp.ByQuery))
	assert.Contains(t, done, "block, for good")
	assert.Contains(t, done, operate.QuoteKey(hostileKey))
	log := entries(t, store)
	require.Len(t, log, 1)
	assert.Equal(t, []string{"send", hostileKey, "block", "spam", "alice"}, []string{log[0].Limit, log[0].Key, log[0].What, log[0].Reason, log[0].Author})
}

// A page of another site posts the form with an id that is right.
func TestCrossSite(t *testing.T) {
	at, store := site(t, true)
	ctx := browser(t)
	var id string
	run(t, ctx, chromedp.Navigate(at), chromedp.Click(`td.text a`, chromedp.ByQuery), chromedp.WaitVisible(`form.reset`, chromedp.ByQuery),
		chromedp.Value(`form.reset input[name=id]`, &id, chromedp.ByQuery))
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`<!DOCTYPE html><form method="post" action="` + at + `change"><input name="limit" value="send"><input name="verb" value="reset">
			<input name="reason" value="r"><input name="id" value="` + id + `"><button>Win</button></form>`))
	}))
	defer evil.Close()
	var text string
	run(t, ctx, chromedp.Navigate(strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)), chromedp.Click(`button`, chromedp.ByQuery),
		chromedp.WaitVisible(`//*[contains(text(), "cross-origin")]`), chromedp.Text("body", &text, chromedp.ByQuery))
	assert.Contains(t, text, "cross-origin request")
	assert.Empty(t, entries(t, store))
}

// A site points its own name at the console: its pages have the same origin, and get nothing.
func TestRebinding(t *testing.T) {
	at, store := site(t, true)
	ctx := browser(t)
	var text, posted, where string
	run(t, ctx, chromedp.Navigate(strings.Replace(at, "127.0.0.1", "evil.example", 1)), chromedp.Text("body", &text, chromedp.ByQuery),
		chromedp.Evaluate(`document.body.innerHTML = '<form method="post" action="change"><input name="limit" value="send"><input name="verb" value="block">' +
			'<input name="whole" value="yes"><input name="for" value="1h"><input name="reason" value="r"><button>Win</button></form>'`, nil),
		chromedp.Click(`button`, chromedp.ByQuery), chromedp.WaitVisible(`.problem`, chromedp.ByQuery), chromedp.Text("body", &posted, chromedp.ByQuery), chromedp.Location(&where))
	assert.Contains(t, text, "does not serve the host")
	assert.NotContains(t, text, "least left")
	assert.Contains(t, posted, "does not serve the host")
	assert.Regexp(t, `^http://evil\.example.*/change$`, where)
	assert.Empty(t, entries(t, store))
}

// worstContrast is the least contrast of a text with its background, by the formula of WCAG 2, with the text.
const worstContrast = `(() => {
	const parse = c => c.match(/[\d.]+/g).map(Number)
	const light = c => { const [r, g, b] = parse(c).map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126*r + .7152*g + .0722*b }
	const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if ((parse(c)[3] ?? 1) > 0) return c }; return 'rgb(255, 255, 255)' }
	const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((x, y) => y - x); return (x + .05) / (y + .05) }
	let worst = [99, '']
	const see = (color, e, text) => { const r = ratio(color, behind(e)); if (r < worst[0]) worst = [r, text] }
	for (const e of document.body.querySelectorAll('*')) {
		const style = getComputedStyle(e), text = e.tagName === 'INPUT' ? e.name : [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.data.trim()).join('')
		if (text) see(e.closest('svg') ? style.fill : style.color, e, text)
		if (e.placeholder) see(getComputedStyle(e, '::placeholder').color, e, e.placeholder)
	}
	return worst
})()`

// Pages are readable in both schemes, on screens of 1000 and of 400 pixels. With the environment variable CONSOLE_SHOTS,
// pictures of them are written to that directory.
func TestReadable(t *testing.T) {
	at, _ := site(t, true)
	ctx := browser(t)
	var key string
	// Overrides in force and a log are to be read too.
	run(t, ctx, chromedp.Navigate(at+"limit?name=send"), chromedp.SetValue(`form.block select[name=for]`, "for-good", chromedp.ByQuery),
		chromedp.SendKeys(`form.block input[name=reason]`, strings.Repeat("their bug ", 20), chromedp.ByQuery),
		chromedp.Click(`form.block input[name=whole]`, chromedp.ByQuery), chromedp.Click(`form.block button`, chromedp.ByQuery), chromedp.WaitVisible(`form.unblock`, chromedp.ByQuery))
	run(t, ctx, chromedp.Navigate(at), chromedp.Click(`td.text a`, chromedp.ByQuery), chromedp.WaitVisible(`svg`, chromedp.ByQuery), chromedp.Location(&key))
	backs := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1000, 400} {
			for page, address := range map[string]string{"all": at, "limit": at + "limit?name=send", "key": key} {
				var back string
				var worst []any
				var wide int64
				var shot []byte
				run(t, ctx, emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
					emulation.SetDeviceMetricsOverride(width, 900, 1, false), chromedp.Navigate(address), chromedp.WaitVisible(`h1`, chromedp.ByQuery),
					chromedp.Evaluate(`document.documentElement.scrollWidth`, &wide), chromedp.Evaluate(worstContrast, &worst),
					chromedp.Evaluate(`getComputedStyle(document.body).backgroundColor`, &back), chromedp.FullScreenshot(&shot, 100))
				name := fmt.Sprintf("%s-%s-%d", page, scheme, width)
				assert.LessOrEqual(t, wide, width, "%s scrolls sideways", name)
				require.Len(t, worst, 2)
				assert.Greater(t, worst[0], 4.5, "%s: the contrast of %q", name, worst[1])
				backs[scheme] = back
				if dir := os.Getenv("CONSOLE_SHOTS"); dir != "" {
					require.NoError(t, os.WriteFile(filepath.Join(dir, name+".png"), shot, 0o644))
				}
			}
		}
	}
	assert.Equal(t, map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 31)"}, backs, "the style of the page is not in force")
}
