package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitgen/ratelimitgen/runtime/sqlstore"
)

// tick is the unit of processor time in /proc, a hundredth of a second on every Linux.
const tick = 10 * time.Millisecond

// cpuTime returns how long a processor has been busy for a process; nil is not known.
type cpuTime func() (time.Duration, error)

// now returns the time, 0 if it is not known.
func (c cpuTime) now() time.Duration {
	if c == nil {
		return 0
	}
	busy, err := c()
	if err != nil {
		say("no CPU time: %v", err)
	}
	return busy
}

// cpuOf returns the processor time of the process that works for a contender: it must run on this machine,
// which must be Linux.
func cpuOf(ctx context.Context, o *opened) (cpuTime, error) {
	pid, err := o.pid(ctx)
	if err != nil {
		return nil, err
	}
	usage := cpuTime(func() (time.Duration, error) { return busyTime(pid) })
	_, err = usage()
	if err != nil {
		return nil, err
	}
	return usage, nil
}

// busyTime returns how long a processor has been busy for a process, itself and in the kernel.
func busyTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(string(text))
}

// parseStat reads /proc/PID/stat. The name of the process, in parentheses, may have spaces; utime and stime are
// the 12th and 13th fields after it.
func parseStat(text string) (time.Duration, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, errors.New("/proc/PID/stat has too few fields")
	}
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	kernel, err := strconv.Atoi(fields[12])
	return time.Duration(user+kernel) * tick, err
}

// pid returns the process of the server that works for the table: in Postgres that of its one connection, and
// otherwise the server itself.
func (t *table) pid(ctx context.Context) (pid int, err error) {
	if t.dialect.Name == sqlstore.Postgres.Name {
		err = t.db.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&pid)
		if err != nil {
			return 0, err
		}
		return pid, isCalled(pid, "postgres")
	}
	var file string
	if err := t.db.QueryRowContext(ctx, "SELECT @@pid_file").Scan(&file); err != nil {
		return 0, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// isCalled returns an error unless a process has a name: a server elsewhere has numbers of its own.
func isCalled(pid int, name string) error {
	found, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(found)) != name {
		return fmt.Errorf("process %d is not %s: the server runs elsewhere", pid, name)
	}
	return nil
}
