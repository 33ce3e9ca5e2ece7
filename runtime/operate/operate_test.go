package operate_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/memstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/operate"
	"github.com/ratelimitgen/ratelimitgen/runtime/printable"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

var update = flag.Bool("update", false, "write the transcripts anew")

// start is the time of the transcripts, which does not pass.
var start = time.Date(2026, 11, 22, 9, 30, 0, 0, time.UTC)

func catalog(t *testing.T) *runtime.Catalog {
	bounds := runtime.OverrideBounds{Rate: 100, Capacity: 200, Unlimited: true}
	policies := []*runtime.Policy{
		{Name: "sendMessage", Kind: runtime.TokenBucket, Rate: 10, Period: time.Minute, Capacity: 20, Overrides: bounds},
		{Name: "signUp", Kind: runtime.FixedWindow, Rate: 100, Period: time.Hour, Capacity: 100, Start: runtime.StartOffset(0)},
		{Name: "search", Kind: runtime.SlidingWindow, Rate: 5, Period: time.Minute, Capacity: 5, Start: runtime.StartOffset(0)},
		{Name: "smsCode", Kind: runtime.FixedWindow, Rate: 3, Period: 10 * time.Minute, Capacity: 3, Start: runtime.StartFirstUse()},
		{Name: "llmTokens", Kind: runtime.TokenBucket, Rate: 40_000, Period: time.Minute, Capacity: 40_000, Shards: 4},
		{Name: "password", Kind: runtime.SlidingWindow, Rate: 3, Period: time.Hour, Capacity: 3, Precise: true},
		{Name: "digest", Kind: runtime.FixedWindow, Rate: 2, Period: 24 * time.Hour, Capacity: 2,
			Calendar: runtime.Calendar{Unit: runtime.Day, ZonePerKey: true}},
		{Name: "exports", Kind: runtime.TokenBucket, Rate: 100, Period: time.Minute, Capacity: 200, AtMost: runtime.Numbers{Rate: 100, Capacity: 200}},
		{Name: "paused", Kind: runtime.TokenBucket, Rate: 1, Period: time.Minute, Capacity: 1, Mode: runtime.ModeOff},
	}
	names := runtime.PlanNames{1: "free", 2: "pro", 3: "enterprise"}
	plans := runtime.PlanPolicies{
		1: {Name: "apiCalls", Kind: runtime.TokenBucket, Rate: 60, Period: time.Minute, Capacity: 100, Overrides: bounds},
		2: {Name: "apiCalls", Kind: runtime.TokenBucket, Rate: 100, Period: time.Minute, Capacity: 200, Overrides: bounds},
		3: {Name: "apiCalls", Kind: runtime.TokenBucket, Mode: runtime.ModeUnlimited, Overrides: bounds},
	}.Overridable(names)
	plans.Except([]runtime.Exception{
		{Key: "42", Plan: 3, Reason: "contract until 2027"},
		{Key: "43", Numbers: runtime.Numbers{Rate: 500, Capacity: 1000}, Reason: "migration"},
		{Key: "44", Mode: runtime.ModeBlock, Reason: "abuse"},
	})
	keys := map[string][]runtime.CatalogKey{
		"sendMessage": {{Name: "userID", Type: "int64"}},
		"search":      {{Name: "addr", Type: "netip.Addr/64"}},
		"smsCode":     {{Name: "number", Type: "hashed string"}, {Name: "resend", Type: "bool"}},
		"llmTokens":   {{Name: "team", Type: "string"}, {Name: "model", Type: "example.com/ids.Model"}},
		"password":    {{Name: "user", Type: "string"}},
		"digest":      {{Name: "user", Type: "uint64"}},
		"exports":     {{Name: "org", Type: "uint64"}},
		"paused":      {{Name: "user", Type: "string"}},
		"apiCalls":    {{Name: "org", Type: "uint64"}},
	}
	c := &runtime.Catalog{Plans: []string{"free", "pro", "enterprise"}}
	for _, p := range policies {
		c.Limits = append(c.Limits, runtime.CatalogLimit{Name: p.Name, Key: keys[p.Name], Policies: []*runtime.Policy{p}})
	}
	c.Limits = append(c.Limits, runtime.CatalogLimit{Name: "apiCalls", Key: keys["apiCalls"], Policies: []*runtime.Policy{&plans[1], &plans[2], &plans[3]}})
	for _, l := range c.Limits {
		for _, p := range l.Policies {
			require.NoError(t, p.Validate())
		}
	}
	return c
}

// image is everything that a store holds.
func image(t *testing.T, c *runtime.Catalog, store *memstore.Store) (rows, entries string) {
	var b strings.Builder
	for _, l := range c.Limits {
		page, _, err := store.Rows(context.Background(), runtime.Row{Name: l.Name, Shard: -1}, runtime.RowPage)
		require.NoError(t, err)
		fmt.Fprintln(&b, page)
	}
	log, err := store.OverridesSince(context.Background(), 1)
	require.NoError(t, err)
	return b.String(), fmt.Sprint(log)
}

// writing are the commands that write.
var writing = map[string]bool{"grant": true, "take": true, "reset": true, "erase": true, "block": true, "unblock": true, "override": true, "end": true}

// Each line of a transcript that begins with $ is a command, and what follows is its output and exit code. A command that
// fails must write nothing, and one that writes must leave one entry in the log, or with -all one for each limit, with its
// reason and author.
func TestTranscripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			c, store := catalog(t), &memstore.Store{Clock: func() time.Time { return start }}
			var got strings.Builder
			p := operate.Program{Catalog: c, Store: store}
			if name := filepath.Base(path); name == "fingerprints.txt" || name == "json.txt" {
				p.Secret = []byte("secret")
			}
			for line := range strings.Lines(string(text)) {
				switch command, isCommand := strings.CutPrefix(line, "$ "); {
				case isCommand:
					got.WriteString(line)
					transcribe(t, p, store, words(command), &got)
				case strings.HasPrefix(line, "# ") || line == "\n":
					got.WriteString(line)
				}
			}
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(got.String()), 0o644))
			}
			assert.Equal(t, string(text), got.String(), "after an intended change, run go test ./runtime/operate -update")
		})
	}
}

func transcribe(t *testing.T, p operate.Program, store *memstore.Store, args []string, got *strings.Builder) {
	rows, log := image(t, p.Catalog, store)
	before, _ := store.OverridesSince(context.Background(), 1)
	var out bytes.Buffer
	code := p.Main(context.Background(), args, &out, &out)
	for line := range strings.Lines(out.String()) {
		got.WriteString("| " + strings.TrimRight(line, " \n") + "\n")
	}
	if code != operate.OK {
		fmt.Fprintf(got, "exit %d\n", code)
	}
	nowRows, nowLog := image(t, p.Catalog, store)
	if code != operate.OK && code != operate.Partly || len(args) == 0 || !writing[args[0]] {
		assert.Equal(t, rows, nowRows, "%v has changed counts", args)
		assert.Equal(t, log, nowLog, "%v has written to the log", args)
		return
	}
	after, err := store.OverridesSince(context.Background(), 1)
	require.NoError(t, err)
	if args[1] == "-all" {
		require.Greater(t, len(after), len(before), "%v must leave entries", args)
	} else {
		require.Len(t, after, len(before)+1, "%v must leave one entry", args)
		assert.Equal(t, args[1], after[len(before)].Limit)
	}
	for _, e := range after[len(before):] {
		assert.Contains(t, args, e.Reason)
		assert.Contains(t, args, e.Author)
		assert.Equal(t, start, e.At)
	}
}

// words splits a line at spaces, and keeps words in single quotes together. Escapes are those of Go.
func words(line string) (all []string) {
	for i, part := range strings.Split(strings.TrimSuffix(line, "\n"), "'") {
		if i%2 == 1 {
			all = append(all, strings.NewReplacer(`\e`, "\x1b", `\n`, "\n").Replace(part))
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

// sh returns the words that a POSIX shell makes of a text.
func sh(t *testing.T, text string) []string {
	out, err := exec.Command("sh", "-c", `printf '%s\0' `+text).Output()
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// hostile are texts that terminals, shells or escapes could change.
var hostile = []string{"eve@example.com", "a b", "it's", `"$HOME"`, "`id`", `a\b`, "!!", "~", "-", "-x", "%", "%41", "50%", "a|b", "(shared)", "*",
	"a\u200bb", "\u202eabc", "a\u2028b", "a\x00b", "\xff\xe2", "\xe2\u200b", "\xe2\x80", "\u0080\u009b", "👩\u200d💻", "\u00a0", "\ufeff", "\U000e0041", "é", "e\u0301", "\ufffd",
	strings.Repeat("x", 300), strings.Repeat("\x00", 100), strings.Repeat("\u200b", 100), strings.Repeat("\xe2", 90)}

// An erasure in all limits that is refused in one has failed, and says in which.
func TestEraseAllReportsTheLimitWithABlock(t *testing.T) {
	c, store := catalog(t), &memstore.Store{Clock: func() time.Time { return start }}
	org := func(name string) runtime.CatalogLimit {
		l, _ := c.Limit("apiCalls")
		l.Name, l.Policies = name, []*runtime.Policy{{Name: name, Kind: runtime.TokenBucket, Rate: 1, Period: time.Minute, Capacity: 1}}
		return l
	}
	c.Limits = append(c.Limits, org("exports"))
	run := func(args ...string) (int, string) {
		var out bytes.Buffer
		code := operate.Program{Catalog: c, Store: store}.Main(t.Context(), append(args, "-reason", "r", "-author", "a"), &out, &out)
		return code, out.String()
	}
	code, out := run("block", "-all", "org=7", "-for-good")
	require.Equal(t, operate.Partly, code)
	require.Contains(t, out, "done in part: the key is blocked in 1 of the 3 limits that have it\n")
	require.Contains(t, out, "exports: nothing was changed: exports has no overrides: add overrides to it in limits.yaml\n")
	code, out = run("erase", "-all", "org=7")
	require.Equal(t, operate.Failed, code)
	require.Contains(t, out, "apiCalls: nothing was changed: erase a key of limit")
	require.Contains(t, out, "exports, key 7 was erased")
	require.Contains(t, out, "failed: apiCalls: see above\n")
	code, _ = run("end", "-all", "org=7")
	require.Equal(t, operate.OK, code)
	code, _ = run("erase", "-all", "org=7")
	require.Equal(t, operate.OK, code)
}

// A page of the log has the newest entries before one, however long the log is.
func TestLogPages(t *testing.T) {
	store := &memstore.Store{}
	for i := range 25 {
		_, err := store.AppendOverride(t.Context(), runtime.OverrideEntry{
			Limit: "signUp", What: runtime.OverrideReset, Until: start, At: start, Reason: "r", Author: []string{"a", "b"}[i%2],
		})
		require.NoError(t, err)
	}
	var ids []int64
	for q := (operate.LogQuery{Author: "a", Most: 4}); ; {
		entries, more, err := operate.Program{Store: store}.Log(t.Context(), q)
		require.NoError(t, err)
		for _, e := range entries {
			ids = append(ids, e.ID)
		}
		if !more {
			break
		}
		require.Len(t, entries, q.Most)
		q.Before = entries[len(entries)-1].ID
	}
	require.Equal(t, []int64{25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1}, ids)
}

// A key as top, who and show print it, pasted into a shell as -stored, is that key and no other one.
func TestPrintedKeysAreAddresses(t *testing.T) {
	c, secret := catalog(t), []byte("secret")
	password, _ := c.Limit("password")
	for _, text := range hostile {
		store := &memstore.Store{Clock: func() time.Time { return start }}
		run := func(args ...string) string {
			var out bytes.Buffer
			code := operate.Program{Catalog: c, Store: store, Secret: secret}.Main(t.Context(), args, &out, &out)
			require.Equal(t, operate.OK, code, "%q: %s", text, &out)
			for _, r := range out.String() {
				require.True(t, r == '\n' || unicode.IsPrint(r), "%q printed %q", text, &out)
			}
			return out.String()
		}
		key := runtime.KeyOf(runtime.String(text))
		_, err := limiter.New(store).Limit(password.Policies[0], key).Charge(t.Context(), 2)
		require.NoError(t, err)
		top := regexp.MustCompile(`password +- +(.+?) +1 +3 `).FindStringSubmatch(run("top"))
		who := regexp.MustCompile(`password +(.+)\n`).FindStringSubmatch(run("who", runtime.Fingerprint(secret, key.String())))
		require.NotNil(t, top, "%q", text)
		require.NotNil(t, who, "%q", text)
		assert.Equal(t, top[1], who[1])
		words := sh(t, top[1])
		require.Len(t, words, 1, "%q", text)
		shown := run("show", "password", "-stored", words[0])
		assert.Contains(t, shown, "password, key "+top[1]+", fingerprint")
		assert.Contains(t, shown, "1 of 3 left")
		assert.Contains(t, run("reset", "password", "-stored", words[0], "-reason", "r", "-author", "a"), "was reset and now is full")
		assert.Zero(t, store.Len(), "%q: another key was reset", text)
	}
}

func FuzzQuoteKey(f *testing.F) {
	for _, text := range hostile {
		f.Add(text, "b")
	}
	l := runtime.CatalogLimit{Name: "l", Key: []runtime.CatalogKey{{Name: "a", Type: "string"}, {Name: "b", Type: "string"}, {Name: "c", Type: "string"}}}
	f.Fuzz(func(t *testing.T, a, b string) {
		key := runtime.KeyOf(runtime.String(a), runtime.String(b), runtime.String("c"))
		word := operate.QuoteKey(key.String())
		require.Equal(t, printable.Line(word), word)
		if unquoted, quoted := strings.CutPrefix(word, "'"); quoted {
			word = strings.ReplaceAll(strings.TrimSuffix(unquoted, "'"), `'\''`, "'")
		}
		got, err := l.ParseStored(word)
		require.NoError(t, err, "%q", word)
		require.Equal(t, key, got)
	})
}

// A change that names no key, or one that the limit cannot have, writes nothing: only Whole means the whole limit.
func TestApplyRefusesMissingKeys(t *testing.T) {
	c, store := catalog(t), &memstore.Store{Clock: func() time.Time { return start }}
	user := runtime.KeyOf(runtime.Int64(42))
	for _, change := range []operate.Change{
		{}, {Verb: operate.Block}, {Verb: "drop", Limit: "sendMessage", Key: user}, {Verb: operate.Block, Limit: "sendMesage", Key: user},
		{Limit: "sendMessage"}, {Limit: "sendMessage", Key: runtime.KeyOf()}, {Limit: "sendMessage", Key: runtime.KeyOf(runtime.String(""))},
		{Limit: "sendMessage", Key: runtime.KeyOf(runtime.Addr(netip.Addr{}))}, {Limit: "sendMessage", Key: runtime.KeyOf(runtime.String("x"))},
		{Limit: "sendMessage", Key: runtime.KeyOf(runtime.Int64(1), runtime.Int64(2))}, {Limit: "sendMessage", Key: user, Whole: true},
		{Limit: "signUp", Key: user},
	} {
		verbs := []operate.Verb{operate.Grant, operate.Take, operate.Reset, operate.Block, operate.Unblock, operate.Override, operate.End}
		if change.Verb != "" {
			verbs = []operate.Verb{change.Verb}
		}
		for _, verb := range verbs {
			change.Verb, change.Tokens, change.Rate, change.For, change.Reason, change.Author = verb, 1, 5, time.Hour, "r", "a"
			_, err := operate.Program{Catalog: c, Store: store}.Apply(t.Context(), change)
			assert.ErrorIs(t, err, operate.ErrUsage, "%+v", change)
		}
	}
	entries, err := store.OverridesSince(t.Context(), 1)
	require.NoError(t, err)
	assert.Empty(t, entries)
	assert.Zero(t, store.Len())
}

// A store without a log or without lists is refused before anything is changed.
func TestStoreWithoutLog(t *testing.T) {
	c, mem := catalog(t), &memstore.Store{Clock: func() time.Time { return start }}
	store := struct{ runtime.Store }{mem}
	for _, args := range []string{"take sendMessage 1 -n 5 -reason r -author a", "reset sendMessage 1 -reason r -author a",
		"block sendMessage 1 -for 1h -reason r -author a", "log sendMessage 1", "top"} {
		var out bytes.Buffer
		assert.Equal(t, operate.Failed, operate.Program{Catalog: c, Store: store}.Main(t.Context(), strings.Fields(args), &out, &out), args)
		assert.Contains(t, out.String(), "the store", args)
	}
	assert.Zero(t, mem.Len())
	// Without a log, keys that have rows are found.
	_, err := limiter.New(mem).Limit(c.Limits[5].Policies[0], runtime.KeyOf(runtime.String("eve"))).Charge(t.Context(), 1)
	require.NoError(t, err)
	lister := struct{ runtime.RowLister }{mem}
	found, _, err := operate.Program{Store: lister}.Who(t.Context(), c.Limits[5:6], runtime.Fingerprint(nil, "eve"), 0)
	require.NoError(t, err)
	assert.Equal(t, []operate.FoundKey{{Limit: "password", Key: "eve"}}, found)
	_, _, err = operate.Program{Store: lister}.Who(t.Context(), c.Limits, runtime.Fingerprint(nil, "eve"), 0)
	assert.ErrorIs(t, err, runtime.ErrNoOverrides, "a blocked key may be in the log alone")
}

// The same on a database: entries that one store writes are read by another.
func TestOnSQLite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	run := func(args string) string {
		store, err := sqlite.Open(path)
		require.NoError(t, err)
		defer store.Close()
		var out bytes.Buffer
		assert.Equal(t, operate.OK, operate.Program{Catalog: catalog(t), Store: store}.Main(t.Context(), words(args), &out, &out), "%s: %s", args, &out)
		return out.String()
	}
	run("take password eve -n 2 -reason 'too many links' -author alice")
	run("take llmTokens acme m -n 40000 -reason abuse -author alice")
	run("block sendMessage 42 -for 1h -reason spam -author bob")
	assert.Contains(t, run("show password eve"), "1 of 3 left")
	assert.Contains(t, run("log password eve"), "taken 2  alice  too many links")
	assert.Contains(t, run("show sendMessage 42"), "in force for this key: block, until ")
	assert.Contains(t, run("block sendMessage 43 -until 2199-01-01 -reason spam -author bob"), "until 2199-01-01 00:00:00Z")
	assert.Contains(t, run("block sendMessage 43 -until 2199-01-01T09:00:00+01:00 -reason spam -author bob"), "until 2199-01-01 08:00:00Z")
	assert.Regexp(t, `(?s)llmTokens .*password +- +eve +1 +3`, run("top"))
	run("reset llmTokens acme m -reason 'it was us' -author bob")
	assert.NotContains(t, run("top"), "llmTokens")
}

// Of two programs that share a table, each lists the limits of the other as those of somebody else, and not their keys.
func TestLimitsOfAnotherProgram(t *testing.T) {
	path, programs := filepath.Join(t.TempDir(), "limits.db"), map[string]*sqlite.Store{}
	catalogs := map[string]*runtime.Catalog{}
	for owner, limit := range map[string]string{"a.example": "visit", "b.example": "download"} {
		store, err := sqlite.OpenWith(path, sqlstore.Options{Owner: owner})
		require.NoError(t, err)
		defer store.Close()
		c := &runtime.Catalog{}
		for _, name := range []string{"shared", limit} {
			p := &runtime.Policy{Name: name, Kind: runtime.TokenBucket, Rate: 1, Period: time.Hour, Capacity: 9}
			c.Limits = append(c.Limits, runtime.CatalogLimit{Name: name, Key: []runtime.CatalogKey{{Name: "user", Type: "string"}}, Policies: []*runtime.Policy{p}})
		}
		programs[owner], catalogs[owner] = store, c
	}
	run := func(owner, args string) (int, string) {
		var out bytes.Buffer
		code := operate.Program{Catalog: catalogs[owner], Store: programs[owner]}.Main(t.Context(), words(args), &out, &out)
		return code, out.String()
	}
	for _, of := range [][2]string{{"a.example", "shared"}, {"a.example", "visit"}, {"b.example", "download"}} {
		code, out := run(of[0], "take "+of[1]+" secret -n 1 -reason r -author a")
		require.Equal(t, operate.OK, code, out)
	}
	code, out := run("a.example", "top")
	require.Equal(t, operate.OK, code, out)
	require.Regexp(t, `(?s)^LIMIT [^\n]*\n(visit|shared) [^\n]*\n(visit|shared) [^\n]*\nNot a limit of this program: download, of b.example\n$`, out)
	code, out = run("b.example", "top")
	require.Equal(t, operate.OK, code, out)
	require.Regexp(t, `(?s)^LIMIT [^\n]*\ndownload [^\n]*\nNot a limit of this program: shared, of a.example\nNot a limit of this program: visit, of a.example\n$`, out)
	code, out = run("b.example", "top shared")
	require.Equal(t, operate.Failed, code)
	require.Contains(t, out, "they belong to a.example")

	// The penalties of the other program are not shown as those of the limit with that name.
	for i, owner := range []string{"a.example", "b.example"} {
		shared, _ := catalogs[owner].Limit("shared")
		shared.Policies[0].Penalty = runtime.PenaltyOf(0, time.Hour)
		if i == 0 {
			_, err := limiter.New(programs[owner]).Limit(shared.Policies[0], runtime.KeyOf(runtime.String("secret"))).AllowN(t.Context(), 9)
			require.NoError(t, err)
		}
		penalties, err := operate.Program{Store: programs[owner]}.Penalized(t.Context(), &shared)
		require.NoError(t, err)
		require.Len(t, penalties, 1-i, owner)
	}
}

// failing is a store whose log cannot be written.
type failing struct{ *memstore.Store }

func (failing) AppendOverride(context.Context, runtime.OverrideEntry) (runtime.OverrideEntry, error) {
	return runtime.OverrideEntry{}, fmt.Errorf("the disk is full")
}

func TestNothingChangesWithoutEntry(t *testing.T) {
	mem := &memstore.Store{Clock: func() time.Time { return start }}
	for _, args := range []string{"take sendMessage 1 -n 5", "grant sendMessage 1 -n 5", "reset sendMessage 1", "block sendMessage 1 -for 1h"} {
		var out bytes.Buffer
		code := operate.Program{Catalog: catalog(t), Store: failing{mem}}.Main(t.Context(), append(strings.Fields(args), "-reason", "r", "-author", "a"), &out, &out)
		assert.Equal(t, operate.Failed, code)
		assert.Contains(t, out.String(), "the disk is full")
	}
	assert.Zero(t, mem.Len())
}

// A key is found on any page of the rows, by the fingerprint that logs have of it, and the pages can be bounded.
func TestWhoReadsAllPages(t *testing.T) {
	c, store := catalog(t), &memstore.Store{Clock: func() time.Time { return start }}
	password, _ := c.Limit("password")
	limits, secret := limiter.New(store), []byte("secret")
	last := ""
	for i := range 3*runtime.RowPage + 1 {
		key := runtime.KeyOf(runtime.String(fmt.Sprintf("user %06d", i)))
		_, err := limits.Limit(password.Policies[0], key).Charge(t.Context(), 1)
		require.NoError(t, err)
		last = key.String()
	}
	fingerprint := runtime.Fingerprint(secret, last)
	found, more, err := operate.Program{Store: store, Secret: secret}.Who(t.Context(), c.Limits, fingerprint, 0)
	require.NoError(t, err)
	assert.Equal(t, []operate.FoundKey{{Limit: "password", Key: last}}, found)
	assert.False(t, more)
	found, more, err = operate.Program{Store: store, Secret: secret}.Who(t.Context(), c.Limits, fingerprint, 2)
	require.NoError(t, err)
	assert.Empty(t, found)
	assert.True(t, more)
	found, _, err = operate.Program{Store: store, Secret: []byte("another")}.Who(t.Context(), c.Limits, fingerprint, 0)
	require.NoError(t, err)
	assert.Empty(t, found)
}

// The slots of a limit in flight are shown with their holders. They are freed by reset, and not by numbers of tokens.
// With the catalog of a program that has limiter.Mode, the commands say what is in force there, and that a block is not.
func TestShowsTheModeOfTheProgram(t *testing.T) {
	store := &memstore.Store{Clock: func() time.Time { return start }}
	shown := func(c *runtime.Catalog, args string) string {
		var out bytes.Buffer
		operate.Program{Catalog: c, Store: store}.Main(t.Context(), strings.Fields(args), &out, &out)
		return out.String()
	}
	c := catalog(t)
	shown(c, "take sendMessage 7 -n 5 -reason r -author a")
	shown(c, "block sendMessage 7 -for 1h -reason r -author a")
	assert.Contains(t, shown(c, "show sendMessage 7"), "blocked")
	assert.NotContains(t, shown(c, "show signUp"), "limiter.Mode")
	for args, want := range map[string]string{
		"show sendMessage 7": "15 of 20 left, full after 30s, mode shadow by limiter.Mode",
		"show signUp":        "100 of 100 left, window ends in 30m0s, mode shadow by limiter.Mode",
		"show paused ann":    "mode off\n", // as the file says
	} {
		assert.Contains(t, shown(c.Mode(runtime.ModeShadow), args), want, args)
	}
	limiter.New(store, limiter.Mode(runtime.ModeOff))
	assert.Contains(t, shown(c, "show sendMessage 7"), "mode off by limiter.Mode", "a limiter of the program has the same store")
}

func TestShowsTheThresholds(t *testing.T) {
	p := &runtime.Policy{Name: "reports", Kind: runtime.FixedWindow, Rate: 10, Period: time.Hour, Capacity: 10, Start: runtime.StartOffset(0),
		Warn: runtime.Thresholds{80, 100}}
	c := &runtime.Catalog{Limits: []runtime.CatalogLimit{{Name: "reports", Policies: []*runtime.Policy{p}}}}
	store := &memstore.Store{Clock: func() time.Time { return start }}
	_, err := limiter.New(store).Limit(p, runtime.Key{}).AllowN(t.Context(), 9)
	require.NoError(t, err)
	var out bytes.Buffer
	operate.Program{Catalog: c, Store: store}.Main(t.Context(), []string{"show", "reports"}, &out, &out)
	assert.Contains(t, out.String(), "1 of 10 left, full after 30m, window ends in 30m0s, warns at [80%, 100%]\n")
}

func TestShowsTheHoldersOfSlots(t *testing.T) {
	now := start
	store := &memstore.Store{Clock: func() time.Time { return now }}
	p := &runtime.Policy{Name: "exports", Kind: runtime.InFlight, Slots: 5, Hold: 2 * time.Minute,
		Overrides: runtime.OverrideBounds{Slots: 50}, Penalty: runtime.PenaltyOf(0, time.Hour)}
	c := &runtime.Catalog{Limits: []runtime.CatalogLimit{
		{Name: "exports", Key: []runtime.CatalogKey{{Name: "org", Type: "int64"}}, Policies: []*runtime.Policy{p}},
	}}
	main := func(args ...string) string {
		var out bytes.Buffer
		operate.Program{Catalog: c, Store: store}.Main(t.Context(), args, &out, &out)
		return out.String()
	}
	slots := limiter.New(store).Slots(p, runtime.KeyOf(runtime.Int64(7)))
	first, err := slots.AcquireN(t.Context(), 2)
	require.NoError(t, err)
	now = now.Add(30 * time.Second)
	second, err := slots.Acquire(t.Context())
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("exports, key 7\n  3 of 5 slots in use, all free after 2m0s unless renewed\n"+
		"    fence %d holds 2, ends in 1m30s unless renewed\n    fence %d holds 1, ends in 2m0s unless renewed\n", first.Fence, second.Fence), main("show", "exports", "7"))
	assert.Contains(t, main("top"), "exports  -     7    2     5         2m0s")

	why := []string{"-reason", "test", "-author", "ann"}
	for _, verb := range []string{"take", "grant"} {
		assert.Contains(t, main(append([]string{verb, "exports", "7", "-n", "1"}, why...)...), "its slots are acquired and released by what runs")
	}
	main(append([]string{"override", "exports", "7", "-capacity", "3", "-for", "1h"}, why...)...)
	assert.Contains(t, main("show", "exports", "7"), "3 of 3 slots in use")
	main(append([]string{"reset", "exports", "7"}, why...)...)
	assert.Contains(t, main("show", "exports", "7"), "  0 of 3 slots in use\n")
	require.ErrorIs(t, second.Renew(t.Context()), runtime.ErrSlotLost)

	// Free slots are not free for a key with a penalty.
	_, err = slots.AcquireN(t.Context(), 3)
	require.NoError(t, err)
	denied, err := slots.Acquire(t.Context())
	require.NoError(t, err)
	require.False(t, denied.Allowed)
	now = now.Add(10 * time.Minute)
	assert.Contains(t, main("show", "exports", "7"), "  penalty for 50m0s, 0 of 3 slots in use\n")
}

// The log of operators has no penalties, so that log prints those in force after it, and how to end them.
func TestLogPrintsPenalties(t *testing.T) {
	store := &memstore.Store{Clock: func() time.Time { return start }}
	login := &runtime.Policy{Name: "login", Kind: runtime.TokenBucket, Rate: 1, Period: time.Minute, Capacity: 1, Penalty: runtime.PenaltyOf(0, 5*time.Minute, time.Hour),
		Overrides: runtime.OverrideBounds{Rate: 10, Capacity: 10}}
	reset := &runtime.Policy{Name: "reset", Kind: runtime.TokenBucket, Rate: 1, Period: time.Minute, Capacity: 1, Penalty: runtime.PenaltyOf(0, time.Hour), Mode: runtime.ModeShadow}
	user := []runtime.CatalogKey{{Name: "user", Type: "int64"}}
	c := &runtime.Catalog{Limits: []runtime.CatalogLimit{
		{Name: "login", Key: user, Policies: []*runtime.Policy{login}}, {Name: "reset", Key: user, Policies: []*runtime.Policy{reset}},
	}}
	main := func(args ...string) string {
		var out bytes.Buffer
		operate.Program{Catalog: c, Store: store}.Main(t.Context(), args, &out, &out)
		return out.String()
	}
	for _, p := range []*runtime.Policy{login, reset} {
		for _, key := range []int64{7, 7, 8} {
			_, err := limiter.New(store).Limit(p, runtime.KeyOf(runtime.Int64(key))).Allow(t.Context())
			require.NoError(t, err)
		}
	}
	inLogin := "login, key 7: penalty until 2026-11-22 09:35:00Z: all requests are denied, and a denial after it starts the next penalty, of at most 1h0m0s; unblock or reset ends it\n"
	inReset := "reset, key 7: penalty until 2026-11-22 10:30:00Z: requests pass, because it is in shadow mode, and a denial after it starts a penalty of 1h0m0s; reset ends it\n"
	assert.Equal(t, "The log has no entries.\n"+inLogin, main("log", "login", "7"))
	assert.Equal(t, "The log has no entries.\n", main("log", "login", "8"))
	assert.Equal(t, "The log has no entries.\n", main("log", "login", "-whole"))
	assert.Equal(t, "The log has no such entries.\n"+inLogin+inReset, main("log", "-all"))
	assert.Equal(t, "The log has no such entries.\n"+inLogin+inReset, main("log", "-all", "user=7"))
	assert.Equal(t, "The log has no such entries.\n", main("log", "-all", "user=8"))
	assert.Equal(t, "The log has no such entries.\n", main("log", "-all", "-author", "ann"))
	why := []string{"-reason", "test", "-author", "ann"}
	main(append([]string{"take", "login", "7", "-n", "1"}, why...)...)
	assert.Regexp(t, "take.* 1 +ann +test\n"+regexp.QuoteMeta(inLogin), main("log", "login", "7"))
	main(append([]string{"unblock", "login", "7"}, why...)...)
	assert.NotContains(t, main("log", "login", "7"), "penalty until")
}

// A penalty denies nothing while an override lifts the limit, or gives the key a plan without penalties.
func TestLogPrintsWhatLiftsAPenalty(t *testing.T) {
	store := &memstore.Store{Clock: func() time.Time { return start }}
	bounds := runtime.OverrideBounds{Rate: 10, Capacity: 10, Unlimited: true}
	plans := runtime.PlanPolicies{
		1: {Name: "login", Kind: runtime.TokenBucket, Rate: 1, Period: time.Minute, Capacity: 1, Penalty: runtime.PenaltyOf(0, time.Hour), Overrides: bounds},
		2: {Name: "login", Kind: runtime.TokenBucket, Rate: 9, Period: time.Minute, Capacity: 9, Overrides: bounds},
	}.Overridable(runtime.PlanNames{1: "free", 2: "pro"})
	c := &runtime.Catalog{Plans: []string{"free", "pro"}, Limits: []runtime.CatalogLimit{
		{Name: "login", Key: []runtime.CatalogKey{{Name: "user", Type: "int64"}}, Policies: []*runtime.Policy{&plans[1], &plans[2]}},
	}}
	main := func(args string) string {
		var out bytes.Buffer
		operate.Program{Catalog: c, Store: store}.Main(t.Context(), append(words(args), "-reason", "test", "-author", "ann"), &out, &out)
		return out.String()
	}
	log := func() string {
		var out bytes.Buffer
		operate.Program{Catalog: c, Store: store}.Main(t.Context(), []string{"log", "login", "7"}, &out, &out)
		return out.String()
	}
	login := limiter.New(store).Limit(&plans[1], runtime.KeyOf(runtime.Int64(7)))
	for range 2 {
		_, err := login.Allow(t.Context())
		require.NoError(t, err)
	}
	for args, row := range map[string]struct {
		allowed bool
		words   string
	}{
		"override login 7 -mode off -for 1h":     {true, "requests pass, because of entry %d of the log, and"},
		"override login 7 -mode shadow -for 1h":  {true, "requests pass, because of entry %d of the log, and"},
		"override login 7 -to-plan pro -for 1h":  {true, "requests pass, because of entry %d of the log, and"},
		"override login -whole -rate 9 -for 1h":  {false, "all requests are denied, and"},
		"block login 7 -for 1h":                  {false, "all requests are denied, and"},
		"override login 7 -to-plan free -for 1h": {false, "all requests are denied, and"},
	} {
		require.Contains(t, main(args), "(entry ", args)
		d, err := login.Allow(t.Context())
		require.NoError(t, err)
		assert.Equal(t, row.allowed, d.Allowed, args)
		entry, _ := d.Override()
		if strings.Contains(row.words, "%d") {
			row.words = fmt.Sprintf(row.words, entry)
		}
		assert.Contains(t, log(), "penalty until 2026-11-22 10:30:00Z: "+row.words, args)
		main("end login 7")
		main("end login -whole")
	}
}

// noReset is a store that fails to end penalties, and writes the log.
type noReset struct{ *memstore.Store }

func (s noReset) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if calls[0].Requests[0].Op == runtime.Reset {
		return nil, fmt.Errorf("the server has gone")
	}
	return s.Store.Do(ctx, calls)
}

// An error says that nothing was changed only if that is so, and once.
func TestErrorsOfAllLimitsSayWhatWasWritten(t *testing.T) {
	p := &runtime.Policy{Name: "login", Kind: runtime.TokenBucket, Rate: 1, Period: time.Minute, Capacity: 1, Penalty: runtime.PenaltyOf(0, time.Hour),
		Overrides: runtime.OverrideBounds{Rate: 10, Capacity: 10}}
	c := &runtime.Catalog{Limits: []runtime.CatalogLimit{{Name: "login", Key: []runtime.CatalogKey{{Name: "user", Type: "int64"}}, Policies: []*runtime.Policy{p}}}}
	mem := &memstore.Store{Clock: func() time.Time { return start }}
	for range 2 {
		_, err := limiter.New(mem).Limit(p, runtime.KeyOf(runtime.Int64(7))).Allow(t.Context())
		require.NoError(t, err)
	}
	main := func(store runtime.Store, args string) string {
		var out bytes.Buffer
		assert.Equal(t, operate.Failed, operate.Program{Catalog: c, Store: store}.Main(t.Context(), append(words(args), "-reason", "test", "-author", "ann"), &out, &out))
		return out.String()
	}
	const written = "entry %d of the log was written, but the penalty may not have ended: limit \"login\": the server has gone\n"
	assert.Contains(t, main(noReset{mem}, "unblock login 7"), "failed: "+fmt.Sprintf(written, 1))
	assert.Contains(t, main(noReset{mem}, "unblock -all user=7"), "login: "+fmt.Sprintf(written, 2))
	assert.Contains(t, main(noErase{mem}, "erase -all user=7"), "login: nothing was changed: "+runtime.ErrNoErase.Error()+": its type is operate_test.noErase: if it decorates another store")
}

// noErase is a store that cannot erase.
type noErase struct{ override.Store }

// rekeyed is a store with counts of the limit login under another key.
type rekeyed struct{ *memstore.Store }

func (s rekeyed) Do(ctx context.Context, calls []runtime.Call) ([]runtime.Answer, error) {
	if calls[0].Requests[0].Policy.Name != "login" {
		return s.Store.Do(ctx, calls)
	}
	stored := runtime.Registration{Limit: "login", Owner: "own.example", Format: runtime.StoredFormat, Key: "(string)"}
	own := stored
	own.Key = "(int64)"
	return []runtime.Answer{{Err: stored.Refuses(own)}}, nil
}

// A limit of the program whose counts are under another key is not one of another program, and its error does not hide the
// others.
func TestTopOfALimitWithAnotherKey(t *testing.T) {
	c := &runtime.Catalog{}
	for _, name := range []string{"login", "visit"} {
		p := &runtime.Policy{Name: name, Kind: runtime.TokenBucket, Rate: 1, Period: time.Minute, Capacity: 5}
		c.Limits = append(c.Limits, runtime.CatalogLimit{Name: name, Key: []runtime.CatalogKey{{Name: "user", Type: "int64"}}, Policies: []*runtime.Policy{p}})
	}
	store := rekeyed{&memstore.Store{Clock: func() time.Time { return start }}}
	_, err := limiter.New(store).Limit(c.Limits[1].Policies[0], runtime.KeyOf(runtime.Int64(7))).Allow(t.Context())
	require.NoError(t, err)
	var out bytes.Buffer
	require.Equal(t, operate.OK, operate.Program{Catalog: c, Store: store}.Main(t.Context(), []string{"top"}, &out, &out), &out)
	assert.Regexp(t, "(?s)^LIMIT .*\nvisit +- +7 +4 .*\nlimit \"login\": .*: their key is \\(string\\), and that of this limit is \\(int64\\)", out.String())
	assert.NotContains(t, out.String(), "Not a limit of this program")
	out.Reset()
	require.Equal(t, operate.Failed, operate.Program{Catalog: c, Store: store}.Main(t.Context(), []string{"top", "login"}, &out, &out))
}

// An operator without the program's secret of hashed keys, or with another, would read and block other keys than those
// named: every command that is given a key, and every list, is refused before it answers.
func TestOtherSecretIsRefused(t *testing.T) {
	ctx, secret := t.Context(), []byte("0123456789abcdef")
	bounds := runtime.OverrideBounds{Rate: 5, Capacity: 5}
	p := &runtime.Policy{Name: "login", Kind: runtime.TokenBucket, Rate: 5, Period: time.Hour, Capacity: 5, Overrides: bounds}
	plain := runtime.NewCatalog("example.com/app", runtime.Catalog{Limits: []runtime.CatalogLimit{
		{Name: "login", Key: []runtime.CatalogKey{{Name: "email", Type: "hashed string"}}, Policies: []*runtime.Policy{p}},
	}})
	stores := map[string]func() runtime.Store{
		"memstore": func() runtime.Store { return &memstore.Store{Clock: func() time.Time { return start }} },
		"sqlite": func() runtime.Store {
			store, err := sqlite.Open(filepath.Join(t.TempDir(), "limits.db"))
			require.NoError(t, err)
			t.Cleanup(func() { store.Close() })
			return store
		},
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			store := open()
			d, err := limiter.New(store, limiter.HashKeys(secret)).Limit(p, runtime.KeyOf(runtime.Hashed("ann@example.com"))).AllowN(ctx, 5)
			require.NoError(t, err)
			require.True(t, d.Allowed)
			run := func(c *runtime.Catalog, command string) (int, string) {
				var out bytes.Buffer
				code := operate.Program{Catalog: c, Store: store}.Main(ctx, words(command), &out, &out)
				return code, out.String()
			}
			commands := []string{"show login ann@example.com", "log login ann@example.com", "log -all email=ann@example.com", "top login"}
			for verb := range writing {
				command := verb + " login ann@example.com -reason r -author a"
				switch verb {
				case "grant", "take":
					command += " -n 1"
				case "override":
					command += " -rate 1 -for 1h"
				case "block":
					command += " -for 1h"
				}
				commands = append(commands, command)
			}
			for secretOf, c := range map[string]*runtime.Catalog{"none": plain, "another": plain.HashKeys([]byte("fedcba9876543210"))} {
				for _, command := range commands {
					code, out := run(c, command)
					assert.Equal(t, operate.Failed, code, "%s, %s: %s", command, secretOf, out)
					assert.Contains(t, out, `limit "login": the stored counts are not those of this limit: their keys are hashed with the secret `)
				}
				for _, verb := range []string{"block", "erase"} {
					_, out := run(c, verb+" -all email=ann@example.com -reason r -author a"+map[string]string{"block": " -for 1h"}[verb])
					assert.Contains(t, out, "nothing was changed: ", "%s -all, %s", verb, secretOf)
					assert.Contains(t, out, "their keys are hashed with the secret ", "%s -all, %s", verb, secretOf)
				}
			}
			code, out := run(plain.HashKeys(secret), "show login ann@example.com")
			require.Equal(t, operate.OK, code, out)
			require.Contains(t, out, "0 of 5 left")
			_, out = run(plain.HashKeys(secret), "log login ann@example.com")
			require.Contains(t, out, "The log has no entries", "of the refused changes")
		})
	}
}

// A program that reads the results must not read errors among them.
func TestErrorsAreApartFromResults(t *testing.T) {
	p := operate.Program{Catalog: catalog(t), Store: &memstore.Store{}}
	for command, code := range map[string]int{
		"top": operate.OK, "help": operate.OK, "help top": operate.OK, "shwo": operate.Usage, "show sendMessage x": operate.Usage,
		"who 99cf03e72f3b": operate.Failed,
	} {
		var out, errs bytes.Buffer
		assert.Equal(t, code, p.Main(t.Context(), words(command), &out, &errs), command)
		assert.Equal(t, code == operate.OK, out.Len() > 0, command)
		assert.Equal(t, code != operate.OK, errs.Len() > 0, command)
	}
	var out, errs bytes.Buffer
	args := words("block -all org=7 -for-good -reason r -author a")
	assert.Equal(t, operate.Partly, p.Main(t.Context(), args, &out, &errs))
	assert.Contains(t, out.String(), "apiCalls, key 7, which has no stored count: block, for good")
	assert.Equal(t, "done in part: the key is blocked in 1 of the 2 limits that have it\n", errs.String())
}
