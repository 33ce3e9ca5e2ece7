package sqlstore

import (
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Dialect is what a database wants to be told: text, and nothing that runs. In each text, {table} stands for the
// quoted name of the table, {schema} and {name} for the two parts of it without quotes, {schema.} for the first
// with its dot, and {key} for the quoted name of the column key, which is a word of SQL. A parameter is written
// with a colon, as :name. A dialect of your own is a value of this type.
type Dialect struct {
	// Name is how the dialect is called: "sqlite".
	Name string
	// Numbered says that parameters are $1, $2 and so on, and not ?.
	Numbered bool
	// Quote is the character that stands before and after a quoted name.
	Quote string
	// Prepare makes the store prepare statements in the database, each at its first use. Without it statements are
	// sent with their arguments, and only the driver may prepare them. It must not be set for a database that is
	// reached through a pooler that sends each transaction to another session, where a statement that was prepared
	// under some name may be missing, or be another client's.
	Prepare bool
	// Isolation is that of the store's own transactions. Under it, Read must return what others have
	// committed before Read had its lock, and not what was there when the transaction began.
	Isolation sql.IsolationLevel
	// Lanes is how many transactions of one process are of use at once: 1 for a database that has one writer
	// at a time.
	Lanes int
	// Create creates the table, if there is none.
	Create string
	// Describe selects of each part of the table its name and what it is, such as "value" and "double", or
	// "primary key" and "name, key, shard", and nothing if there is no table. If it is empty, the table is
	// not checked before it is used.
	Describe string
	// Parts are the parts that the table must have as Describe tells them, one a line: its name, and what
	// it may be, "ts: bigint | int8". What is first is what Create makes.
	Parts string
	// Session selects the settings of a session on which the statements rely, and their values, and Needs says
	// what they must be, in the manner of Parts. Both are empty if there are none.
	Session, Needs string
	// Named selects whether a statement has been prepared in the session whose text is like :name. Its own text contains
	// ratelimitgen_named. Ready runs it to find out whether the driver prepares statements under names, and whether a
	// pooler mixes them up. It is empty for a database that has no such poolers.
	Named string
	// Repeats selects a row if the server may carry out a statement once more that it has answered already, when
	// it is not in a transaction. Then none is sent so that writes. It is empty if no server does.
	Repeats string
	// One and Many are how a statement is given rows: both select the columns name, key, shard, value, ts
	// and prev, and stand in the statements below as {rows}. One has the parameters :name, :key, :shard,
	// :value, :ts and :prev. Many has :rows, a JSON list of lists of the six, in the order in which the rows are to be
	// locked; value and prev are texts in it, for MySQL 8.0 reads numbers in JSON with a digit too few. Or it has
	// :names, :keys, :shards, :values, :instants and :prevs, lists as Postgres writes them, and the parameters of
	// One: a list of what is the same for all rows is empty, and it is the parameter of One. No two rows have all of
	// name, key and shard in common.
	One, Many string
	// ManyKeys selects no more than name, key and shard, where that is faster, and stands in statements as {keys}
	// in place of Many. It has :ids, a JSON list of lists of the three. If it is empty, Many stands there.
	ManyKeys string
	// Read locks those of the rows that are there, in their order, until the transaction ends, and selects
	// their name, key, shard, value, ts and prev.
	Read string
	// Look selects the same of them as they were last committed, outside of a transaction. If it is empty, Read
	// does.
	Look string
	// Seed inserts the rows that are not there with the ts of one never seen, the smallest there is, and
	// locks all of them. It is empty for a database in which one transaction writes at a time.
	Seed string
	// Write inserts or updates the rows. Where a server can end a transaction unnoticed, see TxOpen, neither Write nor
	// Delete may affect a row outside of one.
	Write string
	// Delete deletes the rows, whatever is in them, and Forget those that have not changed.
	Delete, Forget string
	// TxOpen selects 1 while the session is in a transaction, and 0 otherwise. It is for servers for which Repeats selects
	// a row: they may abort a transaction between two statements, and discard the error if the next command is to
	// prepare or to close a statement, so that the next statements run outside of the transaction.
	TxOpen string
	// Prepared selects how many statements the session has prepared on the server, which shows whether a driver that is
	// given :name as an argument prepares or writes it into the statement itself. It goes with TxOpen.
	Prepared string
	// Take takes tokens as [runtime.Upsert] says from rows of one limit, whose value is Fresh and whose ts
	// is T. Count is :capacity - Fresh; the other parameters are :rate, :period, which is an integer, :debt and :allowance. It selects key,
	// value and ts of the rows that it has written, and 1; others that it selects have 0. In place of {rows}
	// it may have :name and :takes, a JSON list of lists of key, value, as a text, and ts. If it is empty, a
	// transaction takes instead.
	Take string
	// TakeOne is Take for one row, where another text is faster. If it is empty, Take is for one row too.
	TakeOne string
	// TakeTold is TakeOne for a database that cannot select what it has written: the statement tells it by the rows
	// that it has affected and by the id of the last insert. An inserted row is 1 row, and the id is [ToldInserted].
	// A row that was taken from is 2, and the id is the bits of its value, the least byte first, each of them
	// inverted; its ts is T then. Of any other row nothing is written, and the id is [ToldRefused]. That may be any
	// row whose ts is not T or before. No id of a finite value is one of these two, or 0. Anything else tells
	// nothing, as where MySQL forgets the id because of a trigger, or has one of a column that numbers the rows:
	// then the call fails, and may have taken. Describe and Parts should refuse such a table before that.
	TakeTold string
	// Swap updates one row that still has :oldvalue, :oldts and :oldprev. If it is empty, a transaction does.
	Swap string
	// Page selects key, shard, value, ts and prev of :count rows of the limit :name that follow :key and
	// :shard, in their order.
	Page string
	// Sync is the setting of a session that says whether it waits for the disk when it commits: as a statement
	// it selects a number, and followed by "= 2" it makes the session wait. It is empty for a database
	// without such a setting. Where statements can choose, Write, Delete, Take and Swap have a parameter
	// :durability, which is 0 for the database's own, 1 for relaxed and 2 for full.
	Sync string
	// Reclaim makes room on a volume that is full, such as by emptying a log. It is empty if no statement can.
	Reclaim string
	// Latest selects the greatest ts of some rows, or NULL. It goes with TxOpen: the nodes of such a cluster have a clock
	// each, and a ts that lies ahead shows that they differ.
	Latest string
	// Now selects the database's clock, in microseconds since 1970 UTC. It is empty for a database that
	// has no clock but the process's.
	Now string
}

// Text returns a statement for a table, [DefaultTable] for "", with what its placeholders stand for. The
// error is about the table's name.
func (d Dialect) Text(statement, table string) (string, error) {
	if table == "" {
		table = DefaultTable
	}
	if !tableName.MatchString(table) {
		return "", fmt.Errorf("table %q: a name has only letters, digits and underscores, and at most one dot", table)
	}
	schema, name, ok := strings.Cut(table, ".")
	if !ok {
		schema, name = "", table
	}
	names := strings.NewReplacer(
		"{table}", d.quoted(table), "{schema.}", dotted(schema), "{schema}", schema, "{name}", name, "{key}", d.quoted("key"))
	return names.Replace(strings.TrimSpace(statement)), nil
}

// dotted returns the name of a schema, if there is one, as it stands before another name.
func dotted(schema string) string {
	if schema == "" {
		return ""
	}
	return schema + "."
}

var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// DDL returns the statement that creates a table, for those who keep their migrations themselves; ratelimitgen
// sql prints it. The error is about the table's name.
func (d Dialect) DDL(table string) (string, error) { return d.Text(d.Create, table) }

// quoted returns a name in quotes, both parts of it if it is that of a schema's table.
func (d Dialect) quoted(name string) string {
	return d.Quote + strings.ReplaceAll(name, ".", d.Quote+"."+d.Quote) + d.Quote
}

// param is a parameter of a dialect's texts, where it is written with a colon: ":name".
type param int

const (
	paramName param = iota
	paramKey
	paramShard
	paramValue
	paramTS
	paramPrev
	paramRows
	paramIDs
	paramTakes
	paramCapacity
	paramRate
	paramPeriod
	paramDebt
	paramAllowance
	paramCount
	paramOldValue
	paramOldTS
	paramOldPrev
	paramDurability
	listNames
	listKeys
	listShards
	listValues
	listInstants
	listPrevs
	paramTotal
)

var paramNames = [paramTotal]string{
	"name", "key", "shard", "value", "ts", "prev", "rows", "ids", "takes", "capacity", "rate", "period", "debt", "allowance", "count",
	"oldvalue", "oldts", "oldprev", "durability", "names", "keys", "shards", "values", "instants", "prevs",
}

// values are what parameters stand for.
type values [paramTotal]any

// text is a statement as a database takes it, and the parameters that it has, in their order.
type text struct {
	sql    string
	params []param
}

// args returns the arguments of a statement.
func (t *text) args(v *values) []any {
	args := make([]any, len(t.params))
	for i, p := range t.params {
		args[i] = v.arg(p)
	}
	return args
}

var paramForm = regexp.MustCompile(`:[a-z]+`)

// given is how a statement is given rows, and those of which it needs no more than name, key and shard.
type given struct{ rows, keys string }

// compile returns a statement for a table.
func (d Dialect) compile(statement string, g given, table string) (text, error) {
	if statement == "" {
		return text{}, nil
	}
	rows := strings.NewReplacer("{rows}", "("+strings.TrimSpace(g.rows)+")", "{keys}", "("+strings.TrimSpace(g.keys)+")")
	sql, err := d.Text(rows.Replace(statement), table)
	if err != nil {
		return text{}, err
	}
	t := text{}
	t.sql = paramForm.ReplaceAllStringFunc(sql, func(written string) string {
		i := slices.Index(paramNames[:], written[1:])
		if i < 0 {
			err = fmt.Errorf("dialect %q has a statement with a parameter %s, which there is not", d.Name, written)
		}
		return d.placeholder(&t, param(i))
	})
	return t, err
}

// placeholder adds a parameter to a text, and returns how it is written there.
func (d Dialect) placeholder(t *text, p param) string {
	if !d.Numbered {
		t.params = append(t.params, p)
		return "?"
	}
	i := slices.Index(t.params, p)
	if i < 0 {
		i = len(t.params)
		t.params = append(t.params, p)
	}
	return "$" + strconv.Itoa(i+1)
}
