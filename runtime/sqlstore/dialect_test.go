package sqlstore

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDifferencesFromRequiredParts(t *testing.T) {
	const parts = `
ts: bigint | int8
value: double
primary key: name, key, shard
`
	for _, row := range []struct {
		found map[string]string
		want  []string
	}{
		{map[string]string{"ts": "bigint", "value": "double", "primary key": "name, key, shard"}, nil},
		{map[string]string{"ts": "int8", "value": "double", "primary key": "name, key, shard", "note": "text"}, nil},
		{map[string]string{"ts": "text", "value": "double"}, []string{`ts is "text" instead of "bigint"`, "primary key is missing"}},
		{map[string]string{"ts": "bigint", "value": "double", "primary key": "name"}, []string{`primary key is "name" instead of "name, key, shard"`}},
	} {
		assert.Equal(t, row.want, differences(parts, row.found))
	}
}

func TestTextFillsInTheTableName(t *testing.T) {
	for table, want := range map[string]string{
		"":           "`rate_limits` '' 'rate_limits' `key`",
		"quotas":     "`quotas` '' 'quotas' `key`",
		"app.quotas": "`app`.`quotas` 'app' 'quotas' `key`",
	} {
		text, err := MySQL.Text("{table} '{schema}' '{name}' {key}", table)
		assert.NoError(t, err)
		assert.Equal(t, want, text)
	}
	for _, table := range []string{"a.b.c", ".a", "a.", "1a", "a b", "a'b", "a`b", `a"b`, "a;b", "é"} {
		_, err := MySQL.Text("{table}", table)
		assert.ErrorContains(t, err, "only letters, digits and underscores", table)
		_, err = New(&sql.DB{}, MySQL, Options{Table: table})
		assert.ErrorContains(t, err, "only letters, digits and underscores", table)
	}
}
