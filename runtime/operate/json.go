package operate

import (
	"encoding/json"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
)

// The documents that -format json prints. Durations are in seconds, and keys are written as -stored reads them. Names that
// limithttp.Hint has too mean the same there.

type topJSON struct {
	Keys []usedJSON `json:"keys"`
	// Others are limits in the store that are not those of the program.
	Others []otherJSON `json:"others,omitempty"`
}

type usedJSON struct {
	Limit string `json:"limit"`
	// Plan is the plan by which the key was read: that of -plan, or of an override, or else the smallest one.
	Plan string `json:"plan,omitempty"`
	Key  string `json:"key"`
	// Most means that it was read by the most that callers can give, because the store does not have their numbers.
	Most bool `json:"most,omitempty"`
	countJSON
	// InForce is the entry of the log that is in force for the key.
	InForce int64 `json:"inForce,omitempty"`
}

// countJSON is what a key has. If it is Unlimited, only Used has a meaning.
type countJSON struct {
	Unlimited bool    `json:"unlimited,omitempty"`
	Capacity  int64   `json:"capacity"`
	Value     float64 `json:"value"`
	Remaining int64   `json:"remaining"`
	Used      int64   `json:"used"`
	FullAfter float64 `json:"fullAfter"`
	// Penalty is how long requests are denied because of a penalty.
	Penalty float64 `json:"penalty,omitempty"`
}

type otherJSON struct {
	Limit string `json:"limit"`
	Owner string `json:"owner,omitempty"`
}

type showJSON struct {
	Limit string `json:"limit"`
	// Key is missing for the whole limit.
	Key         *string        `json:"key,omitempty"`
	Fingerprint string         `json:"fingerprint,omitempty"`
	Stored      bool           `json:"stored,omitempty"`
	Exception   *exceptionJSON `json:"exception,omitempty"`
	Balances    []balanceJSON  `json:"balances,omitempty"`
	InForce     []entryJSON    `json:"inForce"`
	// Log has the entries of the key, and LimitLog those of the whole limit. They are null if the store has no log.
	Log      []entryJSON `json:"log"`
	LimitLog []entryJSON `json:"limitLog,omitempty"`
}

type exceptionJSON struct {
	Plan      string `json:"plan,omitempty"`
	Mode      string `json:"mode"`
	Unlimited bool   `json:"unlimited,omitempty"`
	numbersJSON
	Reason string `json:"reason"`
}

type numbersJSON struct {
	Rate        int64 `json:"rate,omitempty"`
	Capacity    int64 `json:"capacity,omitempty"`
	MaxReserved int64 `json:"maxReserved,omitempty"`
}

type balanceJSON struct {
	Plan string `json:"plan,omitempty"`
	Kind string `json:"kind"`
	Mode string `json:"mode"`
	Most bool   `json:"most,omitempty"`
	countJSON
	ResetAt time.Time `json:"resetAt,omitzero"`
	// Blocked means that all requests are denied, and BlockedFor how long: it is missing for a block without an end.
	Blocked    bool         `json:"blocked,omitempty"`
	BlockedFor float64      `json:"blockedFor,omitempty"`
	Holders    []holderJSON `json:"holders,omitempty"`
}

type holderJSON struct {
	Fence int64 `json:"fence"`
	Slots int64 `json:"slots"`
	// Ends is in how long the hold ends unless it is renewed.
	Ends float64 `json:"ends"`
}

type entryJSON struct {
	ID    int64     `json:"id"`
	At    time.Time `json:"at"`
	Limit string    `json:"limit"`
	// Key is missing for the whole limit, and for a key that was erased.
	Key    *string `json:"key,omitempty"`
	Erased bool    `json:"erased,omitempty"`
	What   string  `json:"what"`
	Plan   string  `json:"plan,omitempty"`
	// Tokens are those that were granted or taken.
	Tokens int64 `json:"tokens,omitempty"`
	numbersJSON
	// Until is when a block or an override ends. It is missing for one without an end, and for other entries.
	Until  time.Time `json:"until,omitzero"`
	Author string    `json:"author"`
	Reason string    `json:"reason"`
}

type logJSON struct {
	Entries []entryJSON `json:"entries"`
	// More means that there are older ones: see -before.
	More bool `json:"more,omitempty"`
	// Penalties are in force, and are not in the log.
	Penalties []penaltyJSON `json:"penalties,omitempty"`
}

type penaltyJSON struct {
	Limit string    `json:"limit"`
	Key   string    `json:"key"`
	Until time.Time `json:"until"`
	// Lifted is the entry because of which requests pass meanwhile.
	Lifted int64 `json:"lifted,omitempty"`
}

type whoJSON struct {
	Keys []foundJSON `json:"keys"`
}

type foundJSON struct {
	Limit string `json:"limit"`
	Key   string `json:"key"`
}

// json prints a document.
func (c *call) json(document any) error {
	e := json.NewEncoder(c.out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(document)
}

// asJSON reports whether the results are printed as JSON.
func (c *call) asJSON() bool { return c.flags.format == "json" }

func topDocument(busiest []BusyKey, others []runtime.Registration) topJSON {
	d := topJSON{Keys: []usedJSON{}}
	for _, b := range busiest {
		p, of := b.Policy.Inside(), b.Decision
		d.Keys = append(d.Keys, usedJSON{Limit: b.Policy.Name, Plan: b.Plan, Key: writtenKey(b.Key), Most: b.Policy.Most(),
			countJSON: countJSON{p.CountsOnly(), b.Policy.Full(), of.Value, of.Remaining, p.Used(of.Value), of.FullAfter.Seconds(),
				of.PenaltyFor.Seconds()}, InForce: b.Entry})
	}
	for _, o := range others {
		d.Others = append(d.Others, otherJSON{o.Limit, o.Owner})
	}
	return d
}

func entriesJSON(entries []runtime.OverrideEntry) []entryJSON {
	list := []entryJSON{}
	for _, e := range entries {
		of := entryJSON{
			ID: e.ID, At: e.At.UTC(), Limit: e.Limit, Erased: override.IsErased(e.Key), What: e.What, Plan: e.Plan,
			Author: e.Author, Reason: e.Reason,
		}
		switch e.What {
		case runtime.OverrideGranted, runtime.OverrideTaken:
			of.Tokens = e.Rate
		default:
			of.numbersJSON = numbersJSON{e.Rate, e.Capacity, e.MaxReserved}
		}
		if e.Key != "" && !of.Erased {
			key := writtenKey(e.Key)
			of.Key = &key
		}
		if !e.Until.Equal(runtime.ForGood()) && e.Until.After(e.At) {
			of.Until = e.Until.UTC()
		}
		list = append(list, of)
	}
	return list
}

func penaltiesJSON(keys []PenalizedKey) (list []penaltyJSON) {
	for _, k := range keys {
		list = append(list, penaltyJSON{k.Policy.Name, writtenKey(k.Key), k.Until.UTC(), k.Lifted})
	}
	return list
}

func whoDocument(found []FoundKey) whoJSON {
	d := whoJSON{Keys: []foundJSON{}}
	for _, k := range found {
		d.Keys = append(d.Keys, foundJSON{k.Limit, writtenKey(k.Key)})
	}
	return d
}
