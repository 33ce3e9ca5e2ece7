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
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/observe"
	"github.com/ratelimitgen/ratelimitgen/runtime/operate"
)

// Options are what the console shows. Catalog and Store are required.
type Options struct {
	// Catalog is that of the generated package.
	Catalog *runtime.Catalog
	// Store has the counts. Lists need a [runtime.RowLister], and logs and writes a store that keeps overrides.
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

// The lists read at most maxPages pages of the rows of a limit, and the first page of the console about allPages of all
// limits, so that they are as fast for any table.
const (
	maxPages = 20
	allPages = 100
	maxKeys  = 25
	// maxEntries is how many entries of the log a page has.
	maxEntries = 100
)

type console struct {
	Options
	program   operate.Program
	aead      cipher.AEAD
	templates *template.Template
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

// link is the relative address of the page of a key.
func (c *console) link(limit, key string) string {
	return "key?" + url.Values{"limit": {limit}, "id": {c.seal(limit, key)}}.Encode()
}

// redirect answers with a relative address. [http.Redirect] would make it one without the prefix of the mount.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}
