package main

import (
	"flag"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

func schemaVerb() verb {
	return verb{
		name:  "schema",
		about: "print the JSON Schema of limits.yaml, for editors",
		help: `Editors that know YAML follow a comment at the top of limits.yaml:

  # yaml-language-server: $schema=./limits.schema.json
`,
		prepare: func(*flag.FlagSet) action { return schema },
	}
}

func schema(s streams, args []string) error {
	if len(args) > 0 {
		return misusef("takes no arguments")
	}
	_, err := s.out.Write(spec.Schema())
	return err
}
