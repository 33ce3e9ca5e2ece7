package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ratelimitgen/ratelimitgen/gen/spec"
)

func initVerb() verb {
	return verb{
		name:  "init",
		args:  "[FILE]",
		about: "write a limits.yaml to begin with",
		help: `FILE is limits.yaml if it is left out. Beside it goes its JSON Schema, limits.schema.json, which editors
use for completion and checks. Nothing is overwritten.
`,
		prepare: func(*flag.FlagSet) action { return initialize },
	}
}

// starter is the file that init writes, but for the name of the schema.
//
//go:embed starter.yaml
var starter string

func initialize(s streams, args []string) error {
	path := defaultFile
	switch {
	case len(args) > 1:
		return misusef("takes one file, not %d", len(args))
	case len(args) == 1:
		path = args[0]
	}
	switch {
	case path == "", path == standardInput:
		return misusef("needs the name of a file, not %s", shown(path))
	case !namesFile(path):
		return misusef("%s is a directory; name the file in it", shown(path))
	}
	schema := schemaBeside(path)
	if schema == path {
		return misusef("%s would be the schema too", shown(path))
	}
	if err := refuseExisting(path, schema); err != nil {
		return err
	}
	text := strings.ReplaceAll(starter, "limits.schema.json", filepath.Base(schema))
	if err := errors.Join(replaceFile(schema, spec.Schema()), replaceFile(path, []byte(text))); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.out, nextSteps, shown(path), shown(schema), quoted(filepath.Base(path)))
	return err
}

// namesFile reports whether a path can be that of a file, by its looks.
func namesFile(path string) bool {
	_, name := filepath.Split(path)
	return name != "" && name != "." && name != ".."
}

// schemaBeside returns the path of the schema that goes with a limits.yaml. There is no space in its name,
// where editors take the name to end.
func schemaBeside(path string) string {
	directory, name := filepath.Split(path)
	name = strings.TrimSuffix(name, filepath.Ext(name))
	return directory + strings.Join(strings.Fields(name), "-") + ".schema.json"
}

// refuseExisting answers no if init would overwrite anything.
func refuseExisting(path, schema string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return no{shown(path) + " exists already"}
	}
	now, err := readOutput(schema)
	if err == nil && now.exists && !now.holds(spec.Schema()) {
		return no{shown(schema) + " exists already, and is another one"}
	}
	return err
}

const nextSteps = `Wrote %s and %s. Now write this line into a Go file beside it, in the package that
is to hold the limits,

  //go:generate go tool ratelimitgen generate %s

and run go generate. If go.mod does not have the tool and the runtime yet, this gets them:

  go get -tool github.com/ratelimitgen/ratelimitgen/cmd/ratelimitgen
`
