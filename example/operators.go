package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
	"github.com/ratelimitgen/ratelimitgen/runtime/operate"
)

// secret is that of all fingerprints of keys: in logs, in the console and on the command line. Without the environment
// variable it is empty, and each observer makes one of its own.
func secret() []byte { return []byte(os.Getenv("LIMITS_SECRET")) }

// operateLimits runs a command for operators on the file of a server, and returns the exit code.
func operateLimits(ctx context.Context, path string, args []string, out io.Writer) int {
	if _, err := os.Stat(path); err != nil {
		fmt.Fprintf(out, "no file of a server: give the one that it was started with, as in -db app.db limits top: %v\n", err)
		return operate.Usage
	}
	db, store, err := openDatabase(ctx, path)
	if err != nil {
		fmt.Fprintln(out, "failed:", err)
		return operate.Failed
	}
	defer db.Close()
	defer store.Close()
	return operate.MainWith(ctx, limits.Catalog(), store, operate.Options{Secret: secret()}, args, out)
}

// operator returns who may change counts by the console: in place of a login, whoever is at this machine.
func operator(r *http.Request) (author string, ok bool) {
	addr, err := limithttp.ClientIP{Direct: true}.Of(r)
	return "operator", err == nil && addr.IsLoopback()
}
