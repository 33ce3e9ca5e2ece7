// Example shows limits.example.yaml at work, with counts in a SQLite file in a temporary folder. Without
// arguments it tells its story on the terminal and ends; with -http :8080 it serves the same limits as a
// JSON API.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	limits "github.com/ratelimitgen/ratelimitgen/example/gen"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

func main() {
	addr := flag.String("http", "", "serve a JSON API at this address, such as :8080")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "example: there is no argument %q; see -help\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := untilSignal()
	defer stop()
	if err := run(ctx, *addr, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

// untilSignal returns a context that ends when the program is asked to end. A second signal ends it at once.
func untilSignal() (ctx context.Context, stop context.CancelFunc) {
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// run tells the story, or serves until the context ends.
func run(ctx context.Context, addr string, out io.Writer) error {
	folder, err := os.MkdirTemp("", "ratelimitgen-example-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "limits.db")
	if addr == "" {
		return tell(ctx, path, out)
	}
	return listen(ctx, path, addr, out)
}

// tell tells the story, by a clock that the story moves.
func tell(ctx context.Context, path string, out io.Writer) error {
	clock := &storyClock{now: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)}
	store, err := sqlite.OpenWith(path, sqlstore.Options{Clock: clock.Now})
	if err != nil {
		return err
	}
	defer store.Close()
	fmt.Fprintf(out, "Counts are in %s. The clock is the story's own.\n", path)
	return (&story{ctx, out, clock, limits.New(store)}).tell()
}

// listen serves the API at an address until the context ends, and then finishes the requests under way.
func listen(ctx context.Context, path, addr string, out io.Writer) error {
	store, err := sqlite.Open(path)
	if err != nil {
		return err
	}
	defer store.Close()
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprint(out, usage("http://"+listener.Addr().String()))
	server := &http.Server{Handler: handler(limits.New(store)), ReadHeaderTimeout: 10 * time.Second}
	finished := make(chan error, 1)
	context.AfterFunc(ctx, func() { finished <- server.Shutdown(context.WithoutCancel(ctx)) })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-finished // Serve returns before the last request has been answered
}
