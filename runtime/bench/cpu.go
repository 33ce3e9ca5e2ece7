package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// split is processor time: of this process, and of the database's processes.
type split struct{ own, server time.Duration }

func (s split) minus(o split) split { return split{s.own - o.own, s.server - o.server} }

// splitMeter returns the processor time so far.
type splitMeter func() split

// meterOf returns the meter for a server, or nil if its processor time cannot be measured. The server must run on this
// machine, under Linux, and do nothing else. Without a server, all the time is that of this process.
func (s *site) meterOf(ctx context.Context, of server) (splitMeter, error) {
	if of == "" {
		return func() split { return split{own: ownTime()} }, nil
	}
	pid, children, err := s.mainProcess(ctx, of)
	if err != nil {
		return nil, err
	}
	if _, err := busyTime(pid); err != nil {
		return nil, fmt.Errorf("the server runs elsewhere: %w", err)
	}
	return func() split {
		now := split{own: ownTime()}
		pids := []int{pid}
		if children {
			pids = append(pids, childrenOf(pid)...)
		}
		for _, pid := range pids {
			// A process that has ended has no time.
			busy, _ := busyTime(pid)
			now.server += busy
		}
		return now
	}, nil
}

// mainProcess returns the process of a server, and whether its children work for it.
func (s *site) mainProcess(ctx context.Context, of server) (pid int, children bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	switch of {
	case postgres:
		text, err := s.selectText(ctx, of, "SELECT CAST(pg_backend_pid() AS TEXT) || ' ' || pg_read_file('postmaster.pid')")
		if err != nil {
			return 0, false, err
		}
		// The file begins with the id of the postmaster.
		fields := strings.Fields(text)
		if len(fields) < 2 {
			return 0, false, fmt.Errorf("postmaster.pid has no process in %q", text)
		}
		pid, err = strconv.Atoi(fields[1])
		if err != nil {
			return 0, false, err
		}
		return pid, true, isCalled(pid, "postgres")
	case redisDB:
		client, err := s.openRedis()
		if err != nil {
			return 0, false, err
		}
		defer closeAndLog(client)
		info, err := client.InfoMap(ctx, "server").Result()
		if err != nil {
			return 0, false, err
		}
		pid, err = strconv.Atoi(info["Server"]["process_id"])
		if err != nil {
			return 0, false, err
		}
		return pid, false, isCalled(pid, "redis-server")
	}
	file, err := s.selectText(ctx, of, "SELECT @@pid_file")
	if err != nil {
		return 0, false, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false, err
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	return pid, false, err
}

// ownTime returns the processor time of this process.
func ownTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		logf("no CPU time: %v", err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// childrenOf returns the processes that a process has started, or none on a kernel that does not list them.
func childrenOf(parent int) (pids []int) {
	// Each thread has its own.
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
