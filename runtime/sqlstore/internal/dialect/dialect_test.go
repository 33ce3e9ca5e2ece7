package dialect

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// optional are the fields of Dialect that may be empty, as their comments say, with the dialects of this package that leave
// them empty.
var optional = map[string]string{
	"Numbered":           "sqlite mariadb mysql vitess",
	"Prepare":            "postgres vitess",
	"Literals":           "sqlite postgres mariadb mysql",
	"Isolation":          "sqlite",
	"OneWriter":          "postgres mariadb mysql vitess",
	"TakeEach":           "sqlite vitess",
	"ManyNumbered":       "sqlite mariadb mysql vitess",
	"TakeShards":         "sqlite mysql vitess",
	"Describe":           "",
	"Locate":             "",
	"Parts":              "",
	"CreateOverrides":    "",
	"OverridesParts":     "",
	"CreateRegistry":     "",
	"RegistryParts":      "",
	"Grants":             "sqlite vitess",
	"NoGrants":           "postgres mariadb mysql",
	"Session":            "sqlite",
	"SessionNeeds":       "sqlite",
	"Ready":              "sqlite postgres mariadb mysql",
	"ReadyNeeds":         "sqlite postgres mariadb mysql",
	"OneKey":             "sqlite postgres mariadb mysql",
	"ManyKeys":           "sqlite postgres",
	"Keyspaces":          "sqlite postgres mariadb mysql",
	"Vindexes":           "sqlite postgres mariadb mysql",
	"AddVindex":          "sqlite postgres mariadb mysql",
	"PlacesOf":           "sqlite postgres mariadb mysql",
	"UsePlace":           "sqlite postgres mariadb mysql",
	"TwoPhase":           "sqlite postgres mariadb mysql",
	"OnePhase":           "sqlite postgres mariadb mysql",
	"AddColumn":          "sqlite postgres mariadb mysql",
	"ReadHint":           "sqlite mariadb mysql",
	"ReadUnlocked":       "sqlite",
	"ReadManyUnlocked":   "sqlite postgres",
	"ReadFree":           "sqlite",
	"BoundWaits":         "sqlite mariadb mysql vitess",
	"BoundTime":          "sqlite postgres mysql vitess",
	"BoundSession":       "sqlite postgres mariadb mysql",
	"Holder":             "sqlite vitess",
	"Statements":         "sqlite postgres mariadb vitess",
	"Kill":               "sqlite postgres mariadb vitess",
	"InsertPlaceholders": "sqlite",
	"Take":               "vitess",
	"TakeKeys":           "sqlite postgres mariadb vitess",
	"TakeOne":            "sqlite mysql vitess",
	"TakeInsertID":       "sqlite postgres mariadb",
	"Taken":              "sqlite postgres mariadb vitess",
	"TakeTogether":       "sqlite mariadb mysql vitess",
	"Denies":             "sqlite mariadb mysql vitess",
	"Undone":             "sqlite mariadb mysql vitess",
	"CompareAndSwap":     "",
	"SwapMany":           "sqlite vitess",
	"ManySwapped":        "sqlite mariadb mysql vitess",
	"Sync":               "postgres mariadb mysql vitess",
	"Reclaim":            "postgres mariadb mysql vitess",
	"Now":                "sqlite",
	"FindPrepared":       "sqlite mariadb mysql vitess",
	"FindReplica":        "sqlite mariadb mysql vitess",
	"RepeatsStatements":  "sqlite postgres mysql vitess",
	"TxOpen":             "sqlite postgres mysql vitess",
	"OnlyInTx":           "sqlite mariadb mysql",
	"NeverInTx":          "postgres vitess",
	"CountPrepared":      "sqlite postgres mysql vitess",
	"Latest":             "sqlite postgres mysql vitess",
}

// together are pairs of fields of which the first has no meaning without the second.
var together = [][2]string{{"Describe", "Parts"}, {"Parts", "Describe"}, {"Session", "SessionNeeds"},
	{"SessionNeeds", "Session"}, {"Ready", "ReadyNeeds"}, {"ReadyNeeds", "Ready"}, {"BoundSession", "Ready"}, {"CreateOverrides", "OverridesParts"}, {"OverridesParts", "CreateOverrides"},
	{"CreateRegistry", "RegistryParts"}, {"RegistryParts", "CreateRegistry"},
	{"TxOpen", "RepeatsStatements"}, {"TxOpen", "CountPrepared"}, {"CountPrepared", "TxOpen"}, {"TakeKeys", "Taken"}, {"TakeOne", "Take"},
	{"TakeShards", "Take"}, {"TakeEach", "Take"}, {"ManyNumbered", "TakeEach"}, {"Taken", "Take"}, {"Taken", "TakeKeys"}, {"Taken", "TakeInsertID"}, {"TakeTogether", "Denies"},
	{"Denies", "Undone"}, {"Undone", "TakeTogether"}, {"Statements", "Kill"}, {"Kill", "Statements"}, {"Keyspaces", "Vindexes"}, {"Vindexes", "AddVindex"}, {"AddVindex", "PlacesOf"},
	{"PlacesOf", "UsePlace"}, {"UsePlace", "Keyspaces"}}

func TestDialectsSetRequiredFields(t *testing.T) {
	for name := range optional {
		_, ok := reflect.TypeFor[Dialect]().FieldByName(name)
		assert.True(t, ok, "optional has %s, which is not a field of Dialect", name)
	}
	for _, d := range All() {
		v := reflect.ValueOf(d)
		for _, f := range reflect.VisibleFields(v.Type()) {
			mayBeEmpty := slices.Contains(strings.Fields(optional[f.Name]), d.Name)
			assert.Equal(t, mayBeEmpty, v.FieldByName(f.Name).IsZero(),
				"the field %s of %s: fill it in in %s.go, or name the dialect in optional in dialect_test.go", f.Name, d.Name, d.Name)
		}
	}
}

func TestDialectsSetFieldsThatGoTogether(t *testing.T) {
	for _, d := range All() {
		field := reflect.ValueOf(d).FieldByName
		for _, pair := range together {
			assert.False(t, !field(pair[0]).IsZero() && field(pair[1]).IsZero(), "the field %s of %s is empty, but %s, which needs it, is not", pair[1], d.Name, pair[0])
		}
	}
}

func TestDialectsListsTheDialectOfEachFile(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var files, names []string
	for _, path := range paths {
		if name := strings.TrimSuffix(path, ".go"); name != "all" && name != "dialect" && !strings.HasSuffix(name, "_test") {
			files = append(files, name)
		}
	}
	for _, d := range All() {
		names = append(names, d.Name)
	}
	assert.ElementsMatch(t, files, names, "All must list the dialect of each file NAME.go")
	assert.Equal(t, "sqlite", names[0], "the default of ratelimitgen sql")
}

func TestTextsOfDialectsHaveNoUnknownPlaceholder(t *testing.T) {
	for _, d := range All() {
		v := reflect.ValueOf(d)
		for i := range v.NumField() {
			if v.Field(i).Kind() != reflect.String {
				continue
			}
			text, err := d.Text(v.Field(i).String(), "")
			require.NoError(t, err)
			text = strings.NewReplacer("{rows}", "", "{logged}", "", "{when}", "", "{keys}", "", "{parts}", "", "{swapped}", "", "{numbered}", "", "{names}", "", "{place}", "", "{overrides}", "", "{registry}", "", "{app}", "", "{migrator}", "", "{rewrite}", "", "{migrator too}", "").Replace(text)
			assert.NotRegexp(t, `\{[a-z. ]+\}`, text, "%s of %s", v.Type().Field(i).Name, d.Name)
		}
	}
}

func TestLocatedTablesAreNamedWithTheirSchema(t *testing.T) {
	for table, want := range map[string]string{
		"":           "`my-app`.`rate_limits` 'my-app' 'rate_limits' `my-app`.",
		"app.quotas": "`app`.`quotas` 'app' 'quotas' `app`.",
	} {
		text, err := MySQL.TextIn("my-app", "{table} '{schema}' '{name}' {schema.}", table)
		assert.NoError(t, err)
		assert.Equal(t, want, text)
	}
	assert.True(t, Spellable("my-app: é"))
	for _, schema := range []string{"", "a'b", `a"b`, "a`b", `a\b`, "a?b", "a$1"} {
		assert.False(t, Spellable(schema), schema)
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
	}
}
