package main

import (
	"flag"
	"fmt"
	"slices"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/review/render"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
)

func schemaCommand() command {
	return command{
		name:    "schema",
		summary: "print the JSON Schema of limits.yaml, or of the output of diff",
		help: `Editors with YAML support read the path of the schema from a comment at the top of limits.yaml:

  # yaml-language-server: $schema=./limits.schema.json
`,
		prepare: prepareSchema,
	}
}

func prepareSchema(flags *flag.FlagSet) action {
	var of choice
	of.declare(flags, "of", "print the schema of `SUBJECT`: limits (limits.yaml) or diff (diff -format json)", "limits", "diff")
	return func(s streams, args []string) error {
		if err := noArgs(args); err != nil {
			return err
		}
		schema := fields.Schema()
		if of.value == "diff" {
			schema = render.Schema()
		}
		_, err := s.data.Write(schema)
		return err
	}
}

func dialectNames() (names []string) {
	for _, d := range dialect.All() {
		names = append(names, d.Name)
	}
	return names
}

func sqlCommand() command {
	return command{
		name:    "sql",
		summary: "print the CREATE TABLE statements",
		help: `Use it to keep your own migrations. Store.Migrate runs the same statements, and Store.Ready reports a
table that differs from them. Pass the name of the table to the store as well: sqlstore.Options{Table:
TABLE}. The second table is needed if a limit has overrides, and by package operate, whose log it is. Its
name is derived from TABLE.
`,
		prepare: prepareSQL,
	}
}

func prepareSQL(flags *flag.FlagSet) action {
	var of choice
	names := dialectNames()
	of.declare(flags, "dialect", fmt.Sprintf("print it for the database `NAME`: %s (default %s)", alternatives(names), names[0]), names...)
	table := flags.String("table", dialect.DefaultTable, "create `TABLE`, or SCHEMA.TABLE (default "+dialect.DefaultTable+")")
	return func(s streams, args []string) error {
		if *table == "" {
			return usagef("-table must name a table") // DDL would take "" for the default
		}
		if err := noArgs(args); err != nil {
			return err
		}
		d := dialect.All()[slices.Index(names, of.value)]
		counts, err := d.DDL(*table)
		if err != nil {
			return usageError{err.Error()}
		}
		overrides, err := d.OverridesDDL(*table)
		if err != nil {
			return usageError{err.Error()}
		}
		_, err = fmt.Fprintf(s.out, "-- The counts of rate limits, in %s.\n%s;\n\n-- Blocks and overrides, and the log of what operators change.\n%s;\n",
			d.Name, counts, overrides)
		return err
	}
}
