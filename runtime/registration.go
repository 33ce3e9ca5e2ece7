package runtime

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

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
	// Key is the types of the key's parts, such as "(int64, hashed string)". It is empty if they are not known, as for
	// policies made by hand, which are then not compared.
	Key string
	// Numbers are the numbers of the limit, for people.
	Numbers string
	// At is when the registration was written.
	At time.Time
}

// RegistrationOf returns the registration of a limit: of its policy or those of all its plans. The owner, if it is not
// empty, replaces the owner of the policies.
func RegistrationOf(owner string, policies ...*Policy) Registration {
	r := Registration{Owner: owner, Format: StoredFormat}
	var numbers []string
	for _, p := range policies {
		r.Limit, r.Key = p.Name, p.KeyTypes()
		if r.Owner == "" {
			r.Owner = p.Owner()
		}
		numbers = append(numbers, p.numbers())
	}
	r.Numbers = strings.Join(numbers, "; ")
	if len(r.Numbers) > maxNumbers {
		r.Numbers = strings.ToValidUTF8(r.Numbers[:maxNumbers-3], "") + "..."
	}
	return r
}

// maxNumbers is the longest text of numbers that every database can store.
const maxNumbers = 1000

// numbers returns the numbers of a policy for people.
func (p *Policy) numbers() string {
	if p.Mode == ModeUnlimited {
		return "unlimited"
	}
	number := func(n, most int64) string {
		if most != 0 {
			return fmt.Sprintf("at most %d", n)
		}
		return fmt.Sprint(n)
	}
	text := fmt.Sprintf("%v: rate %s per %v, capacity %s", p.Kind, number(p.Rate, p.AtMost.Rate), p.Period, number(p.Capacity, p.AtMost.Capacity))
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

// ErrForeignCounts means that the stored counts of a limit's name belong to another limit; see [RegistrationError].
var ErrForeignCounts = errors.New("the stored counts are not those of this limit")

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
	}
	return text + fmt.Sprintf("their key is %s, and that of this limit is %s: run the SQL that \"ratelimitgen diff\" prints for that edit, "+
		"or call Adopt to leave the counts, blocks and overrides of the old key behind", e.Stored.Key, e.Own.Key)
}

// Unwrap returns [ErrForeignCounts].
func (e *RegistrationError) Unwrap() error { return ErrForeignCounts }
