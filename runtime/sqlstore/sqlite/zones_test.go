package sqlite_test

import (
	"archive/zip"
	"bufio"
	"context"
	"fmt"
	"go/build"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelimitgen/ratelimitgen/runtime"
	"github.com/ratelimitgen/ratelimitgen/runtime/limiter"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore/sqlite"
)

// daily is one token for each day in Cairo.
var daily = &runtime.Policy{
	Name: "daily", Kind: runtime.FixedWindow, Rate: 1, Period: 24 * time.Hour, Capacity: 1,
	Calendar: runtime.Calendar{Unit: runtime.Day, Zone: "Africa/Cairo"},
}

// takeAtTimes reads instants, takes a token at each of them, and prints whether it was allowed.
func takeAtTimes(*limiter.Limiter) error {
	now := time.Unix(0, 0)
	store, err := sqlite.OpenWith(os.Getenv(envPath), sqlstore.Options{Clock: func() time.Time { return now }})
	if err != nil {
		return err
	}
	defer store.Close()
	limit := limiter.New(store).Limit(daily, runtime.Key{})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		seconds, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			return err
		}
		now = time.Unix(seconds, 0)
		d, err := limit.Allow(context.Background())
		if err != nil {
			return err
		}
		fmt.Println(d.Allowed)
	}
	return lines.Err()
}

// zoneDirectory returns a directory for ZONEINFO in which Cairo has the data of a zone of the Go installation.
func zoneDirectory(t *testing.T, of string) string {
	t.Helper()
	z := must(zip.OpenReader(filepath.Join(build.Default.GOROOT, "lib", "time", "zoneinfo.zip")))(t)
	defer z.Close()
	f := must(z.Open(of))(t)
	data := must(io.ReadAll(f))(t)
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "Africa"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "Africa", "Cairo"), data, 0o644))
	return dir
}

// Egypt puts its clocks forward since 2023. One process has zone data from before that, and another one the present data:
// together they grant each day once, also while their days begin an hour apart.
func TestProcessesWithDifferentZoneData(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	type taker struct {
		in  io.Writer
		out *bufio.Scanner
	}
	var takers []taker
	for _, data := range []string{"Africa/Tripoli", "Africa/Cairo"} {
		cmd := process("takeAtTimes", path)
		cmd.Env = append(cmd.Env, "ZONEINFO="+zoneDirectory(t, data))
		in := must(cmd.StdinPipe())(t)
		out := must(cmd.StdoutPipe())(t)
		require.NoError(t, cmd.Start())
		defer func() {
			in.Close()
			require.NoError(t, cmd.Wait())
		}()
		takers = append(takers, taker{in, bufio.NewScanner(out)})
	}
	for _, order := range [][]taker{takers, {takers[1], takers[0]}} {
		// The second turn is in another year, so that the row has no token of the first one.
		begin := time.Date(2026, time.April, 15, 12, 0, 0, 0, time.UTC)
		if order[0] != takers[0] {
			begin = begin.AddDate(1, 0, 0)
		}
		var granted []time.Time
		for now := begin; now.Before(begin.AddDate(0, 0, 30)); now = now.Add(20 * time.Minute) {
			for _, p := range order {
				fmt.Fprintln(p.in, now.Unix())
				require.True(t, p.out.Scan(), "a process has failed")
				if p.out.Text() == "true" {
					granted = append(granted, now)
				}
			}
		}
		require.Len(t, granted, 31, "30 days, and the first token")
		for i := range granted[1:] {
			// The first token was taken at noon.
			require.True(t, i == 0 || granted[i+1].Sub(granted[i]) >= 23*time.Hour, "%v after %v", granted[i+1], granted[i])
		}
	}
}
