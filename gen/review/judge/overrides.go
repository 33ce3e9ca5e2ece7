package judge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/internal/words"
	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/review/compare"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

// Blocks and overrides are entries of a log, under the limit's name and the key. A process finds new entries by their ids,
// so an edit that changes the name or the key needs entries with new ids: copies of those in force. The old version keeps
// those that it has, and both can run side by side.

// judgeRenamedLog says what becomes of the blocks and overrides in force if the limit gets another name. It has the same
// key.
func judgeRenamedLog(j *judgement) {
	if j.Old.Overrides == nil {
		return
	}
	j.risk(review.OverridesLost, j.New.Overrides != nil)
	if j.New.Overrides != nil {
		j.note(review.Deploy, unlessCopied)
		j.copyStatement(database{}, "o.key", "")
	}
	j.keepEnding(database{}, "blocks and overrides under the old name, which Ready reports", "")
}

const unlessCopied = "Blocks and overrides are stored under the limit's name and key. Unless the SQL below copies those in force, the new version does not find them, " +
	"and blocked keys can be used again. The old version keeps its own. If operators change any after the copy, they must do so in both versions."

// judgeKeyLog says what becomes of the blocks and overrides in force if the limit has the same name and another key.
func judgeKeyLog(j *judgement) {
	if j.Old.Overrides == nil || j.New.Overrides == nil {
		return
	}
	const list = "before the deploy, to list the blocks and overrides in force "
	m := keyMoveOf(j.Old.Key, j.New.Key)
	switch {
	case m.lost != "":
		j.class(review.Loosened)
		j.risk(review.OverridesLost, false)
		j.note(review.Deploy, "Blocks and overrides of single keys in force end with the deploy, and blocked keys can be used again: %s, so that no SQL can convert them. "+
			"Before the deploy, list them, and block these keys in the new version as soon as it runs; or keep the old limit beside a new one, and check both, until its blocks have ended. "+
			"Those of the whole limit are kept.", m.lost)
		j.listStatement(list+"that end", "AND o.key <> '' ")
	case m.moved:
		j.risk(review.OverridesLost, true)
		j.note(review.Deploy, unlessCopied+" Keys of more than 255 bytes end with a hash, and cannot be converted.")
		if len(m.merged) > 0 {
			j.note(review.Rule, "A block or an override that is copied is one of all keys that differ only in %s. Of several, the one that ends last is in force.", words.List(m.merged, "and"))
		}
		for _, d := range keyDialects {
			key := d.key(m.from)
			j.copyStatement(d.database, key, "AND o.key <> '' AND o.key NOT LIKE '%|%~%' ESCAPE '|' ")
			j.keepEnding(d.database, "those under the old keys",
				"AND o.key <> '' AND EXISTS (SELECT 1 FROM rate_limit_overrides c WHERE c.name = o.name "+
					"AND c.key = "+key+" AND c.id > o.id AND c.what = o.what AND c.until_ns = o.until_ns AND c.at_ns = o.at_ns) ")
		}
		j.listStatement(list+"of keys that are too long", "AND o.key LIKE '%|%~%' ESCAPE '|' ")
	case len(j.Old.Key) == 0:
		j.note(review.Deploy, "Blocks and overrides in force are those of the whole limit, and stay so.")
	default:
		j.note(review.Deploy, "Blocks and overrides in force stay so for keys that are stored as before.")
	}
	if m.lost == "" && m.doubtful != "" {
		j.class(review.Loosened)
		j.note(review.Deploy, "%s", m.doubtful)
		j.listStatement(list+"to check", "AND o.key <> '' ")
	}
}

// inForce is the condition for an entry o of the log that no later one has ended or replaced. It may have ended by itself.
// The key of one that was erased is no key, and has no parts.
const inForce = "AND o.key NOT LIKE '|%erased:%' ESCAPE '|' AND o.what NOT IN ('unblock', 'none', 'granted', 'taken', 'reset') AND NOT EXISTS (SELECT 1 FROM rate_limit_overrides n " +
	"WHERE n.name = o.name AND n.key = o.key AND n.id > o.id AND (n.what = 'none' OR o.what = 'block' AND n.what IN ('block', 'unblock') " +
	"OR o.what <> 'block' AND n.what NOT IN ('block', 'unblock', 'granted', 'taken', 'reset')))"

// appendEntries is an INSERT of entries with the next ids. If an operator writes an entry at the same time, one of both
// fails, and the ids have no gap for which a process would not look.
const appendEntries = "INSERT INTO rate_limit_overrides SELECT (SELECT MAX(id) FROM rate_limit_overrides) + ROW_NUMBER() OVER (ORDER BY o.until_ns, o.id), " +
	"%s, %s, o.what, %s, o.rate, o.capacity, o.max_reserved, o.most_rate, o.most_capacity, o.most_reserved, o.may_lift, %s, o.reason, o.author, o.at_ns " +
	"FROM rate_limit_overrides o WHERE %s %s%s;"

func (j *judgement) copyStatement(on database, key, condition string) {
	j.keep(review.BeforeNew, on, "once, "+string(review.BeforeNew)+", to keep blocks and overrides",
		appendEntries, "'"+j.New.Policy.Name+"'", key, "o.plan", "o.until_ns", nameIs(j.Old), condition, inForce)
}

// endStatement replaces the entries in force by equal ones that have ended: processes would not notice a deletion.
func (j *judgement) endStatement(what string) {
	j.statement(string(review.AfterOld)+", to end "+what, appendEntries, "o.name", "o.key", "o.plan", "1",
		nameIs(j.Old), "", inForce)
}

// keepEnding is endStatement for entries that were copied before.
func (j *judgement) keepEnding(on database, what, condition string) {
	j.keep(review.AfterOld, on, string(review.AfterOld)+", to end "+what, appendEntries, "o.name", "o.key", "o.plan", "1",
		nameIs(j.Old), condition, inForce)
}

func nameIs(l *spec.Limit) string { return "o.name = '" + l.Policy.Name + "'" }

func (j *judgement) listStatement(why, condition string) {
	j.statement(why, "SELECT o.key, o.what, o.until_ns, o.reason FROM rate_limit_overrides o WHERE %s %s%s;", nameIs(j.Old),
		condition, inForce)
}

// keyMove is how the parts of a key come from those of the old one.
type keyMove struct {
	// from has for each part its index in the old key, and moved is whether one is at another place, or was dropped.
	from  []int
	moved bool
	// merged are the names of the parts that were dropped.
	merged []string
	// lost is why keys cannot be converted, and doubtful a sentence about some that may be stored in another form.
	lost, doubtful string
}

func keyMoveOf(was, is []spec.KeyPart) (m keyMove) {
	if len(was) == 0 {
		// Only the whole limit has any.
		return m
	}
	// Parts that differ in nothing but their names are where they were, unless the same names have changed places.
	renamed := slices.Equal(compare.PartTypes(was), compare.PartTypes(is)) &&
		!slices.Equal(compare.SortedNames(was), compare.SortedNames(is))
	for i, part := range is {
		at := slices.Index(spec.PartNames(was), part.Name)
		if renamed {
			at = i
		}
		if at < 0 {
			m.lost = "they have no " + part.Name
			return m
		}
		m.from, m.moved = append(m.from, at), m.moved || at != i
		m.compare(was[at], part)
	}
	for i, part := range was {
		if !slices.Contains(m.from, i) {
			m.merged, m.moved = append(m.merged, part.Name), true
		}
	}
	if len(is) == 0 {
		m.lost = "one of a single key would be one of all callers"
	}
	return m
}

// compare records whether a part is stored as the same text as before.
func (m *keyMove) compare(was, is spec.KeyPart) {
	plain := []string{"string", "bool", "int", "int64", "uint64"}
	switch {
	case was.Type == is.Type, slices.Contains(plain, was.Type) && slices.Contains(plain, is.Type):
	case len(was.Alternatives()) > 0 || len(is.Alternatives()) > 0:
		m.doubtful = fmt.Sprintf("The new version finds those for which it writes %s as the same text as before; other blocked keys can be used again: list them, and block them again.", is.Name)
	case is.Hashed():
		m.lost = "the new version looks for the hash of " + is.Name
	case was.Hashed():
		m.lost = "they have only the hash of " + was.Name
	case is.Folded() && !was.Folded():
		m.doubtful = fmt.Sprintf("Those of keys whose %s is not in lower case and in the form NFC are not found by the new version, so that these can be used again: list them, and block them again.", is.Name)
	case was.Folded() && !is.Folded():
		m.doubtful = fmt.Sprintf("Those in force are for the %s in lower case only, so that other spellings can be used again: list them, and block these spellings.", is.Name)
	case was.GoType() == is.GoType():
		m.doubtful = "Those of IPv6 addresses are not found by the new version, which stores another prefix, so that these can be used again: list them, and block them again."
	default:
		m.doubtful = fmt.Sprintf("The new version finds those for which it writes %s as the same text as before; other blocked keys can be used again: list them, and block them again.", is.Name)
	}
}

// keyDialect is how the parts of a key are cut out on a database.
type keyDialect struct {
	database
	moves []countsMove
	// part is an expression for the part with an index from 1.
	part func(i int) string
	join func(parts []string) string
}

// countsMove updates the counts o whose keys are not too long, with a key, a name, and the old name.
type countsMove struct {
	database
	text string
}

const (
	moveCounts        = "UPDATE rate_limits AS o SET key = %s, name = '%s' WHERE o.name = '%s' AND " + wholeKey + ";"
	moveCountsOnMySQL = "UPDATE rate_limits o SET o.key = %s, o.name = '%s' WHERE o.name = '%s' AND " + wholeKey + ";"
	// MySQL sets the columns from left to right.
	moveCountsOnVitess = "UPDATE rate_limits o SET o.key = %s, o.first_part = SUBSTRING_INDEX(o.key, '|', 1), o.name = '%s' WHERE o.name = '%s' AND " + wholeKey + ";"
	// wholeKey is the condition for a key of which no part was cut off.
	wholeKey = "o.key NOT LIKE '%%|%%~%%' ESCAPE '|'"
)

var keyDialects = []keyDialect{
	{
		onSQLite,
		[]countsMove{{onSQLite, moveCounts}},
		func(i int) string {
			return fmt.Sprintf(`json_extract('["' || replace(replace(replace(o.key, '\', '\\'), '"', '\"'), '|', '","') || '"]', '$[%d]')`, i-1)
		},
		joinByPipes,
	},
	{
		onPostgres,
		[]countsMove{{onPostgres, moveCounts}},
		func(i int) string { return fmt.Sprintf("split_part(o.key, '|', %d)", i) },
		joinByPipes,
	},
	{
		database{"on MySQL, MariaDB and Vitess, ", []string{"mysql", "mariadb", "vitess"}},
		[]countsMove{
			{database{"on MySQL and MariaDB, ", []string{"mysql", "mariadb"}}, moveCountsOnMySQL},
			{database{"on Vitess, in a keyspace that is not sharded, ", []string{"vitess"}}, moveCountsOnVitess},
		},
		func(i int) string { return fmt.Sprintf("SUBSTRING_INDEX(SUBSTRING_INDEX(o.key, '|', %d), '|', -1)", i) },
		func(parts []string) string { return "CONCAT(" + strings.Join(parts, ", '|', ") + ")" },
	},
}

var (
	onSQLite   = database{"on SQLite, ", []string{"sqlite"}}
	onPostgres = database{"on Postgres, ", []string{"postgres"}}
)

func joinByPipes(parts []string) string { return strings.Join(parts, " || '|' || ") }

// key returns the new key of an entry o.
func (d keyDialect) key(from []int) string {
	return d.join(words.Of(from, func(at int) string { return d.part(at + 1) }))
}
