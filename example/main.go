// Example uses the limits of limits.example.yaml, with counts in an SQLite file. Without arguments it prints a series of
// calls and their decisions, and ends; with -http :8080 it is a server whose routes have these limits, with a page for
// operators on a listener of its own, and with limits top a command line for the operators of that server. Copy server.go,
// database.go, operators.go and the second half of this file to begin a service of your own.
package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/console"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/limithttp"
	"github.com/ratelimitgen/ratelimitgen/runtime/observe"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

func main() {
	addr := flag.String("http", "", "serve at this address, such as :8080")
	page := flag.String("console", "localhost:8081", "the address of the operators' page of the server, on this machine")
	path := flag.String("db", "", "the SQLite file, if it is not a temporary one")
	flag.Parse()
	ctx, stop := untilSignal()
	defer stop()
	switch {
	case flag.Arg(0) == "limits":
		os.Exit(operateLimits(ctx, *path, flag.Args()[1:], os.Stdout, os.Stderr))
	case flag.NArg() > 0:
		fmt.Fprintf(os.Stderr, "example: unexpected argument %q; see -help\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := run(ctx, *path, *addr, *page, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

// untilSignal returns a context that ends with the first SIGINT or SIGTERM. The second one kills the program.
func untilSignal() (ctx context.Context, stop context.CancelFunc) {
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// run runs the story, or serves until the context ends if addr is not empty. The path may be empty, for a temporary file.
func run(ctx context.Context, path, addr, page string, out io.Writer) error {
	if path == "" {
		folder, err := os.MkdirTemp("", "ratelimitgen-example-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		path = filepath.Join(folder, "limits.db")
	}
	if addr == "" {
		return runStory(ctx, path, out)
	}
	return listen(ctx, path, addr, page, out)
}

// runStory runs the story with a clock that the story advances, so that it does not sleep.
func runStory(ctx context.Context, path string, out io.Writer) error {
	clock := &storyClock{now: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)}
	store, err := sqlite.OpenWith(path, sqlstore.Options{Clock: clock.Now})
	if err != nil {
		return err
	}
	defer store.Close()
	fmt.Fprintf(out, "Counts are in %s. The clock is simulated.\n", path)
	return (&story{ctx: ctx, out: out, clock: clock, limits: limits.New(store)}).run()
}

// listen serves at an address, and the page of operators at another one, until the context ends, and then finishes the
// requests in flight.
func listen(ctx context.Context, path, addr, page string, out io.Writer) error {
	db, store, err := openDatabase(ctx, path)
	if err != nil {
		return err
	}
	defer db.Close()
	defer store.Close() // before the database: it gives back leased tokens

	operators, err := listenLoopback(page)
	if err != nil {
		return err
	}
	defer operators.Close()
	clients, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	password := rand.Text()
	fmt.Fprint(out, usage("http://"+clients.Addr().String(), "http://operator:"+password+"@"+operators.Addr().String()))
	routes, operating := handlers(db, store, password)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		defer stop()
		ended <- serveUntil(ctx, operators, operating)
	}()
	err = serveUntil(ctx, clients, routes)
	stop()
	return errors.Join(err, <-ended)
}

// serveUntil serves until the context ends, and then finishes the requests in flight.
func serveUntil(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	finished := make(chan error, 1)
	// The context of Shutdown must outlive ctx, which has ended by then.
	context.AfterFunc(ctx, func() { finished <- server.Shutdown(context.WithoutCancel(ctx)) })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-finished // Serve returns before the last request has been answered
}

// handlers returns the handler of the server's clients, with metrics and a log of denials, and the page of operators.
func handlers(db *sql.DB, store runtime.Store, password string) (routes, operating http.Handler) {
	counters := observe.NewCounters(observe.Options{Policies: limits.Policies(), Secret: secret()})
	logs := observe.NewLog(slog.Default(), observe.LogOptions{Secret: secret()})
	limit := limits.New(store, limiter.Observe(counters), limiter.Observe(logs))
	s := &server{
		db:    db,
		limit: limit,
		h:     limithttp.New(limit, limithttp.Options{}),
		// No proxy is in front of this program.
		client: limithttp.ClientIP{Direct: true},
	}
	mux := s.routes()
	mux.Handle("GET /metrics", counters)
	return mux, login(password, console.New(console.Options{
		Catalog:      limits.Catalog(),
		Store:        store,
		AllowChanges: operator,
		Secret:       secret(),
		Denials:      counters.Denials(),
	}))
}
