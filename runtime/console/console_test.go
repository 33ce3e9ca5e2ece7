package console_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/console"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/observe"
)

var start = time.Date(2026, 11, 22, 9, 30, 0, 0, time.UTC)

const canary = "eve@example.com<b>"

// site is a console with a key of each of two limits that has used tokens.
func site(t *testing.T, o console.Options) (*httptest.Server, *memstore.Store) {
	send := &runtime.Policy{Name: "send", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 20,
		Overrides: runtime.OverrideBounds{Rate: 100, Capacity: 200}}
	daily := &runtime.Policy{Name: "daily", Kind: runtime.FixedWindow, Rate: 5, Period: 24 * time.Hour, Capacity: 5, Shards: 2}
	o.Catalog = &runtime.Catalog{Limits: []runtime.CatalogLimit{
		{Name: "send", Doc: "bounds <script>alert(1)</script>", Key: []runtime.CatalogKey{{Name: "user", Type: "string"}}, Policies: []*runtime.Policy{send}},
		{Name: "daily", Key: []runtime.CatalogKey{{Name: "org", Type: "int64"}}, Policies: []*runtime.Policy{daily}},
	}}
	store := &memstore.Store{Clock: func() time.Time { return start }}
	o.Store = store
	limits := limiter.New(store)
	_, err := limits.Limit(send, runtime.KeyOf(runtime.String(canary))).Charge(t.Context(), 25)
	require.NoError(t, err)
	_, err = limits.Limit(daily, runtime.KeyOf(runtime.Int64(7))).AllowN(t.Context(), 3)
	require.NoError(t, err)
	return mounted(t, o), store
}

// mounted returns a server that has the console below a path.
func mounted(t *testing.T, o console.Options) *httptest.Server {
	mux := http.NewServeMux()
	mux.Handle("/ops/limits/", http.StripPrefix("/ops/limits", console.New(o)))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func allow(*http.Request) (string, bool) { return "alice", true }

// get returns the code and the text of a page.
func get(t *testing.T, at string) (int, string) {
	r, err := http.Get(at)
	require.NoError(t, err)
	defer r.Body.Close()
	return r.StatusCode, textOf(t, r.Body)
}

// labels are the names of cells on small screens, which have no headers.
var labels = regexp.MustCompile(` data-is="[^"]+"`)

// textOf returns a page without the labels of its cells.
func textOf(t *testing.T, page io.Reader) string {
	text, err := io.ReadAll(page)
	require.NoError(t, err)
	return labels.ReplaceAllString(string(text), "")
}

// post posts a form, and returns the code, the text and the final address.
func post(t *testing.T, at string, form url.Values, header ...string) (int, string, string) {
	request, err := http.NewRequest(http.MethodPost, at, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	r, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer r.Body.Close()
	return r.StatusCode, textOf(t, r.Body), r.Request.URL.String()
}

var linkToKey = regexp.MustCompile(`href="(key\?[^"]+)"`)

// keyOf returns the address of the page of the busiest key of a limit, and the id in it.
func keyOf(t *testing.T, server *httptest.Server, limit string) (at, id string) {
	_, text := get(t, server.URL+"/ops/limits/limit?name="+limit)
	m := linkToKey.FindStringSubmatch(text)
	require.NotNil(t, m, text)
	at = server.URL + "/ops/limits/" + strings.ReplaceAll(m[1], "&amp;", "&")
	u, err := url.Parse(at)
	require.NoError(t, err)
	return at, u.Query().Get("id")
}

func logOf(t *testing.T, store *memstore.Store) []runtime.OverrideEntry {
	entries, err := store.OverridesSince(context.Background(), 1)
	require.NoError(t, err)
	return entries
}

func TestListsAndShowsKeys(t *testing.T) {
	server, _ := site(t, console.Options{})
	code, text := get(t, server.URL+"/ops/limits/")
	assert.Equal(t, http.StatusOK, code)
	for _, want := range []string{"send", "daily", "-5", "2m30s"} {
		assert.Contains(t, text, want)
	}
	at, _ := keyOf(t, server, "send")
	code, text = get(t, at)
	assert.Equal(t, http.StatusOK, code)
	assert.Contains(t, text, "0 of 20 left, full after 2m30s")
	assert.Contains(t, text, `<svg role="img"`)
	assert.Equal(t, 1, strings.Count(text, "<h2>Log"))
	assert.NotContains(t, text, "<form method=\"post\" action=\"change\"", "nothing can be changed without AllowChanges")
}

func TestPagesSayThatTheProgramHasAMode(t *testing.T) {
	c := &runtime.Catalog{Limits: []runtime.CatalogLimit{{Name: "send", Policies: []*runtime.Policy{{Name: "send", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 10}}}}}
	for mode, want := range map[runtime.Mode]string{runtime.ModeShadow: "No limit is stricter than shadow in this program", runtime.ModeOff: "No limit is stricter than off in this program"} {
		store := &memstore.Store{}
		server := mounted(t, console.Options{Store: store, Catalog: c})
		limiter.New(store, limiter.Mode(mode))
		for _, page := range []string{"", "limit?name=send", "log"} {
			_, text := get(t, server.URL+"/ops/limits/"+page)
			assert.Contains(t, text, want, page)
		}
	}
	_, text := get(t, mounted(t, console.Options{Store: &memstore.Store{}, Catalog: c}).URL+"/ops/limits/")
	assert.NotContains(t, text, "in this program")
	_, text = get(t, mounted(t, console.Options{Store: &memstore.Store{}, Catalog: &runtime.Catalog{}}).URL+"/ops/limits/")
	assert.Contains(t, text, "This program has no limits.")
}

// What the catalog has is there for operators to see. The policies are in the rows of keys.
func TestPageOfALimitHasEachFieldOfTheCatalog(t *testing.T) {
	limit := runtime.CatalogLimit{
		Key:      []runtime.CatalogKey{{Name: "theKey", Type: "string"}},
		Policies: []*runtime.Policy{{Name: "theName", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 10}},
	}
	v := reflect.ValueOf(&limit).Elem()
	for i := range v.NumField() {
		switch f := v.Type().Field(i); {
		case f.IsExported() && v.Field(i).Kind() == reflect.String:
			v.Field(i).SetString("the" + f.Name)
		case f.Type == reflect.TypeFor[[]string]():
			v.Field(i).Set(reflect.ValueOf([]string{"the" + f.Name}))
		}
	}
	server := mounted(t, console.Options{Store: &memstore.Store{}, Catalog: &runtime.Catalog{Limits: []runtime.CatalogLimit{limit}}})
	_, text := get(t, server.URL+"/ops/limits/limit?name=theName")
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && f.Name != "Policies" {
			assert.Contains(t, text, "the"+f.Name, "no page of the console shows CatalogLimit.%s: add it to runtime/console/page.html", f.Name)
		}
	}
}

func TestDrawsTheThresholds(t *testing.T) {
	p := &runtime.Policy{Name: "send", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 20, Warn: runtime.Thresholds{80, 100}}
	store := &memstore.Store{Clock: func() time.Time { return start }}
	server := mounted(t, console.Options{Store: store, Catalog: &runtime.Catalog{Limits: []runtime.CatalogLimit{
		{Name: "send", Key: []runtime.CatalogKey{{Name: "user", Type: "int64"}}, Policies: []*runtime.Policy{p}}}}})
	_, err := limiter.New(store).Limit(p, runtime.KeyOf(runtime.Int64(7))).AllowN(t.Context(), 17)
	require.NoError(t, err)
	at, _ := keyOf(t, server, "send")
	_, text := get(t, at)
	assert.Contains(t, text, "warns at [80%, 100%]", "the words")
	assert.Contains(t, text, ">warns at 80%</text>", "a line of the drawing")
}

// The drawing is by the override in force, as the words are.
func TestDrawsByTheOverride(t *testing.T) {
	server, _ := site(t, console.Options{AllowChanges: allow})
	at, id := keyOf(t, server, "send")
	_, text, _ := post(t, server.URL+"/ops/limits/change", url.Values{"limit": {"send"}, "id": {id}, "verb": {"override"},
		"rate": {"50"}, "capacity": {"80"}, "for": {"1h"}, "reason": {"launch"}})
	assert.Contains(t, text, "55 of 80 left")
	assert.Contains(t, text, `from 55 to 80 of 80"`)
	_, again := get(t, at)
	assert.Equal(t, text, again, "the redirect leads to the page of the key")
}

// Lists are by the override in force for each key, and describe it.
func TestListsByTheOverride(t *testing.T) {
	server, _ := site(t, console.Options{AllowChanges: allow})
	_, id := keyOf(t, server, "send")
	const at = "/ops/limits/"
	_, text := get(t, server.URL+at)
	assert.NotContains(t, text, `<br><span class="quiet">`)
	for form, want := range map[string]string{
		"verb=override&capacity=80&for=for-good&reason=launch": `<br><span class="quiet">capacity 80, for good</span></td><td><meter min="0" max="1" low="0.8" high="0.999" optimum="0" value="0.312">0.312</meter></td><td class="number">55 of 80</td><td class="number">2m30s</td>`,
		"verb=block&for=24h&reason=spam":                       `<br><span class="quiet">block, until `,
	} {
		values, err := url.ParseQuery(form)
		require.NoError(t, err)
		values.Set("limit", "send")
		values.Set("id", id)
		_, _, _ = post(t, server.URL+at+"change", values)
		for _, page := range []string{at, at + "limit?name=send"} {
			_, text := get(t, server.URL+page)
			assert.Contains(t, text, want, page)
		}
		_, _, _ = post(t, server.URL+at+"change", url.Values{"limit": {"send"}, "id": {id}, "verb": {"end"}, "reason": {"r"}})
	}
}

// A list by the smallest plan says so, and shows a key by the plan that an operator has given it.
func TestListsOfPlans(t *testing.T) {
	bounds := runtime.OverrideBounds{Rate: 100, Capacity: 200}
	plans := runtime.PlanPolicies{
		1: {Name: "calls", Kind: runtime.TokenBucket, Rate: 60, Period: time.Minute, Capacity: 100, Overrides: bounds},
		2: {Name: "calls", Kind: runtime.TokenBucket, Rate: 100, Period: time.Minute, Capacity: 200, Overrides: bounds},
	}.Overridable(runtime.PlanNames{1: "free", 2: "pro"})
	catalog := &runtime.Catalog{Plans: []string{"free", "pro"}, Limits: []runtime.CatalogLimit{
		{Name: "calls", Key: []runtime.CatalogKey{{Name: "org", Type: "int64"}}, Policies: []*runtime.Policy{&plans[1], &plans[2]}}}}
	store := &memstore.Store{Clock: func() time.Time { return start }}
	limits := limiter.New(store)
	for org := range int64(2) {
		_, err := limits.Limit(&plans[1], runtime.KeyOf(runtime.Int64(org))).Charge(t.Context(), 30)
		require.NoError(t, err)
	}
	_, err := limits.Overrides(&plans[1], runtime.KeyOf(runtime.Int64(1))).Set(t.Context(),
		runtime.Override{Plan: override.PlanName("pro"), Until: runtime.ForGood(), Reason: "r", Author: "a"})
	require.NoError(t, err)
	server := httptest.NewServer(console.New(console.Options{Catalog: catalog, Store: store, ShowKeys: true}))
	defer server.Close()
	_, text := get(t, server.URL+"/limit?name=calls")
	assert.Regexp(t, `>0</a></td><td>free</td><td><meter .*value="0.300">.*<td class="number">70 of 100</td>`, text)
	assert.Regexp(t, `>1</a><br><span class="quiet">plan pro, for good</span></td><td>pro</td>.*<td class="number">170 of 200</td>`, text)
	assert.Contains(t, text, "read by their smallest plan here")
}

// The first page leads to who is blocked, until when and why, the blocks before the overrides.
func TestLeadsToWhoIsBlockedAndWhy(t *testing.T) {
	server, store := site(t, console.Options{ShowKeys: true})
	send := &runtime.Policy{Name: "send", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 20,
		Overrides: runtime.OverrideBounds{Rate: 100, Capacity: 200}}
	_, text := get(t, server.URL+"/ops/limits/limit?name=send")
	assert.Contains(t, text, "No key has one.")
	_, text = get(t, server.URL+"/ops/limits/limit?name=daily")
	assert.NotContains(t, text, "a block or an override", "the limit can have none")

	limits := limiter.New(store)
	of := func(key string) limiter.Overrides { return limits.Overrides(send, runtime.KeyOf(runtime.String(key))) }
	_, err := of("mallory").Block(t.Context(), runtime.Block{Until: start.Add(time.Hour), Reason: "scripted sign-ups", Author: "bob"})
	require.NoError(t, err)
	for i := range 120 {
		_, err := of(fmt.Sprint("partner", i)).Set(t.Context(), runtime.Override{Rate: 50, Until: runtime.ForGood(), Reason: fmt.Sprint("contract ", i), Author: "carol"})
		require.NoError(t, err)
	}
	_, text = get(t, server.URL+"/ops/limits/")
	assert.Regexp(t, `(?s)<a href="#in-force">.*<h2 id="in-force">[^<]*</h2>.*<tr><td><a href="limit\?name=send">send</a></td><td class="text"><a href="key[^>]*>mallory</a></td>`+
		`<td class="text">block, until 2026-11-22 10:30:00Z</td><td class="text">scripted sign-ups</td><td class="text">bob</td></tr>.*And 21 others`, text, "who is blocked and why, one click from the top")
	assert.Contains(t, text, `<a href="limit?name=send#in-force">1</a></td><td class="number"><a href="limit?name=send#in-force">120</a>`)
	assert.Regexp(t, `daily</a></td>.*<td class="number"></td><td class="number"></td></tr>`, text)
	_, text = get(t, server.URL+"/ops/limits/limit?name=send")
	_, table, _ := strings.Cut(text, `<h2 id="in-force">`)
	assert.Regexp(t, `(?s)^[^<]*</h2>.*</thead><tbody>\s*<tr><td class="text"><a href="key[^>]*>mallory</a></td><td class="text">block, until 2026-11-22 10:30:00Z</td>`+
		`<td class="text">scripted sign-ups</td><td class="text">bob</td></tr>\s*<tr>.*partner119<.*contract 119`, table)
	assert.Equal(t, 99, strings.Count(table, "carol"))
	assert.Contains(t, table, "And 21 others")
}

// The page of a limit lists its exceptions. The page of a key has its exception, and shows the tokens by it.
func TestShowsExceptions(t *testing.T) {
	p := &runtime.Policy{Name: "calls", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 10}
	key := func(org int64) runtime.Key { return runtime.KeyOf(runtime.Int64(org)) }
	exceptions := []runtime.Exception{
		{Key: key(42).String(), Mode: runtime.ModeBlock, Reason: "abuse"},
		{Key: key(7).String(), Numbers: runtime.Numbers{Rate: 500, Capacity: 1000}, Reason: "migration\u202e"},
	}
	for i := range int64(200) {
		exceptions = append(exceptions, runtime.Exception{Key: key(1000 + i).String(), Numbers: runtime.Numbers{Rate: 20}, Reason: "contract"})
	}
	of := p.Except(exceptions)
	store := &memstore.Store{Clock: func() time.Time { return start }}
	_, err := limiter.New(store).Limit(of.For(p, key(7))).AllowN(t.Context(), 100)
	require.NoError(t, err)
	server := mounted(t, console.Options{Store: store, ShowKeys: true, Catalog: &runtime.Catalog{Limits: []runtime.CatalogLimit{
		{Name: "calls", Key: []runtime.CatalogKey{{Name: "org", Type: "int64"}}, Policies: []*runtime.Policy{p}}}}})
	_, text := get(t, server.URL+"/ops/limits/limit?name=calls")
	_, table, _ := strings.Cut(text, "<h2>Exceptions in limits.yaml</h2>")
	assert.Regexp(t, `>42</a></td><td class="text">mode block: abuse</td></tr>\s*<tr><td class="text"><a [^>]*>7</a></td><td class="text">rate 500, capacity 1000: migration\\u202e</td>`, table)
	assert.Equal(t, 98, strings.Count(table, "contract"))
	assert.Contains(t, table, "And 102 others.")
	assert.Contains(t, text, `<td class="number">900 of 1,000</td>`)
	_, text, _ = post(t, server.URL+"/ops/limits/find", url.Values{"limit": {"calls"}, "part": {"7"}})
	assert.Contains(t, text, "<strong>Exception</strong> of this key in limits.yaml: rate 500, capacity 1000: migration")
	assert.Contains(t, text, "900 of 1,000 left")
	_, text, _ = post(t, server.URL+"/ops/limits/find", url.Values{"limit": {"calls"}, "part": {"8"}})
	assert.NotContains(t, text, "Exception")
}

func TestFindsAKeyByItsParts(t *testing.T) {
	server, _ := site(t, console.Options{})
	code, text, at := post(t, server.URL+"/ops/limits/find", url.Values{"limit": {"daily"}, "part": {"7"}})
	assert.Equal(t, http.StatusOK, code)
	assert.Contains(t, text, "2 of 5 left")
	assert.Contains(t, at, "/ops/limits/key?")
	code, text, _ = post(t, server.URL+"/ops/limits/find", url.Values{"limit": {"daily"}, "part": {"seven"}})
	assert.Equal(t, http.StatusBadRequest, code)
	assert.Contains(t, text, "is of the type int64")
}

// A console without the secret of the program would show another key, with a full count.
func TestFindsNoKeyWithoutItsSecret(t *testing.T) {
	p := &runtime.Policy{Name: "login", Kind: runtime.TokenBucket, Rate: 5, Period: time.Hour, Capacity: 5}
	plain := runtime.NewCatalog("example.com/app", runtime.Catalog{Limits: []runtime.CatalogLimit{
		{Name: "login", Key: []runtime.CatalogKey{{Name: "email", Type: "hashed string"}}, Policies: []*runtime.Policy{p}},
	}})
	secret, store := []byte("0123456789abcdef"), &memstore.Store{}
	_, err := limiter.New(store, limiter.HashKeys(secret)).Limit(p, runtime.KeyOf(runtime.Hashed("ann@example.com"))).Allow(t.Context())
	require.NoError(t, err)
	form := url.Values{"limit": {"login"}, "part": {"ann@example.com"}}
	for name, c := range map[string]*runtime.Catalog{"none": plain, "another": plain.HashKeys([]byte("fedcba9876543210")), "": plain.HashKeys(secret)} {
		server := mounted(t, console.Options{Catalog: c, Store: store})
		code, text, _ := post(t, server.URL+"/ops/limits/find", form)
		if name == "" {
			assert.Equal(t, http.StatusOK, code)
			assert.Contains(t, text, "4 of 5 left")
			continue
		}
		assert.Equal(t, http.StatusInternalServerError, code, name)
		assert.Contains(t, text, "their keys are hashed with the secret", name)
	}
}

// No page, link or error has a key unless ShowKeys is set, and then as text.
func TestKeysAreFingerprints(t *testing.T) {
	for _, show := range []bool{false, true} {
		server, _ := site(t, console.Options{ShowKeys: show, AllowChanges: allow})
		at, _ := keyOf(t, server, "send")
		assert.NotContains(t, at, "example.com")
		for _, page := range []string{server.URL + "/ops/limits/", at} {
			_, text := get(t, page)
			assert.Equal(t, show, strings.Contains(text, "eve@example.com&lt;b&gt;"), page)
			assert.NotContains(t, text, canary)
			assert.NotContains(t, text, "<script")
			assert.NotRegexp(t, `(src|href)="(https?:)?//`, text, "assets of others")
		}
	}
}

// No page has a character that reorders text or hides in it, whoever wrote the text.
func TestPagesHaveNoHiddenCharacters(t *testing.T) {
	const hidden = "\u202e\u200b\u2028\u00ad"
	policy := &runtime.Policy{Name: "send", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 20,
		Overrides: runtime.OverrideBounds{Rate: 100, Capacity: 200}}
	key := runtime.KeyOf(runtime.String("eve" + hidden))
	for _, show := range []bool{false, true} {
		store := &memstore.Store{Clock: func() time.Time { return start }}
		limits := limiter.New(store)
		_, err := limits.Limit(policy, key).Charge(t.Context(), 25)
		require.NoError(t, err)
		_, err = limits.Overrides(policy, key).Block(t.Context(), runtime.Block{Until: runtime.ForGood(), Reason: "spam" + hidden, Author: "ann" + hidden})
		require.NoError(t, err)
		server := httptest.NewServer(console.New(console.Options{Store: store, ShowKeys: show, AllowChanges: allow, Catalog: &runtime.Catalog{Limits: []runtime.CatalogLimit{
			{Name: "send", Doc: "bounds" + hidden, Key: []runtime.CatalogKey{{Name: "user", Type: "string"}}, Policies: []*runtime.Policy{policy}}}}}))
		defer server.Close()
		_, limit := get(t, server.URL+"/limit?name=send")
		m := linkToKey.FindStringSubmatch(limit)
		require.NotNil(t, m)
		_, page := get(t, server.URL+"/"+strings.ReplaceAll(m[1], "&amp;", "&"))
		_, index := get(t, server.URL+"/")
		_, found, _ := post(t, server.URL+"/find", url.Values{"fingerprint": {"99cf03e7" + hidden}})
		_, mistake, _ := post(t, server.URL+"/change", url.Values{"limit": {"send" + hidden}, "whole": {"yes"}, "verb": {"block"}, "reason": {"r"}})
		for _, text := range []string{limit, page, index, found, mistake} {
			for _, r := range text {
				require.False(t, unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp), "%q in %s", r, text)
			}
		}
		for _, text := range []string{limit, page, index} {
			assert.Equal(t, show, strings.Contains(text, "eve%E2%80%AE%E2%80%8B%E2%80%A8%C2%AD"))
		}
		assert.Contains(t, page, `spam\u202e\u200b\u2028\u00ad`)
	}
}

// A page of another site cannot reach the console by a name of its own that it points at the console's address.
func TestServesItsHostsOnly(t *testing.T) {
	server, store := site(t, console.Options{AllowChanges: allow, Hosts: []string{"ops.example.com"}})
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:8080": 200, "127.0.0.1": 200, "127.0.0.1:80": 200, "[::1]:80": 200, "192.0.2.7:80": 200,
		"ops.example.com": 200, "Ops.Example.com.:443": 200,
		"evil.example": 421, "evil.example:80": 421, "ops.example.com.evil.example": 421, "x.ops.example.com": 421, "localhost.evil.example": 421,
		"127.0.0.1.evil.example": 421, "evil.example@localhost": 421, "ops.example.com:x": 421,
	} {
		for _, method := range []string{"GET", "POST"} {
			form := url.Values{"limit": {"send"}, "verb": {"block"}, "whole": {"yes"}, "for": {"1h"}, "reason": {"r"}}
			request, err := http.NewRequest(method, server.URL+"/ops/limits/", nil)
			if method == "POST" {
				request, err = http.NewRequest(method, server.URL+"/ops/limits/change", strings.NewReader(form.Encode()))
				request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				// The browser takes the page for one of the same origin.
				request.Header.Set("Sec-Fetch-Site", "same-origin")
				if want == 200 {
					continue
				}
			}
			require.NoError(t, err)
			request.Host = host
			r, err := http.DefaultTransport.RoundTrip(request)
			require.NoError(t, err, host)
			text, err := io.ReadAll(r.Body)
			r.Body.Close()
			require.NoError(t, err)
			if strings.Contains(host, "@") || strings.HasSuffix(host, ":x") {
				assert.GreaterOrEqual(t, r.StatusCode, 400, host)
				continue
			}
			assert.Equal(t, want, r.StatusCode, host)
			assert.Equal(t, want != 200, strings.Contains(string(text), "add its name to the Hosts"), host)
		}
	}
	assert.Empty(t, logOf(t, store))
}

func TestChangesNeedLeave(t *testing.T) {
	for name, o := range map[string]console.Options{"no function": {}, "refused": {AllowChanges: func(*http.Request) (string, bool) { return "eve", false }},
		"no author": {AllowChanges: func(*http.Request) (string, bool) { return "", true }}} {
		server, store := site(t, o)
		_, id := keyOf(t, server, "send")
		code, _, _ := post(t, server.URL+"/ops/limits/change", url.Values{"limit": {"send"}, "id": {id}, "verb": {"reset"}, "reason": {"r"}})
		assert.Equal(t, http.StatusForbidden, code, name)
		assert.Empty(t, logOf(t, store))
	}
}

func TestChangesOfOtherSitesAreRefused(t *testing.T) {
	server, store := site(t, console.Options{AllowChanges: allow})
	_, id := keyOf(t, server, "send")
	form := url.Values{"limit": {"send"}, "id": {id}, "verb": {"reset"}, "reason": {"r"}}
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}} {
		code, _, _ := post(t, server.URL+"/ops/limits/change", form, header...)
		assert.Equal(t, http.StatusForbidden, code, header)
	}
	code, _ := get(t, server.URL+"/ops/limits/change?"+form.Encode())
	assert.Equal(t, http.StatusMethodNotAllowed, code)
	assert.Empty(t, logOf(t, store))
}

func TestChanges(t *testing.T) {
	server, store := site(t, console.Options{AllowChanges: allow})
	_, id := keyOf(t, server, "send")
	for _, row := range []struct {
		form     url.Values
		code     int
		contains string
		entries  int
	}{
		{url.Values{"verb": {"reset"}}, 400, "it needs a reason", 0},
		{url.Values{"verb": {"grant"}, "n": {"10"}, "reason": {"our <outage>"}}, 200, "our &lt;outage&gt;", 1},
		{url.Values{"verb": {"take"}, "n": {"x"}, "reason": {"r"}}, 400, "n must be a whole number, at least 1, not &#34;x&#34;", 1},
		{url.Values{"verb": {"take"}, "n": {"0"}, "reason": {"r"}}, 400, "at least 1", 1},
		{url.Values{"verb": {"take"}, "reason": {"r"}}, 400, "the number of tokens must be from 1", 1},
		{url.Values{"verb": {"override"}, "rate": {"-5"}, "for": {"1h"}, "reason": {"r"}}, 400, "at least 1", 1},
		{url.Values{"verb": {"override"}, "rate": {"5"}, "mode": {"block"}, "for": {"1h"}, "reason": {"r"}}, 400, "to deny requests, use block", 1},
		{url.Values{"verb": {"block"}, "for": {"-1h"}, "reason": {"r"}}, 400, "choose when it ends", 1},
		{url.Values{"verb": {"block"}, "for": {"1h"}, "whole": {"yes"}, "reason": {"r"}}, 400, "not both", 1},
		{url.Values{"verb": {"take"}, "n": {"2"}, "reason": {"-author"}}, 200, "taken 2", 2},
		{url.Values{"verb": {"override"}, "rate": {"50"}, "capacity": {"80"}, "for": {"1h"}, "reason": {"launch"}}, 200, "rate 50, capacity 80, until", 3},
		{url.Values{"verb": {"override"}, "rate": {"5000"}, "for": {"1h"}, "reason": {"launch"}}, 400, "more than 100", 3},
		{url.Values{"verb": {"end"}, "reason": {"over"}}, 200, "ended", 4},
		{url.Values{"verb": {"block"}, "for": {"1h"}, "reason": {"spam"}}, 200, "block, until", 5},
		{url.Values{"verb": {"unblock"}, "reason": {"no spam"}}, 200, "unblocked", 6},
		{url.Values{"verb": {"reset"}, "reason": {"it was us"}}, 200, "20 of 20 left", 7},
		{url.Values{"verb": {"block"}, "reason": {"r"}}, 400, "say when it ends", 7},
		{url.Values{"verb": {"block"}, "for": {"until"}, "reason": {"r"}}, 400, "the time must be as in 2027-01-31T06:30", 7},
		{url.Values{"verb": {"block"}, "for": {"until"}, "until": {"2020-01-01T00:00"}, "reason": {"r"}}, 400, "is not after the present", 7},
		{url.Values{"verb": {"block"}, "for": {"until"}, "until": {"2099-12-31T06:30"}, "reason": {"r"}}, 200, "block, until 2099-12-31 06:30:00Z", 8},
		{url.Values{"verb": {"block"}, "for": {"for-good"}, "until": {"2099-12-31T06:30"}, "reason": {"r"}}, 200, "block, for good", 9},
		{url.Values{"verb": {"override"}, "rate": {"7"}, "for": {"for-good"}, "reason": {"r"}}, 200, "rate 7, for good", 10},
		{url.Values{"verb": {"end"}, "reason": {"r"}}, 200, "ended", 11},
		{url.Values{"verb": {"drop"}, "reason": {"r"}}, 400, "there is no change &#34;drop&#34;", 11},
		{url.Values{"verb": {"block"}, "for": {"1h"}, "reason": {"r"}}, 200, "block, until", 12},
		{url.Values{"verb": {"erase"}, "reason": {"r"}}, 400, "a block or an override of the key is in force", 12},
		{url.Values{"verb": {"end"}, "reason": {"r"}}, 200, "ended", 13},
	} {
		row.form.Set("limit", "send")
		row.form.Set("id", id)
		code, text, _ := post(t, server.URL+"/ops/limits/change", row.form)
		assert.Equal(t, row.code, code, "%v", row.form)
		assert.Contains(t, text, row.contains, "%v", row.form)
		require.Len(t, logOf(t, store), row.entries, "%v", row.form)
	}
	for _, e := range logOf(t, store) {
		assert.Equal(t, "alice", e.Author)
	}
	_, text, _ := post(t, server.URL+"/ops/limits/change", url.Values{"limit": {"send"}, "id": {id}, "verb": {"block"}, "for": {"1h"}, "reason": {"r"}})
	require.Contains(t, text, "block, until")
	_, text = get(t, server.URL+"/ops/limits/limit?name=send")
	assert.Regexp(t, `(?s)Keys with a block or an override.*<td class="text">block, until`, text)
	// The id of one limit is not one of another.
	code, _, _ := post(t, server.URL+"/ops/limits/change", url.Values{"limit": {"daily"}, "id": {id}, "verb": {"reset"}, "reason": {"r"}})
	assert.Equal(t, http.StatusBadRequest, code)
}

// The log of all limits has the entries of every limit in pages, and no key that was erased.
func TestLogOfAllLimits(t *testing.T) {
	server, store := site(t, console.Options{AllowChanges: allow, ShowKeys: true})
	_, text := get(t, server.URL+"/ops/limits/")
	assert.Contains(t, text, `<a href="log">`)
	_, text = get(t, server.URL+"/ops/limits/log")
	assert.Contains(t, text, "There are no entries.")
	key, id := keyOf(t, server, "send")
	for i := range 101 {
		code, _, _ := post(t, server.URL+"/ops/limits/change", url.Values{"limit": {"send"}, "id": {id}, "verb": {"take"}, "n": {fmt.Sprint(i + 1)}, "reason": {"r"}})
		require.Equal(t, http.StatusOK, code)
	}
	_, text = get(t, server.URL+"/ops/limits/log")
	assert.Contains(t, text, "taken 101<")
	assert.NotContains(t, text, "taken 1<")
	assert.Contains(t, text, `<a href="log?before=2">Older entries</a>`)
	_, text = get(t, server.URL+"/ops/limits/log?before=2")
	assert.Contains(t, text, "taken 1<")
	assert.Contains(t, text, `<td>send</td><td class="text"><a href="key?`)
	assert.NotContains(t, text, "Older entries")

	_, text = get(t, key)
	assert.Contains(t, text, `<form method="post" action="change" class="erase">`)
	code, text, _ := post(t, server.URL+"/ops/limits/change", url.Values{"limit": {"send"}, "id": {id}, "verb": {"erase"}, "reason": {"asked"}})
	require.Equal(t, http.StatusOK, code)
	assert.Contains(t, text, "20 of 20 left")
	_, text = get(t, server.URL+"/ops/limits/log")
	assert.Contains(t, text, `<td class="text">erased</td><td class="text">erased</td><td class="text">alice</td><td class="text">asked</td>`)
	assert.NotContains(t, text, `<a href="key?`)
	for _, e := range logOf(t, store) {
		assert.NotEqual(t, canary, e.Key)
	}
}

// The fingerprint of a log or of the list of denied keys finds the key, if the secret is the same.
func TestFindsAKeyByItsFingerprint(t *testing.T) {
	secret := []byte("one secret for all")
	denials := observe.NewDenials(observe.Options{Secret: secret})
	server, store := site(t, console.Options{Secret: secret, Denials: denials})
	send := &runtime.Policy{Name: "send", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 20}
	for range 3 {
		d, err := limiter.New(store, limiter.Observe(denials)).Limit(send, runtime.KeyOf(runtime.String(canary))).Allow(t.Context())
		require.NoError(t, err)
		require.False(t, d.Allowed)
	}
	top := denials.Top("send")
	require.Len(t, top, 1)
	_, text := get(t, server.URL+"/ops/limits/limit?name=send")
	assert.Contains(t, text, `<button name="fingerprint" value="`+top[0].Fingerprint+`">`)
	assert.Contains(t, text, `<td class="number">3</td>`)
	_, text = get(t, server.URL+"/ops/limits/")
	assert.Regexp(t, `send</a></td><td class="number">1</td><td class="number">-5 of 20</td><td class="number"></td><td class="number"></td><td class="number">1</td>`, text)

	code, text, _ := post(t, server.URL+"/ops/limits/find", url.Values{"fingerprint": {" " + strings.ToUpper(top[0].Fingerprint)}})
	assert.Equal(t, http.StatusOK, code)
	m := linkToKey.FindStringSubmatch(text)
	require.NotNil(t, m, text)
	_, text = get(t, server.URL+"/ops/limits/"+strings.ReplaceAll(m[1], "&amp;", "&"))
	assert.Contains(t, text, "0 of 20 left, full after 2m30s")
	assert.Contains(t, text, "<h1>send "+runtime.Fingerprint(secret, runtime.KeyOf(runtime.String(canary)).String())+"</h1>")

	_, text, _ = post(t, server.URL+"/ops/limits/find", url.Values{"fingerprint": {"99cf03e72f3b"}})
	assert.Contains(t, text, "No stored key has this fingerprint")
}

// A change of all keys needs the box that confirms it, and only blocks and overrides can be changed so.
func TestChangesOfTheWholeLimit(t *testing.T) {
	server, store := site(t, console.Options{AllowChanges: allow})
	_, text := get(t, server.URL+"/ops/limits/limit?name=send")
	assert.Contains(t, text, "This is for all keys of send at once")
	for _, row := range []struct {
		form     url.Values
		code     int
		contains string
		entries  int
	}{
		{url.Values{"verb": {"block"}, "for": {"1h"}, "reason": {"r"}}, 400, "confirm that the change is for all keys", 0},
		{url.Values{"verb": {"reset"}, "reason": {"r"}, "whole": {"yes"}}, 400, "reset is for one key", 0},
		{url.Values{"verb": {"override"}, "max-reserved": {"7"}, "for": {"1h"}, "reason": {"r"}, "whole": {"yes"}}, 400, "maxReserved 0, which overrides cannot change", 0},
		{url.Values{"verb": {"block"}, "for": {"1h"}, "reason": {"their bug"}, "whole": {"yes"}}, 200, "for all keys of send: block, until", 1},
		{url.Values{"verb": {"unblock"}, "reason": {"mended"}, "whole": {"yes"}}, 200, "mended", 2},
	} {
		row.form.Set("limit", "send")
		code, text, at := post(t, server.URL+"/ops/limits/change", row.form)
		assert.Equal(t, row.code, code, "%v", row.form)
		assert.Contains(t, text, row.contains, "%v", row.form)
		require.Len(t, logOf(t, store), row.entries, "%v", row.form)
		if code == 200 {
			assert.True(t, strings.HasSuffix(at, "/ops/limits/limit?name=send"), at)
		}
	}
	for _, e := range logOf(t, store) {
		assert.Empty(t, e.Key)
	}
	_, text = get(t, server.URL+"/ops/limits/limit?name=daily")
	assert.NotContains(t, text, `action="change"`, "a limit without overrides")
}

// A change in all limits is made in those with just such a key, and the page says what was done in each.
func TestChangesInAllLimits(t *testing.T) {
	server, store := site(t, console.Options{AllowChanges: allow, ShowKeys: true})
	_, text := get(t, server.URL+"/ops/limits/")
	assert.Contains(t, text, `name="part.user"`)
	assert.Contains(t, text, `name="part.org"`)
	for _, row := range []struct {
		form     url.Values
		code     int
		contains []string
		entries  int
	}{
		{url.Values{"verb": {"block"}, "for": {"1h"}, "reason": {"spam"}}, 400, []string{"no limit has a key of just"}, 0},
		{url.Values{"verb": {"block"}, "for": {"1h"}, "reason": {"spam"}, "part.user": {canary}, "part.org": {"7"}}, 400,
			[]string{"no limit has a key of just"}, 0},
		{url.Values{"verb": {"block"}, "for": {"1h"}, "reason": {"spam"}, "part.user": {canary}, "part.org": {""}}, 200,
			[]string{"block, until 2026-11-22 10:30:00Z", "nothing was changed: it has another key, ORG:int64"}, 1},
		{url.Values{"verb": {"unblock"}, "reason": {"mended"}, "part.user": {canary}}, 200, []string{"unblocked"}, 2},
		{url.Values{"verb": {"erase"}, "reason": {"ticket 7"}, "part.org": {"7"}}, 200, []string{"erased", "USER:string"}, 3},
	} {
		row.form.Set("all", "yes")
		code, text, _ := post(t, server.URL+"/ops/limits/change", row.form)
		assert.Equal(t, row.code, code, "%v", row.form)
		for _, part := range row.contains {
			assert.Contains(t, text, part, "%v", row.form)
		}
		require.Len(t, logOf(t, store), row.entries, "%v", row.form)
	}
	for _, e := range logOf(t, store) {
		assert.Equal(t, "alice", e.Author)
	}
	server, _ = site(t, console.Options{})
	_, text = get(t, server.URL+"/ops/limits/")
	assert.NotContains(t, text, "<fieldset>")
}

// The page of the only key of a limit ends what is in force for it.
func TestEndsTheBlockOfALimitWithoutKey(t *testing.T) {
	p := &runtime.Policy{Name: "signUp", Kind: runtime.TokenBucket, Rate: 1, Period: time.Minute, Capacity: 1, Overrides: runtime.OverrideBounds{Rate: 2, Capacity: 2}}
	store := &memstore.Store{Clock: func() time.Time { return start }}
	server := httptest.NewServer(console.New(console.Options{Store: store, AllowChanges: allow,
		Catalog: &runtime.Catalog{Limits: []runtime.CatalogLimit{{Name: "signUp", Policies: []*runtime.Policy{p}}}}}))
	t.Cleanup(server.Close)
	_, text, at := post(t, server.URL+"/find", url.Values{"limit": {"signUp"}})
	require.NotContains(t, text, `value="unblock"`)
	u, err := url.Parse(at)
	require.NoError(t, err)
	form := url.Values{"limit": {"signUp"}, "id": {u.Query().Get("id")}, "reason": {"r"}, "verb": {"block"}, "for": {"1h"}}
	_, text, _ = post(t, server.URL+"/change", form)
	require.Contains(t, text, `value="unblock"`)
	form.Set("verb", "unblock")
	_, text, _ = post(t, server.URL+"/change", form)
	require.NotContains(t, text, "In force")
	require.Len(t, logOf(t, store), 2)
}

// registered is a store that another program uses, too.
type registered struct{ *memstore.Store }

func (registered) Registrations(context.Context) ([]runtime.Registration, error) {
	return []runtime.Registration{{Limit: "send", Owner: "own.example"}, {Limit: "visit", Owner: "<other.example>"}}, nil
}

func TestNamesTheLimitsOfOtherPrograms(t *testing.T) {
	p := &runtime.Policy{Name: "send", Kind: runtime.TokenBucket, Rate: 1, Period: time.Minute, Capacity: 1}
	server := httptest.NewServer(console.New(console.Options{Store: registered{&memstore.Store{}},
		Catalog: &runtime.Catalog{Limits: []runtime.CatalogLimit{{Name: "send", Policies: []*runtime.Policy{p}}}}}))
	t.Cleanup(server.Close)
	_, text := get(t, server.URL)
	assert.Contains(t, text, "Not a limit of this program: visit, of &lt;other.example&gt;")
	assert.NotContains(t, text, "own.example")
	code, _ := get(t, server.URL+"/limit?name=visit")
	assert.Equal(t, 404, code)
}

// counting counts the pages of rows that are read.
type counting struct {
	*memstore.Store
	pages int
}

func (c *counting) Rows(ctx context.Context, after runtime.Row, limit int) ([]runtime.StoredRow, int64, error) {
	c.pages++
	return c.Store.Rows(ctx, after, limit)
}

// The first page has a row for each of 100 limits, and the busiest keys of all; it reads a bounded number of pages.
func TestManyLimits(t *testing.T) {
	now := start
	store := &counting{Store: &memstore.Store{Clock: func() time.Time { return now }}}
	catalog := &runtime.Catalog{}
	limits := limiter.New(store)
	for i := range 100 {
		p := &runtime.Policy{Name: fmt.Sprintf("limit%03d", i), Kind: runtime.TokenBucket, Rate: 1000, Period: time.Hour, Capacity: 1000}
		catalog.Limits = append(catalog.Limits, runtime.CatalogLimit{Name: p.Name, Key: []runtime.CatalogKey{{Name: "user", Type: "int64"}}, Policies: []*runtime.Policy{p}})
		for user := range 10 {
			_, err := limits.Limit(p, runtime.KeyOf(runtime.Int64(int64(user)))).Charge(t.Context(), int64(i+user+1))
			require.NoError(t, err)
		}
	}
	now = now.Add(time.Second)
	server := httptest.NewServer(console.New(console.Options{Catalog: catalog, Store: store, ShowKeys: true}))
	defer server.Close()
	_, text := get(t, server.URL+"/")
	assert.LessOrEqual(t, store.pages, 200)
	assert.Equal(t, 100, strings.Count(text, `<a href="limit?name=`))
	assert.Equal(t, 25, strings.Count(text, `<a href="key?`))
	assert.Contains(t, text, `limit099</a></td><td class="number">10</td><td class="number">891 of 1,000</td>`)
	assert.Contains(t, text, `<td class="number" title="891.277778 tokens">891 of 1,000</td>`)
}

// unread is a store whose rows cannot be read.
type unread struct{ *memstore.Store }

func (unread) Rows(context.Context, runtime.Row, int) ([]runtime.StoredRow, int64, error) {
	return nil, 0, errors.New("the database is down")
}

// A page of a store that fails does not call its keys unused.
func TestKeysOfAFailingStoreAreUnknown(t *testing.T) {
	p := &runtime.Policy{Name: "send", Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 1}
	catalog := &runtime.Catalog{Limits: []runtime.CatalogLimit{{Name: p.Name, Policies: []*runtime.Policy{p}}}}
	for store, unused := range map[runtime.Store]bool{&memstore.Store{}: true, unread{&memstore.Store{}}: false} {
		server := httptest.NewServer(console.New(console.Options{Catalog: catalog, Store: store, ShowKeys: true}))
		defer server.Close()
		for _, path := range []string{"/", "/limit?name=send"} {
			_, text := get(t, server.URL+path)
			assert.Equal(t, unused, strings.Contains(text, "No key has used any tokens."), path)
			assert.Equal(t, !unused, strings.Contains(text, "the database is down"), path)
		}
	}
}

// The page of a key of a limit in flight has the slots in use and their holders, and no forms for tokens.
func TestShowsTheHoldersOfSlots(t *testing.T) {
	p := &runtime.Policy{Name: "exports", Kind: runtime.InFlight, Slots: 5, Hold: 2 * time.Minute,
		Overrides: runtime.OverrideBounds{Slots: 50}}
	store := &memstore.Store{Clock: func() time.Time { return start }}
	o := console.Options{Store: store, AllowChanges: allow, Catalog: &runtime.Catalog{Limits: []runtime.CatalogLimit{
		{Name: "exports", Key: []runtime.CatalogKey{{Name: "org", Type: "int64"}}, Policies: []*runtime.Policy{p}},
	}}}
	slot, err := limiter.New(store).Slots(p, runtime.KeyOf(runtime.Int64(7))).AcquireN(t.Context(), 2)
	require.NoError(t, err)
	server := mounted(t, o)
	at, _ := keyOf(t, server, "exports")
	code, text := get(t, at)
	assert.Equal(t, http.StatusOK, code)
	for _, want := range []string{"<h2>Slots</h2>", "2 of 5 slots in use, all free after 2m0s unless renewed", "Free slots from now on",
		fmt.Sprintf(`<td class="number">%d</td><td class="number">2</td><td class="number">2m0s</td>`, slot.Fence), "Free all slots", "capacity, at most 50"} {
		assert.Contains(t, text, want)
	}
	for _, not := range []string{"Take tokens", "Give tokens back", "rate, at most"} {
		assert.NotContains(t, text, not)
	}
}

// The page of a key in a penalty says what it does, and ends it; lists say by which numbers keys of callers' numbers are
// read.
func TestShowsAndEndsPenalties(t *testing.T) {
	bounds := runtime.OverrideBounds{Rate: 100, Capacity: 200}
	login := &runtime.Policy{Name: "login", Kind: runtime.TokenBucket, Rate: 1, Period: time.Minute, Capacity: 1, Penalty: runtime.PenaltyOf(0, 5*time.Minute), Overrides: bounds}
	exports := &runtime.Policy{Name: "exports", Kind: runtime.TokenBucket, Rate: 100, Period: time.Minute, Capacity: 200, AtMost: runtime.Numbers{Rate: 100, Capacity: 200}}
	key := []runtime.CatalogKey{{Name: "user", Type: "int64"}}
	store := &memstore.Store{Clock: func() time.Time { return start }}
	server := mounted(t, console.Options{Store: store, AllowChanges: allow, Catalog: &runtime.Catalog{Limits: []runtime.CatalogLimit{
		{Name: "login", Key: key, Policies: []*runtime.Policy{login}}, {Name: "exports", Key: key, Policies: []*runtime.Policy{exports}},
	}}})
	limit := limiter.New(store).Limit(login, runtime.KeyOf(runtime.Int64(7)))
	for range 2 {
		_, err := limit.Allow(t.Context())
		require.NoError(t, err)
	}
	at, id := keyOf(t, server, "login")
	_, text := get(t, at)
	for _, want := range []string{"for this key: penalty until 2026-11-22 09:35:00Z: all requests are denied", "End the block and the penalty", "penalty until here", "in 5m30s"} {
		assert.Contains(t, text, want)
	}
	for page, noted := range map[string]bool{"": true, "limit?name=exports": true, "limit?name=login": false} {
		_, text := get(t, server.URL+"/ops/limits/"+page)
		assert.Equal(t, noted, strings.Contains(text, "Callers give the numbers of exports"), page)
	}
	code, text, _ := post(t, server.URL+"/ops/limits/change", url.Values{"verb": {"unblock"}, "limit": {"login"}, "id": {id}, "reason": {"test"}})
	require.Equal(t, http.StatusOK, code, text)
	assert.NotContains(t, text, "penalty until")
	b, err := limit.Peek(t.Context())
	require.NoError(t, err)
	assert.Zero(t, b.PenaltyFor)
}

// A debt that lasts for centuries is drawn as far as there are instants, and falls nowhere.
func TestDrawsALargeDebt(t *testing.T) {
	for _, debt := range []int64{1_000_000, runtime.MaxTokens} {
		p := &runtime.Policy{Name: "slow", Kind: runtime.TokenBucket, Rate: 1, Period: 24 * time.Hour, Capacity: 5}
		store := &memstore.Store{Clock: func() time.Time { return start }}
		_, err := limiter.New(store).Limit(p, runtime.Key{}).Charge(t.Context(), debt)
		require.NoError(t, err)
		server := httptest.NewServer(console.New(console.Options{Store: store,
			Catalog: &runtime.Catalog{Limits: []runtime.CatalogLimit{{Name: "slow", Policies: []*runtime.Policy{p}}}}}))
		t.Cleanup(server.Close)
		_, text, _ := post(t, server.URL+"/find", url.Values{"limit": {"slow"}})
		rows := regexp.MustCompile(`<td class="number">(\d+h[^<]*|0s)</td><td class="number">([^<]*)</td>`).FindAllStringSubmatch(html.UnescapeString(text), -1)
		require.Len(t, rows, 7, "%d", debt)
		for i := range rows[1:] {
			before, err := strconv.ParseFloat(rows[i][2], 64)
			require.NoError(t, err)
			after, err := strconv.ParseFloat(rows[i+1][2], 64)
			require.NoError(t, err)
			assert.LessOrEqual(t, before, after, "%d: %v", debt, rows)
		}
	}
}

// A limit that only counts has no tokens left to show: the pages have the use of each key.
func TestShowsWhatIsUsedOfAnUnlimitedRate(t *testing.T) {
	builds := &runtime.Policy{Name: "builds", Kind: runtime.FixedWindow, Rate: runtime.MaxTokens, Capacity: runtime.MaxTokens, Period: time.Hour, Start: runtime.StartOffset(0)}
	store := &memstore.Store{Clock: func() time.Time { return start }}
	_, err := limiter.New(store).Limit(builds, runtime.KeyOf(runtime.Int64(7))).AllowN(t.Context(), 1_234)
	require.NoError(t, err)
	server := mounted(t, console.Options{Store: store, Catalog: &runtime.Catalog{Limits: []runtime.CatalogLimit{
		{Name: "builds", Key: []runtime.CatalogKey{{Name: "org", Type: "int64"}}, Policies: []*runtime.Policy{builds}},
	}}})
	at, _ := keyOf(t, server, "builds")
	for address, want := range map[string]string{
		server.URL + "/ops/limits/":                  `<td class="number">1,234 used</td>`,
		server.URL + "/ops/limits/limit?name=builds": `<td class="number">1,234 used</td>`,
		at: "unlimited, 1,234 used, window ends in",
	} {
		_, text := get(t, address)
		assert.Contains(t, text, want)
		assert.NotContains(t, text, "000,000", address)
	}
}
