package sqlstore

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

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
