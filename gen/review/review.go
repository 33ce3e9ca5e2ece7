package review

import (
	"slices"
	"time"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// Review is what an edit of a file means.
type Review struct {
	// Old and New are the names of the files.
	Old, New string
	// Remark says what is special about the files, such as that one was moved; "" if nothing is.
	Remark string
	// Subjects are the limits that have changed, in the order of the new file; before them the file itself,
	// and after them the limits that are gone.
	Subjects []Subject
}

// Subject is a limit that has changed, or the file itself.
type Subject struct {
	// Limit is the limit's name, the new one if it was renamed; "" for the file itself.
	Limit string
	// Old and New are where the subject stands in the files: the limit's name. They are zero where it does not.
	Old, New spec.Pos
	// Per are the parts of the limit's key: the numbers are for one value of them. Without any, all callers share a
	// count.
	Per []string
	// Findings are the changes, in the order of the fields.
	Findings []Finding
	// Numbers are what the rule comes to for one key.
	Numbers []Number
	// Notes say what comes of the changes.
	Notes []Note
	// SQL are statements that help with the rows.
	SQL []Statement
}

// Finding is the changes of one id: the rate and the period of a limit are judged together.
type Finding struct {
	ID      string
	Changes []spec.Change
	// Classes are those of the changes, at least one, in their order.
	Classes []Class
}

// Note is a sentence on what comes of a change.
type Note struct {
	// About is what is affected: [Deploy], [Calls] or [Rule].
	About string
	Text  string
}

// What notes are about.
const (
	// Deploy is what happens to the rows that are stored.
	Deploy = "deploy"
	// Calls is what happens to the code that asks the limit.
	Calls = "calls"
	// Rule is what the limit does.
	Rule = "rule"
)

// Statement is an SQL statement, which ends with a semicolon.
type Statement struct {
	// Why says when to run it, and what for.
	Why  string
	Text string
}

// Of reviews the changes from one file to another.
func Of(old, new *spec.File) *Review {
	r := &Review{Old: old.Name, New: new.Name}
	for _, changes := range bySubject(spec.Diff(old, new)) {
		r.Subjects = append(r.Subjects, subjectOf(changes))
	}
	return r
}

// bySubject splits changes, which are in the order of their limits.
func bySubject(changes []spec.Change) (subjects [][]spec.Change) {
	for i, c := range changes {
		if i == 0 || c.Limit != changes[i-1].Limit {
			subjects = append(subjects, nil)
		}
		last := &subjects[len(subjects)-1]
		*last = append(*last, c)
	}
	return subjects
}

func subjectOf(changes []spec.Change) Subject {
	first := changes[0]
	s := Subject{Limit: first.Limit}
	p := pair{first.Old.Limit, first.New.Limit}
	if p.old != nil {
		s.Old, s.Per = p.old.Pos, names(p.old.Key)
	}
	if p.new != nil {
		s.New, s.Per = p.new.Pos, names(p.new.Key)
	}
	findings := byID(changes)
	judgements := make([]judgement, len(findings))
	for i, of := range findings {
		judgements[i] = judge(p, of)
	}
	decide(p, judgements)
	for i, of := range findings {
		j := judgements[i]
		s.Findings = append(s.Findings, Finding{of[0].ID, of, sorted(j.classes)})
		s.Notes = append(s.Notes, j.notes...)
		s.SQL = append(s.SQL, j.sql...)
	}
	if s.Limit != "" {
		s.Numbers = numbers(p)
		s.Notes = append(s.Notes, spanNotes(p)...)
		s.Notes = append(s.Notes, deployNotes(p, s.Findings)...)
	}
	s.Notes = each(s.Notes)
	slices.SortStableFunc(s.Notes, func(a, b Note) int { return notePlace(a) - notePlace(b) })
	return s
}

// each returns notes without those that say the same again.
func each(notes []Note) (list []Note) {
	for _, n := range notes {
		if !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list
}

func notePlace(n Note) int { return slices.Index([]string{Rule, Calls, Deploy}, n.About) }

func byID(changes []spec.Change) (findings [][]spec.Change) {
	for _, c := range changes {
		i := slices.IndexFunc(findings, func(of []spec.Change) bool { return of[0].ID == c.ID })
		if i < 0 {
			findings = append(findings, []spec.Change{c})
			continue
		}
		findings[i] = append(findings[i], c)
	}
	return findings
}

// Classes returns the classes of the subject's findings, each once, in their order.
func (s *Subject) Classes() []Class {
	var all []Class
	for _, f := range s.Findings {
		all = append(all, f.Classes...)
	}
	return sorted(all)
}

// bySeverity returns the subjects, the gravest first: what lets more through, what breaks callers, what touches stored
// counts, what lets fewer through, and the rest. Those that are alike keep their order.
func (r *Review) bySeverity() []*Subject {
	list := make([]*Subject, len(r.Subjects))
	for i := range r.Subjects {
		list[i] = &r.Subjects[i]
	}
	slices.SortStableFunc(list, func(a, b *Subject) int { return a.severity() - b.severity() })
	return list
}

// severity is 0 for the gravest.
func (s *Subject) severity() int {
	order := []Class{Loosened, Breaking, StoredState, Tightened, Renamed, Added}
	if i := slices.IndexFunc(order, func(c Class) bool { return slices.Contains(s.Classes(), c) }); i >= 0 {
		return i
	}
	return len(order)
}

// added and gone report whether the limit is only in the new file, or only in the old one.
func (s *Subject) added() bool { return s.Limit != "" && s.Old == (spec.Pos{}) }
func (s *Subject) gone() bool  { return s.Limit != "" && s.New == (spec.Pos{}) }

// pair is a limit before and after an edit; one of them is nil if it was added or removed.
type pair struct{ old, new *spec.Limit }

// periods returns the intervals for which numbers are told: a minute, an hour, a day, and the limit's own.
func (p pair) periods() []time.Duration {
	list := []time.Duration{time.Minute, time.Hour, 24 * time.Hour}
	for _, limit := range []*spec.Limit{p.old, p.new} {
		if limit != nil {
			list = append(list, limit.Policy.Period)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
