package console

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/operate"
)

// The lists read at most maxPages pages of the rows of a limit, so that a page of the console is as fast for any table.
const (
	maxPages  = 20
	listedKey = 25
)

// page is the data of every page.
type page struct {
	Title, Problem string
	Limits         []listed
	Key            *keyPage
}

// listed is a limit with its busy keys.
type listed struct {
	runtime.CatalogLimit
	Keys []busy
	// More means that the limit has more rows than were read.
	More    bool
	Problem string
}

type busy struct{ Shown, Link, Plan, Left, Capacity, Full string }

// keyPage is the state of one key.
type keyPage struct {
	Limit     runtime.CatalogLimit
	Shown, ID string
	States    []state
	InForce   []string
	Log       []logged
	Problem   string
	MayChange bool
	Calendar  bool
	Plans     []string
	Overrides bool
}

type state struct {
	Plan, Words string
	Drawing     template.HTML
	Points      []pointWords
}

type pointWords struct{ After, Tokens string }

type logged struct{ At, Whom, What, Author, Reason string }

func (c *console) index(w http.ResponseWriter, r *http.Request) {
	p := page{Title: "Rate limits"}
	for _, l := range c.Catalog.Limits {
		p.Limits = append(p.Limits, c.listed(r, l, 5))
	}
	c.render(w, http.StatusOK, p)
}

func (c *console) limit(w http.ResponseWriter, r *http.Request) {
	l, ok := c.Catalog.Limit(r.URL.Query().Get("name"))
	if !ok {
		c.problem(w, http.StatusNotFound, "There is no such limit.")
		return
	}
	c.render(w, http.StatusOK, page{Title: l.Name, Limits: []listed{c.listed(r, l, listedKey)}})
}

// listed reads the busy keys of a limit.
func (c *console) listed(r *http.Request, l runtime.CatalogLimit, n int) listed {
	of := listed{CatalogLimit: l}
	lister, ok := c.Store.(runtime.RowLister)
	if !ok {
		of.Problem = "The store cannot list its rows."
		return of
	}
	keys, more, err := operate.Busiest(r.Context(), lister, c.Catalog, &l, "", n, maxPages)
	if err != nil {
		of.Problem = err.Error()
		return of
	}
	of.More = more
	for _, k := range keys {
		full := k.Decision.FullAfter.Round(time.Second).String()
		if k.Policy.Calendar.PerKey() {
			full = "unknown"
		}
		of.Keys = append(of.Keys, busy{c.shown(l.Name, k.Key), c.link(l.Name, k.Key), cmp.Or(k.Plan, "–"),
			fmt.Sprintf("%.6g", k.Decision.Value), fmt.Sprint(k.Policy.Capacity), full})
	}
	return of
}

// key shows the state of one key.
func (c *console) key(w http.ResponseWriter, r *http.Request) {
	name, id := r.URL.Query().Get("limit"), r.URL.Query().Get("id")
	l, ok := c.Catalog.Limit(name)
	if !ok {
		c.problem(w, http.StatusNotFound, "There is no such limit.")
		return
	}
	key, err := c.open(name, id)
	if err != nil {
		c.problem(w, http.StatusNotFound, err.Error())
		return
	}
	k := &keyPage{Limit: l, Shown: c.shown(name, key), ID: id, Overrides: l.Policies[0].Overridable()}
	_, k.MayChange = c.author(r)
	if len(l.Policies) > 1 {
		k.Plans = c.Catalog.Plans
	}
	if err := errors.Join(c.states(r, k, key), c.history(r, k, key)); err != nil {
		k.Problem = err.Error()
	}
	c.render(w, http.StatusOK, page{Title: l.Name + " " + k.Shown, Key: k})
}

// states adds the tokens of the key by each plan.
func (c *console) states(r *http.Request, k *keyPage, key string) error {
	rows, at, err := c.rows(r, k.Limit.Name, key)
	if err != nil {
		return err
	}
	stored, err := runtime.StoredKey(key)
	if err != nil {
		return err
	}
	limits := runtime.NewLimiter(c.Store)
	for i, p := range k.Limit.Policies {
		s := state{}
		if len(k.Limit.Policies) > 1 {
			s.Plan = c.Catalog.Plans[i]
		}
		if p.Calendar.PerKey() {
			k.Calendar = true
			s.Words = "The windows of this key are not in the store: use the time zone or the anniversary in a program."
			k.States = append(k.States, s)
			continue
		}
		b, err := limits.Limit(p, stored).Peek(r.Context())
		if err != nil {
			return err
		}
		s.Words = b.String()
		// A check of no tokens is decided by the policy that is in force.
		if d, err := limits.Limit(p, stored).CheckN(r.Context(), 0); err == nil && d.Policy != nil {
			p = d.Policy
		}
		if counted := p.Mode != runtime.ModeOff && p.Mode != runtime.ModeUnlimited; counted && len(rows) > 0 {
			points, err := future(p, rows, at)
			if err != nil {
				return err
			}
			s.Drawing = drawing(points, p.Capacity)
			for i := 0; i < len(points); i += 10 {
				s.Points = append(s.Points, pointWords{points[i].After.Round(time.Millisecond).String(), fmt.Sprintf("%.6g", points[i].Tokens)})
			}
		}
		k.States = append(k.States, s)
	}
	return nil
}

// rows returns the rows of one key.
func (c *console) rows(r *http.Request, limit, key string) (rows []runtime.StoredRow, at int64, err error) {
	lister, ok := c.Store.(runtime.RowLister)
	if !ok {
		return nil, 0, nil
	}
	after := runtime.Row{Name: limit, Key: key, Shard: -1}
	for {
		page, now, err := lister.Rows(r.Context(), after, runtime.RowPage)
		if err != nil {
			return nil, 0, err
		}
		at = now
		for _, row := range page {
			if row.Row.Key != key {
				return rows, at, nil
			}
			if row.State.Exists {
				rows = append(rows, row)
			}
		}
		if len(page) == 0 {
			return rows, at, nil
		}
		after = page[len(page)-1].Row
	}
}

// history adds what is in force for the key, and the log.
func (c *console) history(r *http.Request, k *keyPage, key string) error {
	log, ok := c.Store.(runtime.OverrideStore)
	if !ok {
		return nil
	}
	for _, of := range []struct{ key, whom string }{{key, "key"}, {"", "limit"}} {
		if of.whom == "limit" && key == "" {
			continue
		}
		entries, err := log.OverrideHistory(r.Context(), k.Limit.Name, of.key)
		if err != nil {
			return err
		}
		for _, e := range entries {
			k.Log = append(k.Log, logged{e.At.UTC().Format("2006-01-02 15:04:05Z"), of.whom, operate.Describe(e), e.Author, e.Reason})
		}
	}
	if !k.Overrides {
		return nil
	}
	view := log.OverrideView()
	if err := view.Refresh(r.Context()); err != nil {
		return err
	}
	for _, e := range view.InForce() {
		if e.Limit == k.Limit.Name && (e.Key == key || e.Key == "") {
			k.InForce = append(k.InForce, operate.Describe(e))
		}
	}
	return nil
}

func (c *console) problem(w http.ResponseWriter, code int, text string) {
	c.render(w, code, page{Title: http.StatusText(code), Problem: text})
}

func (c *console) render(w http.ResponseWriter, code int, p page) {
	var b bytes.Buffer
	if err := templates.Execute(&b, p); err != nil {
		http.Error(w, "the page cannot be shown: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	w.Write(b.Bytes())
}

// form is one change of a key.
type form struct {
	Key    *keyPage
	Verb   string
	Fields []string
}

// NeedsPlan reports whether the change depends on the plan of the key.
func (f form) NeedsPlan() bool {
	return len(f.Key.Plans) > 0 && (f.Verb == "take" || f.Verb == "grant")
}

var styleHash = func() string {
	sum := sha256.Sum256([]byte(style))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}()

const style = `
:root { color-scheme: light dark; --text: #1c2330; --back: #fff; --soft: #f2f4f7; --rule: #c3cad5; --mark: #0b5cad; --bad: #a11212; }
@media (prefers-color-scheme: dark) { :root { --text: #e6eaf1; --back: #14181f; --soft: #1e242e; --rule: #465062; --mark: #7db8ff; --bad: #ff9b9b; } }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); }
a { color: var(--mark); } h2 { margin-top: 2rem; } .doc { white-space: pre-line; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem .2rem 0; text-align: left; border-bottom: 1px solid var(--rule); overflow-wrap: anywhere; }
.problem { color: var(--bad); white-space: pre-line; } form { background: var(--soft); padding: .6rem; margin: .6rem 0; border-radius: .4rem; }
label { display: inline-block; margin-right: .8rem; } input, button, select { font: inherit; }
svg { width: 100%; max-width: 40rem; } svg text { fill: var(--text); font-size: 12px; } .grid { stroke: var(--rule); } .line { stroke: var(--mark); stroke-width: 2; fill: none; } .now { fill: var(--mark); }
`

var templates = template.Must(template.New("page").Funcs(template.FuncMap{
	"style": func() template.CSS { return style },
	"form":  func(k *keyPage, verb string, fields ...string) form { return form{k, verb, fields} },
}).Parse(`{{define "form"}}<form method="post" action="change" class="{{.Verb}}"><input type="hidden" name="limit" value="{{.Key.Limit.Name}}">
<input type="hidden" name="id" value="{{.Key.ID}}"><input type="hidden" name="verb" value="{{.Verb}}">
{{range .Fields}}<label>{{if eq . "n"}}tokens{{else}}{{.}}{{end}} <input name="{{.}}" size="8"{{if eq . "n"}} required{{end}}{{if eq . "for"}} required placeholder="24h"{{end}}></label>{{end}}
{{if eq .Verb "override"}}{{if .Key.Plans}}<label>plan <select name="to-plan"><option value="">as it is</option>{{range .Key.Plans}}<option>{{.}}</option>{{end}}</select></label>{{end}}
<label>mode <select name="mode"><option value="">enforce</option><option>unlimited</option><option>off</option><option>shadow</option></select></label>{{end}}
{{if .NeedsPlan}}<label>plan <select name="plan">{{range .Key.Plans}}<option>{{.}}</option>{{end}}</select></label>{{end}}
{{if .Key.Calendar}}<label>time zone <input name="zone" size="14"></label><label>anniversary <input name="since" size="10"></label>{{end}}
<label>reason <input name="reason" required size="30"></label><button>{{.Verb}}</button></form>{{end}}<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title><style>{{style}}</style></head><body>
<p><a href="./">All limits</a></p>
<h1>{{.Title}}</h1>
{{with .Problem}}<p class="problem" role="alert">{{.}}</p>{{end}}
{{range .Limits}}<section>
<h2><a href="limit?name={{.Name}}">{{.Name}}</a></h2>
{{with .Doc}}<p class="doc">{{.}}</p>{{end}}
{{with .Problem}}<p class="problem">{{.}}</p>{{end}}
<form method="post" action="find"><input type="hidden" name="limit" value="{{.Name}}">
{{range .Key}}<label>{{.Name}} ({{.Type}}) <input name="part" required autocomplete="off"></label>{{end}}
<button>Show{{if .Key}} this key{{end}}</button></form>
{{if .Keys}}<table><thead><tr><th>key</th><th>plan</th><th>left</th><th>capacity</th><th>full in</th></tr></thead><tbody>
{{range .Keys}}<tr><td><a href="{{.Link}}">{{.Shown}}</a></td><td>{{.Plan}}</td><td>{{.Left}}</td><td>{{.Capacity}}</td><td>{{.Full}}</td></tr>
{{end}}</tbody></table>{{else}}<p>No key has used any tokens.</p>{{end}}
{{if .More}}<p>The limit has more rows than were read: the list is that of the first ones.</p>{{end}}
</section>{{end}}
{{with .Key}}{{$key := .}}
{{with .Limit.Doc}}<p class="doc">{{.}}</p>{{end}}
{{with .Problem}}<p class="problem">{{.}}</p>{{end}}
{{range .InForce}}<p><strong>In force:</strong> {{.}}</p>{{end}}
{{range .States}}<section><h2>{{if .Plan}}Plan {{.Plan}}{{else}}Tokens{{end}}</h2><p>{{.Words}}</p>{{.Drawing}}
{{with .Points}}<details><summary>The drawing as a table</summary><table><thead><tr><th>in</th><th>tokens</th></tr></thead><tbody>
{{range .}}<tr><td>{{.After}}</td><td>{{.Tokens}}</td></tr>{{end}}</tbody></table></details>{{end}}</section>{{end}}
<h2>Log</h2>
{{if .Log}}<table><thead><tr><th>at</th><th>of the</th><th>what</th><th>author</th><th>reason</th></tr></thead><tbody>
{{range .Log}}<tr><td>{{.At}}</td><td>{{.Whom}}</td><td>{{.What}}</td><td>{{.Author}}</td><td>{{.Reason}}</td></tr>
{{end}}</tbody></table>{{else}}<p>The log has no entries.</p>{{end}}
{{if .MayChange}}<h2>Change</h2>
{{template "form" (form $key "take" "n")}}{{template "form" (form $key "grant" "n")}}{{template "form" (form $key "reset")}}
{{if .Overrides}}{{template "form" (form $key "block" "for")}}{{template "form" (form $key "unblock")}}
{{template "form" (form $key "override" "rate" "capacity" "for")}}{{template "form" (form $key "end")}}{{end}}
{{end}}{{end}}
</body></html>`))
