package explain

import (
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// effect is a word that a review prints about a change, but for the ids of changes.
type effect struct{ word, sort, meaning string }

const (
	aClass = "a class of changes"
	aNote  = "what a note of diff is about"
	aLevel = "a level of annotations"
)

var effects = []effect{
	{string(review.Loosened), aClass, "The edit lets more tokens through in an interval of some length than before, or lets more be reserved, or takes back a restriction of a single field, such as a shorter denyCache. Compare the numbers before and after."},
	{string(review.Tightened), aClass, "The edit lets fewer tokens through in an interval of some length than before, or lets fewer be reserved, so that requests are denied that passed before. An edit can be both loosened and tightened: looser in short intervals and tighter in long ones, for example."},
	{string(review.StoredState), aClass, "The edit gives stored rows another meaning, or leaves them behind. The notes on the deploy say what a key has right after it, and which SQL helps."},
	{string(review.Breaking), aClass, "The edit keeps code that calls the limit from compiling, or from meaning what it meant."},
	{string(review.Added), aClass, "The limit is new. It bounds nothing until it is called."},
	{string(review.Removed), aClass, "The limit is gone, and nothing is bounded in its place."},
	{string(review.Renamed), aClass, "The limit probably has another name now: one is gone, and a new one is like it. Counts are stored by name."},
	{string(review.Cosmetic), aClass, "The edit is in none of the other classes: it changes neither what passes, nor what is stored, nor how the limit is called."},
	{review.Rule, aNote, "What the limit does from now on."},
	{review.Calls, aNote, "What happens to the code that calls the limit."},
	{review.Deploy, aNote, "What happens to the rows that are stored when the new version starts, and while old and new versions run side by side."},
	{"sql", aNote, "A statement to run by hand, and when. The table is rate_limits unless you chose another name."},
	{"notice", aLevel, "With -format github: an edit that is neither loosened, breaking nor removed and does not touch stored state."},
	{"warning", aLevel, "With -format github: an edit that is loosened, breaking or removed, or touches stored state."},
	{"error", aLevel, "With -format github: an edit that -fail-on stops, or what is wrong with a file."},
}

// effect explains a word, a class by the changes in whose examples it occurs.
func (p *page) effect(e effect) {
	p.title("%s: %s", e.word, e.sort)
	p.say("meaning", e.meaning)
	if e.sort != aClass {
		return
	}
	var ids []string
	for _, k := range spec.ChangeKinds() {
		r := review.Of(example("main:limits.yaml", k.Old), example("limits.yaml", k.New))
		back := review.Of(example("main:limits.yaml", k.New), example("limits.yaml", k.Old))
		words := strings.ReplaceAll(classesOf(r, k.ID)+" "+classesOf(back, k.ID), ",", "")
		if slices.Contains(strings.Fields(words), e.word) {
			ids = append(ids, k.ID)
		}
	}
	p.say("examples", "ratelimitgen explain "+strings.Join(ids, ", "))
}
