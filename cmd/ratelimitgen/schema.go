package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"

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
		summary: "print the statements that create the tables, or grant privileges",
		help: `Use it to keep your own migrations. Store.Migrate runs the same statements, and Store.Ready reports a
table that differs from them. Pass the name of the table to the store as well: sqlstore.Options{Table:
TABLE}. The names of the others are derived from it. The second table is needed if a limit has overrides,
and by package operate, whose log it is. The third one says whose the limits are and what their rows
mean; Store.Migrate with the generated Policies writes it.

With -grants, the output is the statements that give roles the least privileges that they need: APP the
program, and MIGRATOR what calls Store.Migrate. Those of APP need the tables. Without DELETE on the second
table, set sqlstore.Options{KeepOverrides: -1}.
`,
		prepare: prepareSQL,
	}
}

func prepareSQL(flags *flag.FlagSet) action {
	var of choice
	names := dialectNames()
	of.declare(flags, "dialect", fmt.Sprintf("print it for the database `NAME`: %s (default %s)", alternatives(names), names[0]), names...)
	grants := flags.String("grants", "", "print the privileges of the roles `APP,MIGRATOR`, or of one role for both")
	table := flags.String("table", dialect.DefaultTable, "create `TABLE`, or SCHEMA.TABLE (default "+dialect.DefaultTable+")")
	return func(s streams, args []string) error {
		if *table == "" {
			return usagef("-table must name a table") // DDL would take "" for the default
		}
		if err := noArgs(args); err != nil {
			return err
		}
		d := dialect.All()[slices.Index(names, of.value)]
		if *grants != "" {
			app, migrator, two := strings.Cut(*grants, ",")
			if !two {
				migrator = app
			}
			statements, err := d.GrantsFor(*table, app, migrator)
			if err != nil {
				return usageError{err.Error()}
			}
			_, err = fmt.Fprintln(s.out, statements)
			return err
		}
		counts, err := d.DDL(*table)
		if err != nil {
			return usageError{err.Error()}
		}
		overrides, err := d.OverridesDDL(*table)
		if err != nil {
			return usageError{err.Error()}
		}
		registry, err := d.RegistryDDL(*table)
		if err != nil {
			return usageError{err.Error()}
		}
		_, err = fmt.Fprintf(s.out, "-- The counts of rate limits, in %s.\n%s;\n\n-- Blocks and overrides, and the log of what operators change.\n%s;\n\n"+
			"-- Whose the limits are, and what their rows mean.\n%s;\n", d.Name, counts, overrides, registry)
		return err
	}
}
