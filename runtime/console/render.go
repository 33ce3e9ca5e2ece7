package console

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // style.css and page.html
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"math"
	"net/http"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime/observe"
	"github.com/ratelimitgen/ratelimitgen/runtime/operate"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
)

// page is the data of a page: one of Index, Limit, Key, Log, Found and Changed is set, or only Problem.
type page struct {
	Title, Problem string
	// Mode is that of limiter.Mode, "" without one.
	Mode    string
	Index   *indexPage
	Limit   *limitPage
	Key     *keyPage
	Log     *logPage
	Found   []operate.FoundKey
	Changed []operate.DoneIn
}

// logPage is entries of all limits. Older, if not 0, is the entry before which there are others.
type logPage struct {
	Entries []runtime.OverrideEntry
	Older   int64
}

// indexPage is all limits.
type indexPage struct {
	subject
	Limits []used
	// Others are limits of other programs.
	Others []runtime.Registration
	// InForce has the blocks and overrides of whole limits.
	InForce []runtime.OverrideEntry
	Busiest busyTable
	// Denials means that denials are counted, and Overrides that a limit can have blocks and overrides.
	Denials, Overrides bool
}

// used is what the rows of a limit show, or Unknown.
type used struct {
	Name string
	operate.Used
	Unknown    bool
	DeniedKeys int64
	// BlockedKeys and OverriddenKeys are how many of its keys have a block, and how many another override.
	BlockedKeys, OverriddenKeys int64
}

// busyTable is a table of keys. Limits and Plans say whether it has columns for them.
type busyTable struct {
	Keys          []operate.BusyKey
	Limits, Plans bool
	// Most has the limits whose callers give numbers, which the store does not have.
	Most string
	// Unknown means that keys may be missing, because they could not be read.
	Unknown bool
}

// exceptionRow is a key and what limits.yaml gives it.
type exceptionRow struct{ Key, Gives string }

// limitPage is a limit with its busy keys.
type limitPage struct {
	subject
	used
	Busiest    busyTable
	Exceptions []exceptionRow
	// MoreExceptions is how many are left out.
	MoreExceptions int64
	Denied         []observe.DeniedKey
	Denials        bool
}

// keyPage is the state of one key.
type keyPage struct {
	subject
	// Exception is what limits.yaml gives the key, or "".
	Exception string
	States    []state
}

// state is the tokens of a key by one plan.
type state struct {
	Plan, Words string
	Drawing     template.HTML
	Points      []point
	// InFlight is set for a limit in flight, and Holders are the holders of its slots.
	InFlight bool
	Holders  []meter.Holder
}

func (c *console) problem(w http.ResponseWriter, code int, text string) {
	c.render(w, code, page{Title: http.StatusText(code), Problem: text})
}

func (c *console) render(w http.ResponseWriter, code int, p page) {
	for _, policy := range c.Catalog.Policies() {
		if mode, relaxed := policy.Relaxed(); relaxed {
			p.Mode = mode.String()
		}
	}
	var b bytes.Buffer
	if err := c.templates.Execute(&b, p); err != nil {
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

// parseTemplates returns the templates of a console, which shows keys in its way.
func (c *console) parseTemplates() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"style":    func() template.CSS { return template.CSS(style) },
		"shown":    c.shown,
		"link":     c.link,
		"moment":   operate.Moment,
		"describe": operate.Describe,
		"erased":   override.IsErased,
		"number":   words.Number,
		"left":     left,
		"exactly":  exactly,
		"used":     usedPart,
		"full":     full,
		"atLeast":  func(k observe.DeniedKey) int64 { return k.Denied - k.Excess },
	}).Parse(pageHTML))
}

// left is the whole tokens of a key, because a request takes whole ones, and the capacity; or the use, if there is no bound.
func left(k operate.BusyKey) string {
	if p := k.Policy.Inside(); p.CountsOnly() {
		return words.Number(p.Used(k.Decision.Value)) + " used"
	}
	return words.Number(int64(math.Floor(k.Decision.Value))) + " of " + words.Number(k.Policy.Full())
}

// usedPart is the part of the capacity that a key lacks, for a bar.
func usedPart(k operate.BusyKey) string { return fmt.Sprintf("%.3f", min(1, k.Used())) }

// exactly is the tokens of a key if they are not whole.
func exactly(k operate.BusyKey) string {
	if value := k.Decision.Value; value != math.Floor(value) {
		return fmt.Sprintf("%.6f tokens", value)
	}
	return ""
}

// full is in how long a key is full.
func full(k operate.BusyKey) string {
	if k.Policy.Calendar.PerKey() {
		return "unknown"
	}
	return words.Rough(k.Decision.FullAfter)
}
