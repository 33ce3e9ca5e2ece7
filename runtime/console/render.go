package console

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"net/http"

	"github.com/ratelimitgen/ratelimitgen/runtime/operate"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// page is the data of a page: one of Index, Limit, Key and Found is set, or only Problem.
type page struct {
	Title, Problem string
	Index          *indexPage
	Limit          *limitPage
	Key            *keyPage
	Found          []found
}

// indexPage is all limits.
type indexPage struct {
	Limits []listed
	// InForce has the blocks and overrides of whole limits.
	InForce []entryInForce
	Busiest busyTable
	// Denials means that denials are counted.
	Denials bool
}

// listed is a limit in the table of all of them.
type listed struct{ Name, InUse, Least, DeniedKeys string }

// busy is a key that lacks tokens.
type busy struct{ Limit, Shown, Link, Plan, Left, Exact, Capacity, Full, InForce string }

// busyTable is a table of keys. Limits, Plans and InForce say whether it has columns for the limit, the plan, and the block or
// override in force.
type busyTable struct {
	Keys                   []busy
	Limits, Plans, InForce bool
}

// limitPage is a limit with its busy keys.
type limitPage struct {
	subject
	InUse string
	// More means that the limit has more rows than were read.
	More    bool
	Busiest busyTable
	Denied  []deniedKey
	Denials bool
	// Overridden are the newest overrides and blocks of keys.
	Overridden []overriddenKey
}

type overriddenKey struct{ Shown, Link, What string }

// deniedKey is a key that was denied between AtLeast and AtMost times.
type deniedKey struct {
	Fingerprint     string
	AtMost, AtLeast int64
}

// keyPage is the state of one key.
type keyPage struct {
	subject
	Shown  string
	States []state
}

type state struct {
	Plan, Words string
	Drawing     template.HTML
	Points      []pointWords
}

type pointWords struct{ After, Tokens string }

// found is a key with the fingerprint that was searched.
type found struct{ Limit, Shown, Link string }

// The lists read at most maxPages pages of the rows of a limit, and the first page of the console about allPages of all
// limits, so that they are as fast for any table.
const (
	maxPages = 20
	allPages = 100
	maxKeys  = 25
)

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
	// Whatever the text is from, its characters do not reorder the page or hide in it.
	io.WriteString(w, printable.Text(b.String()))
}

//go:embed style.css
var style string

//go:embed page.html
var pageHTML string

var styleHash = func() string {
	sum := sha256.Sum256([]byte(style))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}()

var templates = template.Must(template.New("page").Funcs(template.FuncMap{
	"style": func() template.CSS { return template.CSS(style) },
}).Parse(pageHTML))

// firstText is the text of the first error: an outage has the same one for each limit.
func firstText(all []error) string {
	for _, err := range all {
		if err != nil {
			return err.Error()
		}
	}
	return ""
}

// counted is how many keys lack tokens.
func counted(u operate.Used, err error) string {
	switch {
	case err != nil:
		return "unknown"
	case u.More:
		return fmt.Sprintf("%d or more", u.InUse)
	}
	return fmt.Sprint(u.InUse)
}
