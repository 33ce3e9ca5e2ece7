// Package console is a web page for operators: which keys of the limits are busy, the state of one key with a drawing and
// its log, and, if the program grants it, the writes of package operate. It is an [http.Handler] to mount where the program
// wants it, behind its own login:
//
//	mux.Handle("/limits/", http.StripPrefix("/limits", login(console.New(console.Options{
//		Catalog: limits.Catalog(),
//		Store:   store,
//		Hosts:   []string{"ops.example.com"},
//	}))))
//
// The pages are HTML and SVG without scripts and without assets of others. Keys are shown as fingerprints, and occur in
// links only encrypted. The tokens of a key are by the block or override in force for it. The store does not have
// the plans of keys: lists are by the smallest plan of a limit unless an operator has given the key one, and the page of a
// key has its tokens by each plan. Without [Options.AllowChanges], the page is read-only.
package console

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/observe"
	"github.com/ratelimitgen/ratelimitgen/runtime/operate"
)

// Options are what the console shows. Catalog and Store are required.
type Options struct {
	// Catalog is that of the generated package.
	Catalog *runtime.Catalog
	// Store has the counts. Lists need a [runtime.RowLister], and logs and writes a [runtime.OverrideStore].
	Store runtime.Store
	// AllowChanges reports whether the request may change counts and overrides, and the author for the log. If it is nil,
	// nothing can be changed.
	AllowChanges func(*http.Request) (author string, ok bool)
	// ShowKeys shows keys, as the flag -stored of package operate takes them, in place of fingerprints.
	ShowKeys bool
	// Hosts are the names by which browsers reach the console, without a port: "ops.example.com". The name localhost and IP
	// addresses need no entry. A request for another name gets the status 421, because any site can point its own name at
	// the address of the console, and a browser then takes both for one site (DNS rebinding).
	Hosts []string
	// Secret is that of fingerprints and links: with that of observe.Options and observe.LogOptions, the fingerprint of a log
	// finds its key here. If it is empty, New makes a random one, so that links end with the process.
	Secret []byte
	// Denials, if it is not nil, are shown: the keys that this process has denied, of an observer with the same Secret.
	Denials *observe.Denials
}

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
	c := &console{Options: o, aead: newAEAD(o.Secret)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.index)
	mux.HandleFunc("GET /limit", c.limit)
	mux.HandleFunc("POST /find", c.find)
	mux.HandleFunc("GET /key", c.key)
	mux.HandleFunc("POST /change", c.change)
	return secured(c.forOurHosts(http.NewCrossOriginProtection().Handler(mux)))
}

type console struct {
	Options
	aead cipher.AEAD
}

// forOurHosts refuses requests for names that are not of the console.
func (c *console) forOurHosts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.serves(r.Host) {
			c.problem(w, http.StatusMisdirectedRequest, fmt.Sprintf("The console does not serve the host %q: add its name to the Hosts of console.Options.", r.Host))
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
		h.Set("Content-Security-Policy", "default-src 'none'; style-src '"+styleHash+"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func newAEAD(secret []byte) cipher.AEAD {
	key := derived(secret, "", "links")
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has 32 bytes
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return aead
}

// derived returns an HMAC-SHA-256 of texts, at least two, that are separated by a zero byte. No key contains one, so that
// the result is never that of a fingerprint.
func derived(secret []byte, texts ...string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(strings.Join(texts, "\x00")))
	return mac.Sum(nil)
}

// seal encrypts a key for a link. The same key of a limit gets the same text, so that links can be kept.
func (c *console) seal(limit, key string) string {
	nonce := derived(c.Secret, "nonce", limit, key)[:c.aead.NonceSize()]
	return base64.RawURLEncoding.EncodeToString(c.aead.Seal(nonce, nonce, []byte(key), []byte(limit)))
}

// open decrypts a key.
func (c *console) open(limit, sealed string) (string, error) {
	text, err := base64.RawURLEncoding.DecodeString(sealed)
	if n := c.aead.NonceSize(); err == nil && len(text) >= n {
		if key, err := c.aead.Open(nil, text[:n], text[n:], []byte(limit)); err == nil {
			return string(key), nil
		}
	}
	return "", errors.New("the link is not one of this console, or was made by an earlier process")
}

// shown is a key as it is shown.
func (c *console) shown(key string) string {
	switch {
	case key == "":
		return "(shared)"
	case c.ShowKeys:
		return operate.QuoteKey(key)
	}
	return runtime.Fingerprint(c.Secret, key)
}

// author returns who may change something.
func (c *console) author(r *http.Request) (string, bool) {
	if c.AllowChanges == nil {
		return "", false
	}
	author, ok := c.AllowChanges(r)
	return author, ok && author != ""
}

// find redirects to the page of the key whose parts are in the form. The form is posted, so that no key is in a URL.
func (c *console) find(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<16)
	if fingerprint := r.PostFormValue("fingerprint"); fingerprint != "" {
		c.who(w, r, fingerprint)
		return
	}
	l, ok := c.Catalog.Limit(r.PostFormValue("limit"))
	if !ok {
		c.problem(w, http.StatusNotFound, "There is no such limit.")
		return
	}
	key, err := l.ParseKey(r.PostForm["part"])
	if err != nil {
		c.problem(w, http.StatusBadRequest, err.Error())
		return
	}
	redirect(w, c.link(l.Name, key.String()))
}

// who shows the keys that have a fingerprint.
func (c *console) who(w http.ResponseWriter, r *http.Request, fingerprint string) {
	fingerprint = strings.ToLower(strings.TrimSpace(fingerprint))
	keys, more, err := operate.Who(r.Context(), c.Store, c.Catalog.Limits, c.Secret, fingerprint, maxPages)
	p := page{Title: "Keys with the fingerprint " + fingerprint, Problem: errorText(err)}
	for _, k := range keys {
		p.Found = append(p.Found, found{k.Limit, c.shown(k.Key), c.link(k.Limit, k.Key)})
	}
	switch {
	case err == nil && len(keys) == 0 && more:
		p.Problem = "No key that was read has this fingerprint. There are more rows than were read: use the command who of package operate."
	case err == nil && len(keys) == 0:
		p.Problem = "No stored key has this fingerprint under the secret of this console."
	}
	c.render(w, http.StatusOK, p)
}

// link is the relative address of the page of a key.
func (c *console) link(limit, key string) string {
	return "key?" + url.Values{"limit": {limit}, "id": {c.seal(limit, key)}}.Encode()
}

// redirect answers with a relative address. [http.Redirect] would make it one without the prefix of the mount.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// changes has the fields of the form of each change.
var changes = map[operate.Verb][]string{
	operate.Grant:    {"n", "plan", "zone", "since"},
	operate.Take:     {"n", "plan", "zone", "since"},
	operate.Reset:    {"zone", "since"},
	operate.Block:    {"for", "until"},
	operate.Unblock:  {},
	operate.Override: {"rate", "capacity", "max-reserved", "to-plan", "mode", "for", "until"},
	operate.End:      {},
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
	switch _, err := operate.Apply(r.Context(), c.Catalog, c.Store, change); {
	case err == nil:
		redirect(w, back)
	case errors.Is(err, operate.ErrUsage):
		c.problem(w, http.StatusBadRequest, err.Error())
	default:
		c.problem(w, http.StatusInternalServerError, err.Error())
	}
}

// changeOf returns the change of a form for a key, or for the whole limit if the form has been confirmed as one for all
// keys, and the address of their page.
func (c *console) changeOf(r *http.Request) (change operate.Change, back string, err error) {
	value := func(name string) string { return strings.TrimSpace(r.PostFormValue(name)) }
	change = operate.Change{
		Verb: operate.Verb(value("verb")), Limit: r.PostFormValue("limit"), Whole: r.PostFormValue("whole") == "yes", Reason: r.PostFormValue("reason"),
		Plan: value("plan"), Zone: value("zone"), Since: value("since"), ToPlan: value("to-plan"), Mode: value("mode"),
	}
	for name, to := range map[string]*int64{"n": &change.Tokens, "rate": &change.Rate, "capacity": &change.Capacity, "max-reserved": &change.MaxReserved} {
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

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
