package spec

import "slices"

// The kinds of changes, by the ids that changes carry. An id never changes its meaning.
const (
	packageChanged     = "package-changed"
	limitAdded         = "limit-added"
	limitRemoved       = "limit-removed"
	limitRenamed       = "limit-renamed"
	docChanged         = "doc-changed"
	keyChanged         = "key-changed"
	kindChanged        = "kind-changed"
	rateChanged        = "rate-changed"
	capacityChanged    = "capacity-changed"
	maxReservedChanged = "max-reserved-changed"
	startChanged       = "start-changed"
	shardsChanged      = "shards-changed"
	onErrorChanged     = "on-error-changed"
	timeoutChanged     = "timeout-changed"
	denyCacheChanged   = "deny-cache-changed"
	leaseChanged       = "lease-changed"
	durabilityChanged  = "durability-changed"
	goNameChanged      = "go-name-changed"
)

// Change is one thing that differs between two files: a fact, without a judgement.
type Change struct {
	// ID names the kind of the change, one of [ChangeKinds]: "capacity-changed". It never changes.
	ID string
	// Limit is the name of the limit, the new one if it was renamed; "" for a change of the file itself.
	Limit string
	// Field is the field that has another value; "" if the limit was added, removed or renamed.
	Field string
	// Old and New are the sides of the change.
	Old, New Side
}

// Side is one side of a [Change].
type Side struct {
	// Limit is the limit in that file; nil if there is none.
	Limit *Limit
	// Value is the value of the field that holds, as limits.yaml has it; "" if none does. Of a limit that
	// was added, removed or renamed, it is the name.
	Value string
	// Given says that the file gives the value. Otherwise it holds by default.
	Given bool
	// Pos is where the value stands; where it is not given, that of the limit's name or of the file's
	// first rune. It is zero on the side on which there is no limit.
	Pos Pos
}

// ChangeKind is a way in which two files can differ.
type ChangeKind struct {
	// ID is what [Change.ID] says.
	ID string
	// Fields are the fields whose change it is; none for that of a whole limit.
	Fields []string
	// Summary says in one sentence what the change is, and what comes with it.
	Summary string
	// Old and New are two files that differ so.
	Old, New string
}

// ChangeKinds returns every kind of change, in the order in which they are told of a limit.
func ChangeKinds() []ChangeKind {
	kinds := slices.Clone(changeKinds)
	for i, k := range kinds {
		kinds[i].Fields = append(fieldsOf(k.ID, fileFields), fieldsOf(k.ID, limitFields)...)
	}
	return kinds
}

// fieldsOf returns the fields of a table whose change has an id.
func fieldsOf[T any](id string, fields []field[T]) (of []string) {
	for _, f := range fields {
		if f.change == id {
			of = append(of, f.name)
		}
	}
	return of
}
