package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// site is where contenders keep their counts.
type site struct {
	servers servers
	// dir is the folder of SQLite's files.
	dir string
	// rows is how many keys a table has from the beginning.
	rows int
	// conns, if not 0, is the number of connections that every contender has to a server, instead of the usual
	// one.
	conns int
}

// opened is a contender that can be asked.
type opened struct {
	ask askFunc
	// askAll takes a token of each of several keys at once, and pid returns the process that does a
	// database's work for it. Only our stores have them.
	askAll func(ctx context.Context, keys []string) error
	pid    func(ctx context.Context) (int, error)
	// close drops what the contender has kept, and ends its connections.
	close func()
}

var names atomic.Int64

// newTable returns the name of a table that nobody else has.
func newTable() string { return fmt.Sprintf("rl_bench_%d_%d", os.Getpid(), names.Add(1)) }

// newFile returns the path of an SQLite database that is not there yet.
func (s *site) newFile() string { return filepath.Join(s.dir, fmt.Sprintf("%d.db", names.Add(1))) }

// connections returns how many connections a contender has, where so many are usual.
func (s *site) connections(usual int) int {
	if s.conns > 0 {
		return s.conns
	}
	return usual
}

// patience is how long a server may take for what is not measured: to answer at all, or to drop a table.
const patience = 30 * time.Second

// patiently runs what is not measured.
func patiently(fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return fn(ctx)
}
