package runtime

import (
	"cmp"
	"crypto/sha256"
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
	"time"
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

// HashKeys returns the catalog with the secret of limiter.HashKeys: [CatalogLimit.ParseKey] returns the keys of those
// limits, and Policies the policies whose registration has the secret's id, for Migrate, Ready and Sweep of a store.
func (c *Catalog) HashKeys(secret []byte) *Catalog {
	with := *c
	with.Limits = slices.Clone(c.Limits)
	for i := range with.Limits {
		l := &with.Limits[i]
		l.keySecret = append([]byte{}, secret...)
		l.Policies = slices.Clone(l.Policies)
		for j, p := range l.Policies {
			l.Policies[j] = p.hashedWith(secret)
		}
	}
	return &with
}

// Mode returns the catalog with the mode of limiter.Mode: the policies of its limits are no stricter. It is for a program of
// package operate that makes no limiter itself; otherwise operate and the console find the mode by the store.
func (c *Catalog) Mode(m Mode) *Catalog {
	with := *c
	with.Limits = slices.Clone(c.Limits)
	for i := range with.Limits {
		l := &with.Limits[i]
		l.Policies = slices.Clone(l.Policies)
		for j, p := range l.Policies {
			l.Policies[j] = p.relaxedTo(m)
		}
	}
	return &with
}

// CatalogLimit is a limit of a [Catalog].
type CatalogLimit struct {
	// Name is that in the file.
	Name string
	// Doc is the text of the author.
	Doc string
	// Rules say in words what the limit grants and its worst case, for each plan if it depends on them.
	Rules []string
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
	// Fold folds the text of a type that is folded: it is String of package folded. For other types it is nil.
	Fold func(string) string
	// Alternatives are those of a part that has one of several types. Its Type lists them as limits.yaml does:
	// "[userID: int64, addr: netip.Addr/64]".
	Alternatives []CatalogKey
}

// alternative returns the alternative that a text names before a colon, as in "userID:7", and the text after it.
func (k CatalogKey) alternative(text string) (CatalogKey, string, error) {
	name, rest, _ := strings.Cut(text, ":")
	var names []string
	for _, of := range k.Alternatives {
		if of.Name == name && len(name) < len(text) {
			return of, rest, nil
		}
		names = append(names, of.Name+":")
	}
	return CatalogKey{}, "", fmt.Errorf("write %s before it", strings.Join(names, " or "))
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
// type of your own is the text that its MarshalText returns. A part that has one of several types begins with the name of
// the alternative: "userID:7". The error is [ErrInvalidKey] and names the part.
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

var escapedBytes = regexp.MustCompile(`(?:%[0-9A-Fa-f]{2})+`)

// isSum reports whether a text is a SHA-256 in hexadecimal digits.
func isSum(text string) bool {
	return len(text) == hex.EncodedLen(sha256.Size) && strings.Trim(text, "0123456789abcdef") == ""
}

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
	if _, sum, _ := strings.Cut(text, "%~"); isSum(sum) && len(text) > MaxKey-utf8.UTFMax && len(parts) <= len(l.Key) {
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
	if len(k.Alternatives) > 0 {
		of, rest, err := k.alternative(text)
		if err != nil {
			return err
		}
		if rest == "%" {
			return fmt.Errorf("an empty part is written %q", of.Name+":")
		}
		return of.stored(cmp.Or(rest, "%"), secret)
	}
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
	case isHashed(k.Type) && isSum(raw):
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
	if len(k.Alternatives) > 0 {
		of, rest, err := k.alternative(text)
		if err != nil {
			return Part{}, err
		}
		part, err := of.parse(rest)
		return part.As(of.Name), err
	}
	if k.Type == foldedType || k.Type == hashedFoldedType {
		if k.Fold == nil {
			return Part{}, errors.New("the catalog has no Fold for it")
		}
		text = k.Fold(text)
	}
	switch k.Type {
	case hashedType, hashedFoldedType:
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

// StoredFormat is the Format of the rows that this version reads and writes.
const StoredFormat = 1

// Registration is what a store remembers of a limit: whose it is, and how its rows are to be read. A store refuses a
// limit whose registration differs from the program's, because its counts would then be taken for
// something that they are not.
type Registration struct {
	// Limit is the name of the policies.
	Limit string
	// Owner is whose limit it is: the import path of the generated package, or the Owner of the store's options. It is
	// empty for policies made by hand without one, which are then not compared.
	Owner string
	// Format is the meaning of the stored rows: [StoredFormat] of the version that wrote them.
	Format int
	// Key is the types of the key's parts, such as "(int64, hashed string)". If the program hashes with a secret, the id
	// of the secret is part of the type: "hashed string by 4f1d6e0b92c3". It is empty if the types are not known, as for
	// policies made by hand, which are then not compared.
	Key string
	// Numbers are the numbers of the limit, for people.
	Numbers string
	// At is when the registration was written.
	At time.Time
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

// RegistrationOf returns the registration of a limit: of its policy or those of all its plans. The owner, if it is not
// empty, replaces the owner of the policies.
func RegistrationOf(owner string, policies ...*Policy) Registration {
	r := Registration{Owner: owner, Format: StoredFormat}
	var numbers []string
	for _, p := range policies {
		of := p.identity
		if of == nil {
			of = &identity{}
		}
		r.Limit, r.Key = p.Name, of.key
		if r.Owner == "" {
			r.Owner = of.owner
		}
		numbers = append(numbers, numbersInWords(p))
	}
	r.Numbers = strings.Join(numbers, "; ")
	if len(r.Numbers) > maxNumbers {
		r.Numbers = strings.ToValidUTF8(r.Numbers[:maxNumbers-3], "") + "..."
	}
	return r
}

// maxNumbers is the longest text of numbers that every database can store.
const maxNumbers = 1000

// numbersInWords returns the numbers of a policy for people.
func numbersInWords(p *Policy) string {
	if p.Mode == ModeUnlimited {
		return "unlimited"
	}
	if p.zero() {
		return fmt.Sprintf("%v: 0", p.Kind)
	}
	number := func(n, most int64) string {
		if most != 0 {
			return fmt.Sprintf("at most %d", n)
		}
		return fmt.Sprint(n)
	}
	if p.Slots > 0 {
		return fmt.Sprintf("%v: slots %s, hold %v", p.Kind, number(p.Slots, p.AtMost.Slots), p.Hold)
	}
	text := fmt.Sprintf("%v: rate %s per %v, capacity %s", p.Kind, number(p.Rate, p.AtMost.Rate), p.Period,
		number(p.Capacity, p.AtMost.Capacity))
	if p.MaxReserved > 0 {
		text += ", maxReserved " + number(p.MaxReserved, p.AtMost.MaxReserved)
	}
	return text
}

// Refuses returns nil if a program whose registration of the limit is own may use the stored rows, and otherwise a
// [*RegistrationError]. The numbers may differ.
func (r Registration) Refuses(own Registration) error {
	if r.Format == own.Format && sameOrUnknown(r.Owner, own.Owner) && sameOrUnknown(r.Key, own.Key) {
		return nil
	}
	return &RegistrationError{Stored: r, Own: own}
}

func sameOrUnknown(a, b string) bool { return a == b || a == "" || b == "" }

// Complete returns r, with what it does not know taken from the registration that is stored.
func (r Registration) Complete(stored Registration) Registration {
	if r.Owner == "" {
		r.Owner = stored.Owner
	}
	if r.Key == "" {
		r.Key = stored.Key
	}
	return r
}

// RegistrationError is the error of a limit that a store has refused. It wraps [ErrForeignCounts].
type RegistrationError struct {
	// Stored is what the store remembers, and Own what the program has.
	Stored, Own Registration
}

// Error returns the difference and its remedies.
func (e *RegistrationError) Error() string {
	text := fmt.Sprintf("limit %q: %v: ", e.Own.Limit, ErrForeignCounts)
	switch {
	case e.Stored.Format > e.Own.Format:
		return text + fmt.Sprintf("a newer version has written them, in format %d, and this one reads format %d: update the program", e.Stored.Format, e.Own.Format)
	case e.Stored.Format < e.Own.Format:
		return text + fmt.Sprintf("an older version has written them, in format %d, and this one reads format %d: call Migrate with the generated Policies",
			e.Stored.Format, e.Own.Format)
	case !sameOrUnknown(e.Stored.Owner, e.Own.Owner):
		return text + fmt.Sprintf("they belong to %s, and this is the limit of %s: keep them apart with another name of the limit or Options.Table; "+
			"share them with the same Options.Owner in both programs; or call Adopt if the one has replaced the other", e.Stored.Owner, e.Own.Owner)
	case withoutSecret(e.Stored.Key) == withoutSecret(e.Own.Key):
		return text + fmt.Sprintf("their keys are hashed %s, and those of this program %s: give limiter.HashKeys and Catalog().HashKeys the "+
			"secret of the program that counts, and use the Policies of that catalog; if every process has another secret now, call Adopt "+
			"with them, which leaves the counts, blocks and overrides of the old secret behind", secretOf(e.Stored.Key), secretOf(e.Own.Key))
	}
	return text + fmt.Sprintf("their key is %s, and that of this limit is %s: run the SQL that \"ratelimitgen diff\" prints for that edit, "+
		"or call Adopt to leave the counts, blocks and overrides of the old key behind", e.Stored.Key, e.Own.Key)
}

// secretOf describes by which secret the keys of a registration are hashed.
func secretOf(key string) string {
	if id := bySecret.FindString(key); id != "" {
		return "with the secret" + strings.TrimPrefix(id, byID)
	}
	return "without a secret"
}

// Unwrap returns [ErrForeignCounts].
func (e *RegistrationError) Unwrap() error { return ErrForeignCounts }
