package main

import (
	"context"
	"errors"
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

// splitMeter returns the processor time so far. It is nil if that cannot be measured.
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
		busy := busyTime
		if children {
			busy = familyTime
		}
		now, err := busy(pid)
		if err != nil {
			logf("no CPU time: %v", err)
		}
		return split{ownTime(), now}
	}, nil
}

// mainProcess returns the process of a server, and whether its children work for it.
func (s *site) mainProcess(ctx context.Context, of server) (pid int, children bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	text, name := "", ""
	switch of {
	case postgres:
		// The file begins with the id of the postmaster.
		name, children = "postgres", true
		text, err = s.selectText(ctx, of, "SELECT split_part(pg_read_file('postmaster.pid'), chr(10), 1)")
	case redisDB, redisDurable:
		name = "redis-server"
		text, err = s.redisInfo(ctx, of, "process_id")
	default:
		if text, err = s.selectText(ctx, of, "SELECT @@pid_file"); err == nil {
			var file []byte
			file, err = os.ReadFile(text)
			text = string(file)
		}
	}
	if err != nil {
		return 0, false, err
	}
	if pid, err = strconv.Atoi(strings.TrimSpace(text)); err != nil || name == "" {
		return pid, children, err
	}
	return pid, children, isCalled(pid, name)
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

// busyTime returns the user and system time of a process.
func busyTime(pid int) (time.Duration, error) {
	stat, err := statOf(pid)
	return stat.busy, err
}

// familyTime returns the user and system time of a process and of its children, also of those that have ended.
func familyTime(pid int) (time.Duration, error) {
	stat, err := statOf(pid)
	for err == nil {
		busy := stat.busy + stat.ended
		for _, child := range childrenOf(pid) {
			// The time of one that has just ended is with its parent.
			now, _ := busyTime(child)
			busy += now
		}
		before := stat.ended
		stat, err = statOf(pid)
		if stat.ended == before {
			return busy, err
		}
	}
	return 0, err
}

// tick is the unit of processor time in /proc: USER_HZ is 100 on every Linux.
const tick = 10 * time.Millisecond

// procStat is the processor time in /proc/PID/stat: of the process, and of those of its children that have ended.
type procStat struct{ busy, ended time.Duration }

func statOf(pid int) (procStat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, err
	}
	return parseStat(string(text))
}

func parseStat(text string) (procStat, error) {
	// The name of the process, in parentheses, may have spaces and parentheses, so the fields are counted after it.
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return procStat{}, errors.New("/proc/PID/stat has too few fields")
	}
	var times [4]time.Duration // utime, stime, cutime, cstime
	for i := range times {
		ticks, err := strconv.Atoi(fields[11+i])
		if err != nil {
			return procStat{}, err
		}
		times[i] = time.Duration(ticks) * tick
	}
	return procStat{busy: times[0] + times[1], ended: times[2] + times[3]}, nil
}

// isCalled returns an error unless the process has this name. A server on another machine returns an id that belongs to
// another process here.
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
