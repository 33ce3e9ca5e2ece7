package main

import (
	"flag"
	"fmt"
	"runtime/debug"
)

func versionVerb() verb {
	return verb{
		name:    "version",
		about:   "print the version",
		prepare: func(*flag.FlagSet) action { return version },
	}
}

func version(s streams, args []string) error {
	if len(args) > 0 {
		return misusef("takes no arguments")
	}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return fmt.Errorf("this program was built without its version")
	}
	_, err := fmt.Fprintf(s.out, "ratelimitgen %s, built with %s\n", build.Main.Version, build.GoVersion)
	return err
}
