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

	"github.com/ratelimitgen/ratelimitgen/gen/fields"
)

func initCommand() command {
	return command{
		name:    "init",
		args:    "[FILE]",
		summary: "write a first limits.yaml and its JSON Schema",
		help: `FILE defaults to limits.yaml. Its JSON Schema, limits.schema.json, is written beside it; editors use
it for completion and checks. Existing files are not overwritten.
`,
		prepare: func(*flag.FlagSet) action { return initialize },
	}
}

// starter is the file that init writes, except for the name of the schema.
//
//go:embed starter.yaml
var starter string

func initialize(s streams, args []string) error {
	if len(args) > 1 {
		return usagef("takes one file, not %d", len(args))
	}
	path := inDirectory(append(args, defaultFile)[0])
	switch {
	case filepath.Base(path) == "...":
		return usagef("writes one file, and not all below a directory")
	case path == "", path == standardInput:
		return usagef("needs a file name, not %s", shown(path))
	case !namesFile(path):
		return usagef("%s is a directory; name a file in it", shown(path))
	}
	schema := schemaBeside(path)
	if schema == path {
		return usagef("%s is the name of the schema; choose another one", shown(path))
	}
	if err := refuseExisting(path, schema); err != nil {
		return err
	}
	text := strings.NewReplacer("limits.schema.json", filepath.Base(schema), "FILE", quoted(filepath.Base(path))).Replace(starter)
	if err := errors.Join(replaceFile(schema, fields.Schema()), replaceFile(path, []byte(text))); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.out, nextSteps, shown(path), shown(schema), quoted(filepath.Base(path)))
	return err
}

// namesFile reports whether a path has the form of a file's, whether or not the file exists.
func namesFile(path string) bool {
	_, name := filepath.Split(path)
	return name != "" && name != "." && name != ".."
}

// refuseExisting returns an error if init would overwrite a file. A schema that is up to date may stay, so that one
// folder can have several files.
func refuseExisting(path, schema string) error {
	// Lstat, because a link without a target must not be overwritten either.
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return checkFailed{shown(path) + " already exists"}
	}
	now, err := readOutput(schema)
	if err == nil && now.exists && !now.equals(fields.Schema()) {
		return checkFailed{shown(schema) + " already exists with another content; move it or choose another name"}
	}
	return err
}

const nextSteps = `Wrote %s and %s. Next, generate the code, in its directory:

  go tool ratelimitgen generate %[3]s

If go.mod does not have the tool and the runtime yet, add them first:

  go get -tool github.com/ratelimitgen/ratelimitgen/cmd/ratelimitgen

To have go generate do it after each edit, add this line to a Go file of the package for the limits:

  //go:generate go tool ratelimitgen generate %[3]s
`
