package main

import (
	"context"
	"crypto/subtle"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime/operate"
)

// secret is that of all fingerprints of keys: in logs, in the console and on the command line. Without the environment
// variable it is empty, and each observer makes one of its own.
func secret() []byte { return []byte(os.Getenv("LIMITS_SECRET")) }

// operateLimits runs a command for operators on the file of a server, and returns the exit code.
func operateLimits(ctx context.Context, path string, args []string, out, errs io.Writer) int {
	if _, err := os.Stat(path); err != nil {
		fmt.Fprintf(errs, "no file of a server: give the one that it was started with, as in -db app.db limits top: %v\n", err)
		return operate.Usage
	}
	db, store, err := openDatabase(ctx, path)
	if err != nil {
		fmt.Fprintln(errs, "failed:", err)
		return operate.Failed
	}
	defer db.Close()
	defer store.Close()
	program := operate.Program{Catalog: limits.Catalog(), Store: store, Secret: secret()}
	return program.Main(ctx, args, out, errs)
}

// listenLoopback listens at an address of this machine that no other machine can reach.
func listenLoopback(addr string) (net.Listener, error) {
	at, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, err
	}
	if !at.IP.IsLoopback() {
		return nil, fmt.Errorf("the page of operators is for this machine only: give an address such as localhost:8081, not %q", addr)
	}
	return net.ListenTCP("tcp", at)
}

// login serves the page to requests with the password, because every user of the machine can reach it. A service of your
// own has a login with a name for each operator.
func login(password string, page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, given, _ := r.BasicAuth(); subtle.ConstantTimeCompare([]byte(given), []byte(password)) == 0 {
			w.Header().Set("WWW-Authenticate", `Basic realm="operators"`)
			http.Error(w, "the server has printed the password at its start", http.StatusUnauthorized)
			return
		}
		page.ServeHTTP(w, r)
	})
}

// operator returns who may change counts by the page: everybody who has passed the login, by their name.
func operator(r *http.Request) (author string, ok bool) {
	author, _, ok = r.BasicAuth()
	return author, ok
}
