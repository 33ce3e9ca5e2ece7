package main

import (
	"flag"
	"fmt"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// dialects are those whose table sql prints, the default first.
var dialects = []sqlstore.Dialect{sqlstore.SQLite, sqlstore.Postgres, sqlstore.MariaDB, sqlstore.MySQL}

func sqlVerb() verb {
	return verb{
		name:  "sql",
		about: "print the statement that creates the table of the counts",
		help: `It is for those who keep their migrations themselves; Store.Migrate runs the same statement, and Store.Ready
says what differs from it. Give the name of the table to the store too, as
sqlstore.Options{Table: TABLE}.
`,
		prepare: func(flags *flag.FlagSet) action {
			var o sqlOptions
			var names []string
			for _, d := range dialects {
				names = append(names, d.Name)
			}
			o.dialect.declare(flags, "dialect", "for the database `NAME`: sqlite (if left out), postgres, mariadb or mysql", names...)
			flags.StringVar(&o.table, "table", sqlstore.DefaultTable, "create `TABLE`, or SCHEMA.TABLE; if left out, "+sqlstore.DefaultTable)
			return o.print
		},
	}
}

// sqlOptions are the flags of sql.
type sqlOptions struct {
	dialect choice
	table   string
}

// print prints the statement, and says of which dialect it is.
func (o *sqlOptions) print(s streams, args []string) error {
	if len(args) > 0 {
		return misusef("takes no arguments")
	}
	if o.table == "" {
		return misusef("-table must name a table")
	}
	i := slices.IndexFunc(dialects, func(d sqlstore.Dialect) bool { return d.Name == o.dialect.value })
	ddl, err := dialects[i].DDL(o.table)
	if err != nil {
		return misuse{err.Error()}
	}
	_, err = fmt.Fprintf(s.out, "-- The counts of rate limits, in %s.\n%s;\n", o.dialect.value, ddl)
	return err
}
