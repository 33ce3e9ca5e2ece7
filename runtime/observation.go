package runtime

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/internal/words"
)

// Observation is what an [Observer] learns about one limit of a call. It has the key only as a fingerprint.
//
// All verbs are observed except those that only read a key, Peek and a Check of 0 tokens: Settle and Cancel as the
// Refund or Charge that corrects the count, if one is needed. Wait is observed once, when it has the tokens or gives
// up, and not for each retry. A call of several limits, as of a limiter.Group, has one observation for each, or only
// for the limit at fault if its request is invalid. An All of checks alone reads the keys and has none, nor has a call
// that names no limit, such as an All of no items. Blocks that a store leases in the background are not observed; the
// requests that use their tokens are.
type Observation struct {
	// Limit is the name of the limit, "" if the policy is nil.
	Limit string
	// Policy is the policy by which it was decided; do not change it. It is nil if the caller passed none.
	Policy *Policy
	// Op is the operation.
	Op Op
	// Outcome is the result in a word.
	Outcome Outcome
	// Source is the origin of the decision.
	Source Source
	// InTx means that the request was part of a transaction of the caller, which may still be rolled back.
	InTx bool
	// Crossed is copied from the decision: the threshold of the limit that the request has crossed, in percent, or 0.
	Crossed uint8
	// Index is the position of the limit in its call, counted from 0, and Limits how many the call has.
	Index, Limits int
	// Count is the count of the request, and Taken the [Decision.Taken].
	Count, Taken int64
	// Remaining is the number of whole tokens left, at least 0. If Source is SourceLease, it is the rest of the block.
	Remaining int64
	// Delay is the UsableAfter of the decision, and RetryAfter is copied from it.
	Delay, RetryAfter time.Duration
	// PenaltyFor is copied from the decision: more than 0 if the key has a [Penalty].
	PenaltyFor time.Duration
	// Reason is the [Decision.Reason] of a denial, "" without one.
	Reason string
	// Waited is how long a Wait has retried, 0 if it did not have to.
	Waited time.Duration
	// Duration is how long the call took in the store. It is 0 if it was answered from the memory of this process.
	Duration time.Duration

	err hiddenError
	key hiddenKey
}

// Outcome is the result of a request in a word. The zero Outcome is none.
type Outcome uint8

const (
	// OutcomeAllowed: the tokens were taken.
	OutcomeAllowed Outcome = iota + 1
	// OutcomeDelayed: the tokens were taken, for use after the Delay or after Wait has waited for them.
	OutcomeDelayed
	// OutcomeDenied: there were too few tokens, or the policy's Mode is [ModeBlock]. Nothing was taken.
	OutcomeDenied
	// OutcomeDeniedByOther: the limit would have allowed the call, but another limit of it denied. Nothing was taken.
	OutcomeDeniedByOther
	// OutcomeShadowDenied: the request passes because of [ModeShadow], and [ModeEnforce] would have denied it.
	OutcomeShadowDenied
	// OutcomeShadowDelayed: as OutcomeShadowDenied, but ModeEnforce would have delayed it, or given fewer tokens.
	OutcomeShadowDelayed
	// OutcomeFailedOpen: the store has failed, and the request passes uncounted; see [Decision.FailedOpen].
	OutcomeFailedOpen
	// OutcomeFailedLocal: the store has failed, and the memory of this process has allowed the request; see
	// [Decision.FailedLocal]. If it denies, the outcome is OutcomeDenied, and the Source is SourceMemory.
	OutcomeFailedLocal
	// OutcomeChecked: a Check has passed. One that has not is OutcomeDenied.
	OutcomeChecked
	// OutcomeCharged: a Charge, or a Settle for more than was reserved, has taken the tokens.
	OutcomeCharged
	// OutcomeRefunded: a Refund, a Cancel or a Settle has given tokens back, at most the Count.
	OutcomeRefunded
	// OutcomeReset: the key was reset.
	OutcomeReset
	// OutcomeRenewed: a [Renew] holds the slots longer. The Count is their number.
	OutcomeRenewed
	// OutcomeReleased: a [Release] has freed the slots. The Count is their number.
	OutcomeReleased
	// OutcomeSlotLost: the slots of a Renew or a Release were no longer held: see [ErrSlotLost]. The Count is their
	// number.
	OutcomeSlotLost
	// OutcomeCanceled: the caller's context ended before the decision.
	OutcomeCanceled
	// OutcomeInvalid: the store has not failed, but the request can never be decided, by a mistake of its sender or of the
	// program: see [OriginOf].
	OutcomeInvalid
	// OutcomeError: the store could not decide, and so the request fails.
	OutcomeError

	endOfOutcomes // every outcome before it has an entry in the table outcomes
)

// outcomes has an entry for every [Outcome]. If one is missing, the array is too short for its type and does not
// compile.
var outcomes [endOfOutcomes]string = [...]string{
	OutcomeAllowed:       "allowed",
	OutcomeDelayed:       "delayed",
	OutcomeDenied:        "denied",
	OutcomeDeniedByOther: "denied_by_other",
	OutcomeShadowDenied:  "shadow_denied",
	OutcomeShadowDelayed: "shadow_delayed",
	OutcomeFailedOpen:    "failed_open",
	OutcomeFailedLocal:   "failed_local",
	OutcomeChecked:       "checked",
	OutcomeCharged:       "charged",
	OutcomeRefunded:      "refunded",
	OutcomeReset:         "reset",
	OutcomeRenewed:       "renewed",
	OutcomeReleased:      "released",
	OutcomeSlotLost:      "slot_lost",
	OutcomeCanceled:      "canceled",
	OutcomeInvalid:       "invalid",
	OutcomeError:         "error",
}

// Outcomes returns every Outcome.
func Outcomes() []Outcome { return constants(OutcomeAllowed, endOfOutcomes) }

// String returns the outcome as metrics have it: "denied_by_other".
func (o Outcome) String() string { return nameOf(entryOf(outcomes[:], o), o) }

// MarshalText implements [encoding.TextMarshaler]: it returns String.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Tokens returns the number of tokens that the outcome is about: those taken if the request has passed, and otherwise
// those requested, at most as many as the limit can give. It is 0 for a Check, and for requests that were not decided.
func (o *Observation) Tokens() int64 {
	switch o.Outcome {
	case OutcomeChecked, OutcomeReset, OutcomeSlotLost, OutcomeCanceled, OutcomeInvalid, OutcomeError:
		return 0
	case OutcomeCharged, OutcomeRefunded, OutcomeRenewed, OutcomeReleased:
		return o.Count
	case OutcomeDenied, OutcomeDeniedByOther, OutcomeShadowDenied:
		if o.Op == Check || o.Policy == nil {
			return 0
		}
		return min(o.Count, o.Policy.Full()+o.Policy.MaxReserved)
	}
	return o.Taken
}

// Override returns the number of the entry in the log of overrides that was in force for the request, or false if none
// was. Policy then has the numbers of the override.
func (o *Observation) Override() (entry int64, ok bool) { return o.Policy.Override() }

// Near reports whether the request has passed and left less than a tenth of the capacity. It is false for leased
// tokens, for which Remaining is not that of the key.
func (o *Observation) Near() bool {
	passed := o.Outcome == OutcomeAllowed || o.Outcome == OutcomeDelayed
	return passed && o.Source == SourceStore && o.Policy != nil && 10*o.Remaining < o.Policy.Full()
}

// Fingerprint returns the [Fingerprint] of the key. It is the fingerprint of no parts for a limit without a key, and
// for a key that is invalid.
func (o *Observation) Fingerprint(secret []byte) string { return Fingerprint(secret, o.key.text()) }

// KeyHash returns a hash of the key, which is faster than Fingerprint and holds within this process.
func (o *Observation) KeyHash(seed maphash.Seed) uint64 { return maphash.String(seed, o.key.text()) }

// Err returns the error of the call or, if the limit's OnError let it pass, the store's error; nil without an error. It
// may contain the key, if a database or a MarshalText has put it there: print Message in its place.
func (o *Observation) Err() error {
	if o.err == nil {
		return nil
	}
	return o.err()
}

// Message returns the text of Err without the key, or "" if there is no error.
func (o *Observation) Message() string {
	err := o.Err()
	if err == nil {
		return ""
	}
	return withoutKey(err.Error(), o.key.text())
}

// Fingerprint returns 12 hexadecimal digits that stand for a key in logs and metrics: the beginning of the HMAC-SHA-256
// of the key, as [Key.String] returns it, under a secret. With the secret, the key of a fingerprint can be found among
// the stored keys. Without it, trying does not find it.
func Fingerprint(secret []byte, key string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(key))
	return hex.EncodeToString(mac.Sum(nil)[:6])
}

// hiddenKey returns the text of a key. It is a function because printing by reflection shows only its address.
type hiddenKey func() string

// SetKey sets the key of the request, which only the methods of o use.
func (o *Observation) SetKey(key string) { o.key = func() string { return key } }

func (k hiddenKey) text() string {
	if k == nil {
		return ""
	}
	return k()
}

// hiddenError returns an error. It is a function because the errors that the error wraps may contain the key.
type hiddenError func() error

// SetErr sets the error of Err.
func (o *Observation) SetErr(err error) { o.err = func() error { return err } }

// withoutKey returns a text in which a key is replaced. A key of a few bytes is replaced only where it is a word,
// because it occurs in others by chance.
func withoutKey(text, key string) string {
	if key == "" {
		return text
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, key)
		b.WriteString(before)
		switch {
		case !found:
			return b.String()
		case len(key) < 6 && (wordAt(before, len(before)-1) || wordAt(after, 0)):
			b.WriteString(key)
		default:
			b.WriteString("[key]")
		}
		text = after
	}
}

// wordAt reports whether the byte at i belongs to a word or a number.
func wordAt(s string, i int) bool {
	if i < 0 || i >= len(s) {
		return false
	}
	c := s[i]
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
}

// String returns the observation in words, without the key: `sendMessage: Take 1: denied, retry after 6s`.
func (o Observation) String() string {
	text := fmt.Sprintf("%s: %v %d: %v", o.Limit, o.Op, o.Count, o.Outcome)
	if o.RetryAfter > 0 && o.RetryAfter < Never {
		text += fmt.Sprintf(", retry after %v", words.Rough(o.RetryAfter))
	}
	if o.PenaltyFor > 0 {
		text += fmt.Sprintf(", penalty for %v", words.Rough(o.PenaltyFor))
	}
	if message := o.Message(); message != "" {
		text += ": " + message
	}
	return text
}

// Format implements [fmt.Formatter]: every verb prints String, because some would print all fields of a struct.
func (o Observation) Format(s fmt.State, _ rune) { fmt.Fprint(s, o.String()) }

// MarshalText implements [encoding.TextMarshaler], for JSON and loggers: it returns String.
func (o Observation) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Observer receives the decisions of a limiter.Limiter, for metrics, logs and traces. Package observe has some.
type Observer interface {
	// Decided is called once for each limit of a call, on the goroutine of the caller, after the decision and before the
	// caller gets it. No lock is held, so that it may use the limiter; it must return soon, and may be called by many
	// goroutines at once. ctx is the caller's, and may have ended.
	//
	// A panic is not recovered: it reaches the caller, who then gets no decision although the tokens are taken.
	Decided(ctx context.Context, o Observation)
}
