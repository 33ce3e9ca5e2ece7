package spec

import "slices"

// The rules, by the ids that their diagnostics carry. An id never changes its meaning.
const (
	fileTooLarge     = "file-too-large"
	invalidUTF8      = "invalid-utf8"
	controlCharacter = "control-character"
	emptyFile        = "empty-file"
	syntax           = "syntax"
	secondDocument   = "second-document"
	anchor           = "anchor"
	mergeKey         = "merge-key"
	tag              = "tag"
	nameNotText      = "name-not-text"
	duplicate        = "duplicate"
	unknownField     = "unknown-field"
	missingField     = "missing-field"
	wrongType        = "wrong-type"
	badVersion       = "bad-version"
	badPackage       = "bad-package"
	noLimits         = "no-limits"
	notIndented      = "not-indented"
	badName          = "bad-name"
	nameTooLong      = "name-too-long"
	reservedName     = "reserved-name"
	sameGoName       = "same-go-name"
	badGoName        = "bad-go-name"
	badKind          = "bad-kind"
	notForKind       = "not-for-kind"
	notWhole         = "not-whole"
	leadingZero      = "leading-zero"
	outOfRange       = "out-of-range"
	nothingPasses    = "nothing-passes"
	tooManyShards    = "too-many-shards"
	badDuration      = "bad-duration"
	badStart         = "bad-start"
	badOnError       = "bad-on-error"
	nothingCached    = "nothing-cached"
	badLease         = "bad-lease"
	badDurability    = "bad-durability"
	badDoc           = "bad-doc"
	badKeyPart       = "bad-key-part"
	badKeyType       = "bad-key-type"
	tooManyKeyParts  = "too-many-key-parts"
)

// Rule is something that every limits.yaml must keep to.
type Rule struct {
	// ID is what [Diagnostic.ID] says when the rule is broken.
	ID string
	// Summary says in one sentence what the rule asks for, and why.
	Summary string
	// Wrong and Right are a file that breaks the rule, and the same file put right. Both are empty if
	// such a file is too long to show.
	Wrong, Right string
}

// Rules returns every rule, in the order in which a file is read.
func Rules() []Rule { return slices.Clone(rules) }
