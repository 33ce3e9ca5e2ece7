package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
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

// programs are the programs of the servers.
var programs = map[server]string{
	postgres: "postgres", mariadb: "mariadbd", mysqlDB: "mysqld", redisDB: "redis-server", redisDurable: "redis-server",
}

// meterOf returns the meter for a server, or nil if its processor time cannot be measured. The server must run on this
// machine, under Linux, and it and others of its kind must do nothing else. Without a server, all the time is that of this
// process.
func (s *site) meterOf(of server) splitMeter {
	if of == "" {
		return func() split { return split{own: ownTime()} }
	}
	address, _, err := s.servers.through(of, "")
	host, _, _ := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && !ip.IsLoopback() {
		return nil
	}
	pids := processesOf(programs[of])
	if len(pids) == 0 {
		return nil
	}
	return func() (now split) {
		for _, pid := range pids {
			now.server += familyTime(pid)
		}
		now.own = ownTime()
		return now
	}
}

// ownTime returns the processor time of this process.
func ownTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		logf("no CPU time: %v", err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// processesOf returns the processes that run a program, or none without /proc. Others that Postgres starts have a title.
func processesOf(program string) (pids []int) {
	runs := regexp.MustCompile(`(^|/)` + regexp.QuoteMeta(program) + `[\x00 ]`)
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if text, _ := os.ReadFile(file); runs.Match(text) {
			pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
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

// familyTime returns the user and system time of a process and of its children, also of those that have ended.
func familyTime(pid int) time.Duration {
	parent, err := statOf(pid)
	busy := parent.busy + parent.ended
	for _, child := range childrenOf(pid) {
		now, _ := statOf(child)
		busy += now.busy
	}
	if after, failed := statOf(pid); err == nil && failed == nil && after.ended != parent.ended {
		// The time of a child that has ended meanwhile is with its parent.
		return familyTime(pid)
	}
	return busy
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
