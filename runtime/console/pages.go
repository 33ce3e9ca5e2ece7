package console

import (
	"cmp"
	_ "embed" // style.css and page.html
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/operate"
	"github.com/ratelimitgen/ratelimitgen/runtime/override"
)

func (c *console) index(w http.ResponseWriter, r *http.Request) {
	p, all := &indexPage{Denials: c.Denials != nil}, c.Catalog.Limits
	var problems []error
	var busiest []operate.BusyKey
	for _, l := range all {
		u, err := c.used(r, &l, min(maxPages, max(1, allPages/len(all))))
		problems = append(problems, err)
		of := listed{Name: l.Name, InUse: counted(u, err)}
		if len(u.Busiest) > 0 {
			b := c.busy(u.Busiest[0])
			of.Least = b.Left + " of " + b.Capacity
		}
		if p.Denials {
			of.DeniedKeys = fmt.Sprint(c.Denials.Keys(l.Name))
		}
		p.Limits = append(p.Limits, of)
		busiest = append(busiest, u.Busiest...)
	}
	inForce, err := c.inForce(r, all, "")
	p.InForce, problems = inForce, append(problems, err)
	slices.SortStableFunc(busiest, func(a, b operate.BusyKey) int { return cmp.Compare(b.Used(), a.Used()) })
	p.Busiest = c.table(busiest[:min(maxKeys, len(busiest))], true)
	c.render(w, http.StatusOK, page{Title: "Rate limits", Index: p, Problem: firstText(problems)})
}

func (c *console) limit(w http.ResponseWriter, r *http.Request) {
	l, ok := c.Catalog.Limit(r.URL.Query().Get("name"))
	if !ok {
		c.problem(w, http.StatusNotFound, "There is no such limit.")
		return
	}
	p := &limitPage{subject: c.subject(r, l, ""), Denials: c.Denials != nil}
	u, err := c.used(r, &l, maxPages)
	p.InUse, p.More = counted(u, err), u.More
	p.Busiest = c.table(u.Busiest, false)
	if p.Denials {
		top := c.Denials.Top(l.Name)
		for _, k := range top[:min(maxKeys, len(top))] {
			p.Denied = append(p.Denied, deniedKey{k.Fingerprint, k.Denied, k.Denied - k.Excess})
		}
	}
	inForce, err2 := c.inForce(r, []runtime.CatalogLimit{l}, "")
	p.InForce, p.Own = inForce, len(inForce) > 0
	if err2 == nil {
		p.Overridden = c.overridden(l)
	}
	p.Problem = firstText([]error{err, err2, c.history(r, &p.subject, "")})
	c.render(w, http.StatusOK, page{Title: l.Name, Limit: p})
}

// used reads the busy keys of a limit.
func (c *console) used(r *http.Request, l *runtime.CatalogLimit, pages int) (operate.Used, error) {
	lister, ok := c.Store.(runtime.RowLister)
	if !ok {
		return operate.Used{}, errors.New("the store cannot list its rows")
	}
	return operate.Busiest(r.Context(), lister, c.Catalog, l, "", maxKeys, pages)
}

func (c *console) table(keys []operate.BusyKey, limits bool) busyTable {
	t := busyTable{Limits: limits}
	for _, k := range keys {
		t.Keys, t.Plans, t.InForce = append(t.Keys, c.busy(k)), t.Plans || k.Plan != "", t.InForce || k.InForce != ""
	}
	return t
}

// busy is a key with whole tokens, because a request takes whole ones. Exact has the fraction too.
func (c *console) busy(k operate.BusyKey) busy {
	limit, value := k.Policy.Name, k.Decision.Value
	b := busy{Limit: limit, Shown: c.shown(k.Key), Link: c.link(limit, k.Key), Plan: cmp.Or(k.Plan, "–"),
		Left: fmt.Sprintf("%.0f", math.Floor(value)), Capacity: fmt.Sprint(k.Policy.Capacity), Full: k.Decision.FullAfter.Round(time.Second).String(),
		InForce: k.InForce}
	if value != math.Floor(value) {
		b.Exact = fmt.Sprintf("%.6f tokens", value)
	}
	if k.Policy.Calendar.PerKey() {
		b.Full = "unknown"
	}
	return b
}

// key shows the state of one key.
func (c *console) key(w http.ResponseWriter, r *http.Request) {
	name, id := r.URL.Query().Get("limit"), r.URL.Query().Get("id")
	l, ok := c.Catalog.Limit(name)
	if !ok {
		c.problem(w, http.StatusNotFound, "There is no such limit.")
		return
	}
	key, err := c.open(name, id)
	if err != nil {
		c.problem(w, http.StatusNotFound, err.Error())
		return
	}
	k := &keyPage{subject: c.subject(r, l, id), Shown: c.shown(key)}
	inForce, err := c.inForce(r, []runtime.CatalogLimit{l}, key)
	k.InForce, k.Own = inForce, slices.ContainsFunc(inForce, func(of entryInForce) bool { return of.For == thisKey })
	k.Problem = firstText([]error{c.states(r, k, key), err, c.history(r, &k.subject, key)})
	c.render(w, http.StatusOK, page{Title: l.Name + " " + k.Shown, Key: k})
}

// states adds the tokens of the key by each plan.
func (c *console) states(r *http.Request, k *keyPage, key string) error {
	rows, at, err := c.rows(r, k.Limit.Name, key)
	if err != nil {
		return err
	}
	stored, err := runtime.StoredKey(key)
	if err != nil {
		return err
	}
	for i, p := range k.Limit.Policies {
		var s state
		if p.Calendar.PerKey() {
			k.Calendar = true
			s.Words = "The windows of this key are not in the store: use the time zone or the anniversary in a program."
		} else if s, err = c.state(r, p, stored, rows, at); err != nil {
			return err
		}
		if len(k.Limit.Policies) > 1 {
			s.Plan = c.Catalog.Plans[i]
		}
		k.States = append(k.States, s)
	}
	return nil
}

// state returns the tokens of a key by one policy, with a drawing if the key has rows.
func (c *console) state(r *http.Request, p *runtime.Policy, key runtime.Key, rows []runtime.StoredRow, at int64) (s state, err error) {
	limit := limiter.New(c.Store).Limit(p, key)
	b, err := limit.Peek(r.Context())
	if err != nil {
		return s, err
	}
	s.Words = b.String()
	// A check of no tokens is decided by the policy in force.
	if d, err := limit.CheckN(r.Context(), 0); err == nil && d.Policy != nil {
		p = d.Policy
	}
	if p.Mode == runtime.ModeOff || p.Mode == runtime.ModeUnlimited || len(rows) == 0 {
		return s, nil
	}
	points, err := future(p, rows, at)
	if err != nil {
		return s, err
	}
	s.Drawing = drawing(points, p.Capacity)
	for i := 0; i < len(points); i += 10 {
		s.Points = append(s.Points, pointWords{points[i].After.Round(time.Millisecond).String(), fmt.Sprintf("%.6g", points[i].Tokens)})
	}
	return s, nil
}

// rows returns the rows of one key.
func (c *console) rows(r *http.Request, limit, key string) (rows []runtime.StoredRow, at int64, err error) {
	lister, ok := c.Store.(runtime.RowLister)
	if !ok {
		return nil, 0, nil
	}
	after := runtime.Row{Name: limit, Key: key, Shard: -1}
	for {
		page, now, err := lister.Rows(r.Context(), after, runtime.RowPage)
		if err != nil {
			return nil, 0, err
		}
		at = now
		for _, row := range page {
			if row.Row.Key != key {
				return rows, at, nil
			}
			if row.State.Exists {
				rows = append(rows, row)
			}
		}
		if len(page) == 0 {
			return rows, at, nil
		}
		after = page[len(page)-1].Row
	}
}

// An entry of the log is for one of these.
const (
	thisKey = "this key"
	allKeys = "all keys"
)

// history adds the log of the subject, and to that of a key the log of its whole limit.
func (c *console) history(r *http.Request, s *subject, key string) error {
	log, ok := c.Store.(override.Store)
	if !ok {
		return nil
	}
	for _, of := range []struct{ key, subject string }{{key, thisKey}, {"", allKeys}} {
		if of.subject == thisKey && key == "" {
			continue
		}
		entries, err := log.OverrideHistory(r.Context(), s.Limit.Name, of.key)
		if err != nil {
			return err
		}
		for _, e := range entries {
			s.Log = append(s.Log, logged{e.At.UTC().Format("2006-01-02 15:04:05Z"), of.subject, operate.Describe(e), e.Author, e.Reason})
		}
	}
	return nil
}

// inForce returns the blocks and overrides of whole limits, and those of a key if that is not "".
func (c *console) inForce(r *http.Request, limits []runtime.CatalogLimit, key string) (all []entryInForce, err error) {
	overridable := map[string]bool{}
	for _, l := range limits {
		if l.Policies[0].Overridable() {
			overridable[l.Name] = true
		}
	}
	log, ok := c.Store.(override.Store)
	if !ok || len(overridable) == 0 {
		return nil, nil
	}
	view := log.OverrideView()
	if err := view.Refresh(r.Context()); err != nil {
		return nil, err
	}
	for _, e := range view.InForce() {
		switch {
		case !overridable[e.Limit]:
		case e.Key == "":
			all = append(all, entryInForce{e.Limit, allKeys, operate.Describe(e)})
		case e.Key == key:
			all = append(all, entryInForce{e.Limit, thisKey, operate.Describe(e)})
		}
	}
	return all, nil
}

// overridden returns the newest blocks and overrides of keys of a limit, the newest first, as of the last refresh.
func (c *console) overridden(l runtime.CatalogLimit) (all []overriddenKey) {
	log, ok := c.Store.(override.Store)
	if !ok {
		return nil
	}
	for _, e := range slices.Backward(log.OverrideView().InForce()) {
		if e.Limit == l.Name && e.Key != "" && len(all) < maxKeys {
			all = append(all, overriddenKey{c.shown(e.Key), c.link(l.Name, e.Key), operate.Describe(e)})
		}
	}
	return all
}

// find redirects to the page of the key whose parts are in the form. The form is posted, so that no key is in a URL.
func (c *console) find(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<16)
	if fingerprint := r.PostFormValue("fingerprint"); fingerprint != "" {
		c.who(w, r, fingerprint)
		return
	}
	l, ok := c.Catalog.Limit(r.PostFormValue("limit"))
	if !ok {
		c.problem(w, http.StatusNotFound, "There is no such limit.")
		return
	}
	key, err := l.ParseKey(r.PostForm["part"])
	if err != nil {
		c.problem(w, http.StatusBadRequest, err.Error())
		return
	}
	redirect(w, c.link(l.Name, key.String()))
}

// who shows the keys that have a fingerprint.
func (c *console) who(w http.ResponseWriter, r *http.Request, fingerprint string) {
	fingerprint = strings.ToLower(strings.TrimSpace(fingerprint))
	keys, more, err := operate.Who(r.Context(), c.Store, c.Catalog.Limits, c.Secret, fingerprint, maxPages)
	p := page{Title: "Keys with the fingerprint " + fingerprint, Problem: errorText(err)}
	for _, k := range keys {
		p.Found = append(p.Found, found{k.Limit, c.shown(k.Key), c.link(k.Limit, k.Key)})
	}
	switch {
	case err == nil && len(keys) == 0 && more:
		p.Problem = "No key that was read has this fingerprint. There are more rows than were read: use the command who of package operate."
	case err == nil && len(keys) == 0:
		p.Problem = "No stored key has this fingerprint under the secret of this console."
	}
	c.render(w, http.StatusOK, p)
}
