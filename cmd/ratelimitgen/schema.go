package main

import (
	"flag"

	"github.com/ratelimitgen/ratelimitgen/gen/review"
	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

func schemaVerb() verb {
	return verb{
		name:  "schema",
		about: "print the JSON Schema of limits.yaml, for editors, or of an answer",
		help: `Editors that know YAML follow a comment at the top of limits.yaml:

  # yaml-language-server: $schema=./limits.schema.json
`,
		prepare: prepareSchema,
	}
}

func prepareSchema(flags *flag.FlagSet) action {
	var of choice
	of.declare(flags, "of", "print the schema of `WHAT`: limits (limits.yaml, for editors), strict (the same without the keywords of editors, for validators) or diff (what diff -format json prints)", "limits", "strict", "diff")
	return func(s streams, args []string) error {
		if len(args) > 0 {
			return misusef("takes no arguments")
		}
		schema := spec.Schema()
		switch of.value {
		case "strict":
			schema = spec.StrictSchema()
		case "diff":
			schema = review.Schema()
		}
		_, err := s.data.Write(schema)
		return err
	}
}
