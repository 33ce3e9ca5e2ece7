package main

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/render"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/dialect"
)

func sqlCommand() command {
	return command{
		name:    "sql",
		summary: "print the statements that create the tables, or grant privileges",
		help: `Use it to keep your own migrations. Store.Migrate runs the same statements, and Store.Ready reports a
table that differs from them. Pass the name of the table to the store as well: sqlstore.Options{Table:
TABLE}. The names of the others are derived from it. The second table is needed if a limit has overrides,
and by package operate, whose log it is. The third one says whose the limits are and what their rows
mean; Store.Migrate with the generated Policies writes it.

With -from, the output is the statements that keep what is stored across the edit between two versions of
limits.yaml: counts, blocks, overrides and registrations of a limit that was renamed, or has another key.
OLD and NEW are as in "ratelimitgen diff", which also says what no statement can keep. They are in the
order of a deploy, with a comment that says when to run each.

With -grants, the output is the statements that give roles the least privileges that they need: APP the
program, and MIGRATOR what calls Store.Migrate. Those of APP need the tables. With -append-only, APP can add
to the second table, which is the log of operators, and not change or delete its entries: set
sqlstore.Options{KeepOverrides: -1}, and call Erase as MIGRATOR.
`,
		args:    "[NEW]",
		prepare: prepareSQL,
	}
}

func prepareSQL(flags *flag.FlagSet) action {
	var of choice
	names := dialectNames()
	of.declare(flags, "dialect", fmt.Sprintf("print it for the database `NAME`: %s (default %s)", alternatives(names),
		names[0]), names...)
	from := flags.String("from", "", "print what keeps the stored data across the edit of `OLD`, such as main:limits.yaml")
	grants := flags.String("grants", "", "print the privileges of the roles `APP,MIGRATOR`, or of one role for both")
	appendOnly := flags.Bool("append-only", false,
		"with -grants, let APP add to the log of operators, and not change or delete its entries")
	table := flags.String("table", dialect.DefaultTable, "create `TABLE`, or SCHEMA.TABLE (default "+dialect.DefaultTable+")")
	return func(s streams, args []string) error {
		if *table == "" {
			return usagef("-table must name a table") // DDL would take "" for the default
		}
		switch {
		case *appendOnly && *grants == "":
			return usagef("-append-only goes with -grants")
		case *from != "" && *grants != "":
			return usagef("-from and -grants cannot be combined")
		}
		d := dialect.All()[slices.Index(names, of.value)]
		if *from != "" {
			return printKeeping(s, d, *table, append([]string{*from}, args...))
		}
		if err := noArgs(args); err != nil {
			return err
		}
		if *grants != "" {
			app, migrator, two := strings.Cut(*grants, ",")
			if !two {
				migrator = app
			}
			statements, err := d.GrantsFor(*table, dialect.Roles{App: app, Migrator: migrator, AppendOnly: *appendOnly})
			if err != nil {
				return usageError{err.Error()}
			}
			_, err = fmt.Fprintln(s.out, statements)
			return err
		}
		counts, err := d.DDL(*table)
		overrides, also := d.OverridesDDL(*table)
		registry, too := d.RegistryDDL(*table)
		sharding, _ := d.ShardingDDL(*table)
		if err := cmp.Or(err, also, too); err != nil {
			return usageError{err.Error()}
		}
		if sharding != "" {
			sharding = fmt.Sprintf(shardingComment, sharding)
		}
		_, err = fmt.Fprintf(s.out, "-- The counts of rate limits, in %s.\n%s;\n\n-- Blocks and overrides, and the log of what operators change.\n%s;\n\n"+
			"-- The owner of each limit, the types of its key and the format of its rows.\n%s;\n%s", d, counts, overrides, registry, sharding)
		return err
	}
}

// shardingComment is a comment, because a keyspace that is not sharded refuses the statement.
const shardingComment = `
-- If the keyspace of the counts is sharded, this distributes them by the first parts of their keys, on a vtgate whose
-- --vschema-ddl-authorized-users has the user. The other two tables are then in a keyspace that is not sharded.
-- %s;
`

func dialectNames() []string {
	return namesOf(dialect.All(), dialect.Dialect.String)
}

// printKeeping prints the statements that keep the stored counts across an edit.
func printKeeping(s streams, d dialect.Dialect, table string, args []string) error {
	counts, err := d.Quoted(table)
	if err != nil {
		return usageError{err.Error()}
	}
	overrides, _ := d.Quoted(dialect.OverridesTable(table))
	registry, _ := d.Quoted(dialect.RegistryTable(table))
	names := strings.NewReplacer("rate_limit_overrides", overrides, "rate_limit_registry", registry, "rate_limits", counts)
	old, now, err := sides(args)
	if err != nil {
		return err
	}
	r, _, err := reviewSides(s, false, old, now)
	if err != nil {
		return err
	}
	for _, q := range r.SQL() {
		if q.Dialects != nil && !slices.Contains(q.Dialects, d.String()) {
			continue
		}
		if _, err := fmt.Fprintf(s.out, "-- %s: %s.\n%s\n", render.NameOf(q.Subject), q.Why, outsideTexts(names, q.Text)); err != nil {
			return err
		}
	}
	return nil
}

// outsideTexts replaces names in a statement, but not within its texts, where the path of a type may have one.
func outsideTexts(names *strings.Replacer, statement string) string {
	parts := strings.Split(statement, "'")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = names.Replace(parts[i])
	}
	return strings.Join(parts, "'")
}
