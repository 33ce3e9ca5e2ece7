package main

import (
	"flag"

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
	"github.com/ratelimitgen/ratelimitgen/gen/render"
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
