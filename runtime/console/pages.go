package console

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/meter"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/override"
	"github.com/ratelimitgen/ratelimitgen/runtime/internal/words"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/operate"
)

func (c *console) index(w http.ResponseWriter, r *http.Request) {
	p, all := &indexPage{Denials: c.Denials != nil, subject: c.everywhere(r)}, c.Catalog.Limits
	var problems []error
	var busiest []operate.BusyKey
	for _, l := range all {
		u, err := c.used(r, &l, min(maxPages, max(1, allPages/len(all))))
		problems = append(problems, err)
		p.Limits = append(p.Limits, u)
		busiest = append(busiest, u.Busiest...)
	}
	inForce, err := c.program.InForce(r.Context(), all...)
	p.Overrides = slices.ContainsFunc(all, func(l runtime.CatalogLimit) bool { return l.Policies[0].Overridable() })
	count(p.Limits, inForce)
	p.Overridden, p.LeftOut = ofKeys(inForce)
	p.InForce = slices.DeleteFunc(inForce, func(e runtime.OverrideEntry) bool { return e.Key != "" })
	slices.SortStableFunc(busiest, func(a, b operate.BusyKey) int { return cmp.Compare(b.Used(), a.Used()) })
	p.Busiest = tableOf(busiest[:min(maxKeys, len(busiest))], all, true, errors.Join(problems...))
	others, failed := c.program.Others(r.Context())
	p.Others = others
	c.render(w, http.StatusOK, page{Title: "Rate limits", Index: p, Problem: errorText(append(problems, err, failed)...)})
}

func (c *console) limit(w http.ResponseWriter, r *http.Request) {
	l, ok := c.Catalog.Limit(r.URL.Query().Get("name"))
	if !ok {
		c.problem(w, http.StatusNotFound, noSuchLimit)
		return
	}
	u, err := c.used(r, &l, maxPages)
	s, failed := c.subject(r, l, "", "")
	s.Problem = errorText(err, failed)
	p := &limitPage{subject: s, used: u, Busiest: tableOf(u.Busiest, []runtime.CatalogLimit{l}, false, err),
		Denials: c.Denials != nil}
	all := l.Exceptions()
	shown := all[:min(maxEntries, len(all))]
	p.MoreExceptions = int64(len(all) - len(shown))
	for _, e := range shown {
		key, err := runtime.StoredKey(e.Key)
		if err != nil {
			continue // it has no page either
		}
		p.Exceptions = append(p.Exceptions, exceptionRow{e.Key, c.program.Exception(&l, key)})
	}
	if p.Denials {
		top := c.Denials.Top(l.Name)
		p.Denied = top[:min(maxKeys, len(top))]
	}
	c.render(w, http.StatusOK, page{Title: l.Name, Limit: p})
}

// used reads the busy keys of a limit.
func (c *console) used(r *http.Request, l *runtime.CatalogLimit, pages int) (used, error) {
	u, err := c.program.Busiest(r.Context(), operate.UsedQuery{Limit: l, Most: maxKeys, Pages: pages})
	of := used{Name: l.Name, Used: u, Unknown: err != nil}
	if c.Denials != nil {
		of.DeniedKeys = c.Denials.Keys(l.Name)
	}
	return of, err
}

// tableOf returns the table of the busiest keys of some limits.
func tableOf(keys []operate.BusyKey, of []runtime.CatalogLimit, limits bool, err error) busyTable {
	var most []string
	for _, l := range of {
		if slices.ContainsFunc(l.Policies, (*runtime.Policy).Most) {
			most = append(most, l.Name)
		}
	}
	return busyTable{
		Most: strings.Join(most, ", "),
		Keys: keys, Limits: limits, Unknown: err != nil,
		Plans: slices.ContainsFunc(keys, func(k operate.BusyKey) bool { return k.Plan != "" }),
	}
}

// key shows the state of one key.
func (c *console) key(w http.ResponseWriter, r *http.Request) {
	name, id := r.URL.Query().Get("limit"), r.URL.Query().Get("id")
	l, ok := c.Catalog.Limit(name)
	if !ok {
		c.problem(w, http.StatusNotFound, noSuchLimit)
		return
	}
	key, err := c.open(name, id)
	if err != nil {
		c.problem(w, http.StatusNotFound, err.Error())
		return
	}
	s, failed := c.subject(r, l, id, key)
	k := &keyPage{subject: s}
	penalties, unread := c.program.Penalized(r.Context(), &l, key)
	for _, p := range penalties {
		k.Penalty = p.String()
	}
	k.Problem = errorText(c.states(r, k, key), failed, unread)
	c.render(w, http.StatusOK, page{Title: l.Name + " " + c.shown(key), Key: k})
}

// states adds the tokens of the key by each plan.
func (c *console) states(r *http.Request, k *keyPage, key string) error {
	rows, at, err := c.program.Rows(r.Context(), k.Limit.Name, key)
	if err != nil {
		return err
	}
	stored, err := runtime.StoredKey(key)
	if err != nil {
		return err
	}
	k.Exception = c.program.Exception(&k.Limit, stored)
	all, err := c.program.Policies(&k.Limit, "")
	for _, p := range all {
		p.Policy = p.Policy.Inside().Except(key)
		var s state
		if p.Policy.Calendar.PerKey() {
			k.Calendar = true
			s.Words = "The windows of this key are not in the store: use the time zone or the anniversary in a program."
		} else if s, err = c.state(r, p.Policy, stored, rows, at); err != nil {
			return err
		}
		s.Plan = p.Plan
		k.States = append(k.States, s)
	}
	return err
}

// state returns the tokens of a key by one policy, with a drawing if the key has rows.
func (c *console) state(r *http.Request, p *runtime.Policy, key runtime.Key, rows []runtime.StoredRow, at int64) (s state, err error) {
	limit := limiter.New(c.Store).Limit(p, key)
	b, err := limit.Peek(r.Context())
	if err != nil {
		return s, err
	}
	// A check of no tokens is decided by the policy in force.
	if d, err := limit.CheckN(r.Context(), 0); err == nil && d.Policy != nil {
		p = d.Policy
	}
	s.Words = operate.Words(p, b)
	if p.Inside().Uncounted() || p.Inside().CountsOnly() || len(rows) == 0 {
		return s, nil
	}
	points, err := future(p, rows, at)
	if err != nil {
		return s, err
	}
	s.Drawing = drawing(points, p, b.PenaltyFor)
	s.InFlight, s.Holders = p.Kind == runtime.InFlight, meter.Holders(p, rows, at)
	for i := range s.Holders {
		s.Holders[i].Ends = s.Holders[i].Ends.Round(time.Millisecond)
	}
	for i := 0; i < len(points); i += 10 {
		s.Points = append(s.Points, point{points[i].After.Round(time.Millisecond), points[i].Tokens})
	}
	return s, nil
}

// log shows the log across all limits, the newest entries first.
func (c *console) log(w http.ResponseWriter, r *http.Request) {
	before, _ := strconv.ParseInt(r.URL.Query().Get("before"), 10, 64)
	entries, more, err := c.program.Log(r.Context(), operate.LogQuery{Before: before, Most: maxEntries})
	p := &logPage{Entries: entries}
	if more {
		p.Older = entries[len(entries)-1].ID
	}
	c.render(w, http.StatusOK, page{Title: "Log of all limits", Log: p, Problem: errorText(err)})
}

// find redirects to the page of the key whose parts are in the form. The form is posted, so that no key is in a URL.
func (c *console) find(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<16)
	if fingerprint := r.PostFormValue("fingerprint"); fingerprint != "" {
		c.who(w, r, strings.ToLower(strings.TrimSpace(fingerprint)))
		return
	}
	l, ok := c.Catalog.Limit(r.PostFormValue("limit"))
	if !ok {
		c.problem(w, http.StatusNotFound, noSuchLimit)
		return
	}
	key, err := l.ParseKey(r.PostForm["part"])
	if err != nil {
		c.problem(w, http.StatusBadRequest, err.Error())
		return
	}
	if err := override.CheckCounts(r.Context(), c.Store, l.Policies[0]); err != nil {
		c.problem(w, http.StatusInternalServerError, err.Error())
		return
	}
	redirect(w, c.link(l.Name, key.String()))
}

// who shows the keys that have a fingerprint.
func (c *console) who(w http.ResponseWriter, r *http.Request, fingerprint string) {
	keys, more, err := c.program.Who(r.Context(), c.Catalog.Limits, fingerprint, maxPages)
	p := page{Title: "Keys with the fingerprint " + fingerprint, Found: keys}
	switch {
	case err != nil:
		p.Problem = err.Error()
	case len(keys) == 0 && more:
		p.Problem = "No key that was read has this fingerprint. There are more rows than were read: use the command who of package operate."
	case len(keys) == 0:
		p.Problem = "No stored key has this fingerprint under the secret of this console."
	}
	c.render(w, http.StatusOK, p)
}

const noSuchLimit = "There is no such limit."

// errorText is the text of the first error: an outage has the same one for each limit.
func errorText(all ...error) string {
	if err := cmp.Or(all...); err != nil {
		return err.Error()
	}
	return ""
}

// count counts the keys of limits that entries are in force for.
func count(limits []used, inForce []runtime.OverrideEntry) {
	byName := map[string]*used{}
	for i := range limits {
		byName[limits[i].Name] = &limits[i]
	}
	for _, e := range inForce {
		switch of := byName[e.Limit]; {
		case e.Key == "":
		case e.What == runtime.OverrideBlock:
			of.BlockedKeys++
		default:
			of.OverriddenKeys++
		}
	}
}

// InUse is how many keys lack tokens.
func (u used) InUse() string {
	switch {
	case u.Unknown:
		return "unknown"
	case u.More:
		return words.Number(int64(u.Used.InUse)) + " or more"
	}
	return words.Number(int64(u.Used.InUse))
}
