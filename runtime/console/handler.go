package console

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/operate"
)

// New returns the console. It must be mounted with [http.StripPrefix] at a path that ends with a slash. It panics without a
// catalog or a store.
func New(o Options) http.Handler {
	if o.Catalog == nil || o.Store == nil {
		panic("console: Catalog and Store are required")
	}
	if len(o.Secret) == 0 {
		o.Secret = make([]byte, 32)
		rand.Read(o.Secret)
	}
	program := operate.Program{Catalog: o.Catalog, Store: o.Store, Secret: o.Secret}
	c := &console{Options: o, program: program, aead: newAEAD(o.Secret)}
	c.templates = c.parseTemplates()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.handler((*console).index))
	mux.HandleFunc("GET /limit", c.handler((*console).limit))
	mux.HandleFunc("POST /find", c.handler((*console).find))
	mux.HandleFunc("GET /key", c.handler((*console).key))
	mux.HandleFunc("GET /log", c.handler((*console).log))
	mux.HandleFunc("POST /change", c.handler((*console).change))
	return secured(c.forOurHosts(http.NewCrossOriginProtection().Handler(mux)))
}

// handler shows the limits by the mode that the limiters on the store have now.
func (c *console) handler(page func(*console, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		now := *c
		now.Catalog = override.Relaxed(c.Store, c.Catalog)
		now.program.Catalog = now.Catalog
		page(&now, w, r)
	}
}

// forOurHosts refuses requests for names that are not of the console.
func (c *console) forOurHosts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.serves(r.Host) {
			c.problem(w, http.StatusMisdirectedRequest,
				fmt.Sprintf("The console does not serve the host %q: add its name to the Hosts of console.Options.", r.Host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serves reports whether a request for a host, with or without a port, is for the console.
func (c *console) serves(host string) bool {
	u, err := url.Parse("http://" + host)
	if err != nil || u.Host != host {
		return false
	}
	name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if _, err := netip.ParseAddr(name); err == nil || name == "localhost" {
		// No other site can have an address, or this name, as its own.
		return true
	}
	return name != "" && slices.ContainsFunc(c.Hosts, func(of string) bool { return strings.EqualFold(of, name) })
}

// secured sets the headers that keep other sites and caches away from the pages.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src '"+styleHash+
			"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// change makes a change by package operate, which validates and logs it.
func (c *console) change(w http.ResponseWriter, r *http.Request) {
	author, ok := c.author(r)
	if !ok {
		c.problem(w, http.StatusForbidden, "You may not change anything here.")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 1<<16)
	change, back, err := c.changeOf(r)
	if err != nil {
		c.problem(w, http.StatusBadRequest, err.Error())
		return
	}
	change.Author = author
	var all []operate.DoneIn
	if back == "" {
		all, err = c.program.ApplyAll(r.Context(), change, partsOf(r.PostForm))
	} else {
		_, err = c.program.Apply(r.Context(), change)
	}
	switch {
	case errors.Is(err, operate.ErrUsage):
		c.problem(w, http.StatusBadRequest, err.Error())
	case err != nil:
		c.problem(w, http.StatusInternalServerError, err.Error())
	case back == "":
		// No redirect, because what was done in each limit is nowhere else.
		c.render(w, http.StatusOK, page{Title: fmt.Sprintf("Change in all limits: %s", change.Verb), Changed: all})
	default:
		redirect(w, back)
	}
}

// partsOf returns the parts of a key in a form, without those that were left empty.
func partsOf(form url.Values) (parts []operate.Part) {
	for field := range form {
		if name, ok := strings.CutPrefix(field, partPrefix); ok && form.Get(field) != "" {
			parts = append(parts, operate.Part{Name: name, Value: form.Get(field)})
		}
	}
	return parts
}

// changeOf returns the change of a form for a key, or for the whole limit if the form has been confirmed as one for all
// keys, and the address of their page, which is "" for a change in all limits.
func (c *console) changeOf(r *http.Request) (change operate.Change, back string, err error) {
	value := func(name string) string { return strings.TrimSpace(r.PostFormValue(name)) }
	change = operate.Change{
		Verb: operate.Verb(value("verb")), Limit: r.PostFormValue("limit"), Whole: r.PostFormValue("whole") == "yes", Reason: r.PostFormValue("reason"),
		Plan: value("plan"), Zone: value("zone"), Since: value("since"), ToPlan: value("to-plan"), Mode: value("mode"),
	}
	for name, to := range map[string]*int64{"n": &change.Tokens, "rate": &change.Rate, "capacity": &change.Capacity,
		"max-reserved": &change.MaxReserved} {
		if text := value(name); text != "" {
			if *to, err = strconv.ParseInt(text, 10, 64); err != nil || *to < 1 {
				return change, "", fmt.Errorf("%s must be a whole number, at least 1, not %q", name, text)
			}
		}
	}
	if change.For, change.Until, err = end(value("for"), value("until")); err != nil {
		return change, "", err
	}
	switch id := r.PostFormValue("id"); {
	case value("all") == "yes":
	case id != "":
		var key string
		if key, err = c.open(change.Limit, id); err == nil {
			back = c.link(change.Limit, key)
			change.Key, err = runtime.StoredKey(key)
		}
	case change.Whole:
		back = "limit?" + url.Values{"name": {change.Limit}}.Encode()
	default:
		err = errors.New("confirm that the change is for all keys of the limit, or give a key")
	}
	return change, back, err
}
