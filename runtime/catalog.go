package runtime

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Catalog describes the limits of a limits.yaml to programs that do not know its generated methods, such as package
// operate. The generated function Catalog returns one.
type Catalog struct {
	// Limits are in the order of the file.
	Limits []CatalogLimit
	// Plans are the names of the plans.
	Plans []string
	// Groups are in the order of the file.
	Groups []CatalogGroup
}

// NewCatalog returns a catalog whose policies know their owner and the types of their keys, so that a store can tell
// them from the policies of another program; see [Registration]. The owner is the result of [PackageOf]. It must be
// called before the policies are used.
func NewCatalog(owner string, c Catalog) *Catalog {
	for i := range c.Limits {
		l := &c.Limits[i]
		types := make([]string, len(l.Key))
		for j, part := range l.Key {
			types[j] = part.Type
		}
		of := &identity{owner: owner, key: "(" + strings.Join(types, ", ") + ")"}
		for _, p := range l.Policies {
			p.identity = of
		}
	}
	return &c
}

// Policies returns the policies of all limits.
func (c *Catalog) Policies() (all []*Policy) {
	for _, l := range c.Limits {
		all = append(all, l.Policies...)
	}
	return all
}

// HashKeys returns the catalog with the secret of limiter.HashKeys, so that [CatalogLimit.ParseKey] returns the keys of
// those limits.
func (c *Catalog) HashKeys(secret []byte) *Catalog {
	with := *c
	with.Limits = slices.Clone(c.Limits)
	for i := range with.Limits {
		with.Limits[i].keySecret = append([]byte{}, secret...)
	}
	return &with
}

// CatalogLimit is a limit of a [Catalog].
type CatalogLimit struct {
	// Name is that in the file.
	Name string
	// Doc is the text of the author.
	Doc string
	// Key has the parts of the key in their order.
	Key []CatalogKey
	// Policies has the policy of the limit or, if it depends on the plan, one for each of Plans.
	Policies []*Policy

	// keySecret is the secret of [Catalog.HashKeys]; nil without one.
	keySecret []byte
}

// CatalogKey is a part of the key of a limit.
type CatalogKey struct {
	// Name is the name of the parameter of the generated method.
	Name string
	// Type is the type as it is written in limits.yaml: "int64", "hashed string" or "netip.Addr/64".
	Type string
}

// CatalogGroup is a group of a [Catalog].
type CatalogGroup struct {
	// Name is that in the file, and Doc the text of the author.
	Name, Doc string
	// Takes and Checks are names of limits.
	Takes, Checks []string
}

// Limit returns the limit with a name, or false if no limit has it.
func (c *Catalog) Limit(name string) (CatalogLimit, bool) {
	for _, l := range c.Limits {
		if l.Name == name {
			return l, true
		}
	}
	return CatalogLimit{}, false
}

// ParseKey returns the key with the given parts, each in the form in which Go prints a value of its type. A part of a
// type of your own is the text that its MarshalText returns. The error is [ErrInvalidKey] and names the part.
func (l *CatalogLimit) ParseKey(parts []string) (Key, error) {
	if len(parts) != len(l.Key) {
		return Key{}, l.wrongParts(parts)
	}
	parsed := make([]Part, len(parts))
	for i, of := range l.Key {
		part, err := of.parse(parts[i])
		if err != nil {
			return Key{}, l.wrongPart(i, parts[i], err)
		}
		parsed[i] = part
	}
	if len(parsed) == 0 {
		return Key{}, nil
	}
	key := KeyOf(parsed...)
	if l.keySecret != nil {
		key = key.HashedWith(l.keySecret)
	}
	return key, key.err
}

var (
	escapedBytes = regexp.MustCompile(`(?:%[0-9A-Fa-f]{2})+`)
	shortened    = regexp.MustCompile(`%~[0-9a-f]{64}$`)
	hashedPart   = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// replaceEscaped replaces each run of escaped bytes, given the bytes.
func replaceEscaped(text string, by func(raw string) string) string {
	return escapedBytes.ReplaceAllStringFunc(text, func(run string) string {
		raw, _ := hex.DecodeString(strings.ReplaceAll(run, "%", ""))
		return by(string(raw))
	})
}

// ParseStored returns the key of the limit with a text that [Key.String] has returned. Any byte may be written as %XX,
// also one that String does not escape: so a key can be written without the characters that a terminal hides. The error
// is [ErrInvalidKey]: the text has another number of parts than the key, or a part that is not stored so.
func (l *CatalogLimit) ParseStored(text string) (Key, error) {
	text = replaceEscaped(text, func(raw string) string {
		var b strings.Builder
		escape(&b, raw)
		return b.String()
	})
	key, err := StoredKey(text)
	if err != nil {
		return Key{}, err
	}
	var parts []string
	if text != "" || len(l.Key) > 0 {
		parts = strings.Split(text, "|")
	}
	if shortened.MatchString(text) && len(text) > MaxKey-utf8.UTFMax && len(parts) <= len(l.Key) {
		// The last part is not whole, and those after it are cut off.
		parts = parts[:len(parts)-1]
	} else if len(parts) != len(l.Key) {
		return Key{}, l.wrongParts(parts)
	}
	for i, part := range parts {
		if err := l.Key[i].stored(part, l.keySecret); err != nil {
			return Key{}, l.wrongPart(i, part, err)
		}
	}
	return key, nil
}

// stored returns an error if the part of a key is not stored as text, given the secret of hashes.
func (k CatalogKey) stored(text string, secret []byte) error {
	raw := replaceEscaped(text, func(raw string) string { return raw })
	switch {
	case text == "":
		return errors.New("an empty part is written as %")
	case text == "%":
		raw = ""
	case strings.Contains(escapedBytes.ReplaceAllLiteralString(text, ""), "%"):
		return errors.New("the byte % is written as %25")
	}
	part, err := k.parse(raw)
	switch {
	case k.Type == "hashed string" && hashedPart.MatchString(raw):
		part = String(raw)
	case addrPrefixType.MatchString(k.Type):
		addr, _, _ := strings.Cut(raw, "/")
		part, err = k.parse(addr)
	}
	if stored := part.stored(secret); err == nil && part.err == nil && stored != raw {
		err = fmt.Errorf("it is stored as %q", KeyOf(String(stored)))
	}
	return cmp.Or(err, part.err)
}

// wrongParts returns the error of a number of parts that the key does not have.
func (l *CatalogLimit) wrongParts(parts []string) error {
	words := make([]string, len(l.Key))
	for i, k := range l.Key {
		words[i] = k.Name + " " + k.Type
	}
	key := cmp.Or(strings.Join(words, ", "), "shared, without parts")
	return fmt.Errorf("%w: the key of %s is %s, and not %d parts", ErrInvalidKey, l.Name, key, len(parts))
}

// wrongPart returns the error of a text that is not of the type of its part.
func (l *CatalogLimit) wrongPart(i int, text string, err error) error {
	k := &l.Key[i]
	return fmt.Errorf("%w: %s of %s is of the type %s, which %q is not: %w", ErrInvalidKey, k.Name, l.Name, k.Type, text, err)
}

var addrPrefixType = regexp.MustCompile(`^netip\.Addr/([0-9]+)$`)

// parse returns a part of the key.
func (k CatalogKey) parse(text string) (Part, error) {
	switch k.Type {
	case "hashed string":
		return Hashed(text), nil
	case "bool":
		// Only the stored texts: strconv also accepts "1" and "T".
		if text != "true" && text != "false" {
			return Part{}, errors.New("write true or false")
		}
		return String(text), nil
	case "int", "int64":
		n, err := strconv.ParseInt(text, 10, 64)
		return Int64(n), numberError(err)
	case "uint64":
		n, err := strconv.ParseUint(text, 10, 64)
		return Uint64(n), numberError(err)
	case "netip.Addr":
		a, err := netip.ParseAddr(text)
		return Addr(a), err
	}
	if bits := addrPrefixType.FindStringSubmatch(k.Type); bits != nil {
		n, err := strconv.Atoi(bits[1])
		if err != nil {
			return Part{}, err
		}
		a, err := netip.ParseAddr(text)
		return AddrPrefix(a, n), err
	}
	return String(text), nil
}

// numberError returns the reason alone, because the caller quotes the text.
func numberError(err error) error {
	if number := new(strconv.NumError); errors.As(err, &number) {
		return number.Err
	}
	return err
}

// PackageOf returns the import path of the package that declares T, for [NewCatalog]. For package main, that is the
// path of the program.
func PackageOf[T any]() string {
	path := reflect.TypeFor[T]().PkgPath()
	if path == "main" {
		if info, ok := debug.ReadBuildInfo(); ok {
			return info.Path
		}
	}
	// A vendored package is the same one.
	if i := strings.LastIndex(path, "/vendor/"); i >= 0 {
		return path[i+len("/vendor/"):]
	}
	return path
}
