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
	"time"

	"golang.org/x/sys/unix"
)

// programs are the programs of the servers.
var programs = map[server]string{
	postgres: "postgres", mariadb: "mariadbd", mysqlDB: "mysqld", redisDB: "redis-server", redisDurable: "redis-server",
}

// meterOf returns the meter for a server, or nil if its processor time cannot be measured: the server must run on this
// machine, and it and others of its kind must do nothing else. Without a server, all the time is of this process.
func (s *site) meterOf(of server) splitMeter {
	self := os.Getpid()
	if of == "" {
		return func() split { return split{own: processTime(self)} }
	}
	host, err := s.servers.hostOf(of)
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
		now.own = processTime(self)
		return now
	}
}

// processesOf returns the processes that run a program. Others that Postgres starts have a title.
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

// processTime returns the processor time of all threads of a process, or 0 if it has ended. /proc/PID/stat counts in
// hundredths of a second, which is too much for a round and the processes of Postgres.
func processTime(pid int) time.Duration {
	// The clock of a process's CPU time has the number ^pid << 3, and 2 for its precise one: see clock_getcpuclockid(3).
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// tick is the unit in which Linux counts the time of children that have ended: USER_HZ is 100 everywhere.
const tick = 10 * time.Millisecond

// familyTime returns the processor time of a process and of its children, also of those that have ended. Only whole ticks of
// these count, so it may be less than before by up to a tick.
func familyTime(pid int) time.Duration {
	ended, err := endedTime(pid)
	busy := processTime(pid) + ended
	for _, child := range childrenOf(pid) {
		busy += processTime(child)
	}
	if after, failed := endedTime(pid); err == nil && failed == nil && after != ended {
		// The time of a child that has ended meanwhile is with its parent.
		return familyTime(pid)
	}
	return busy
}

// endedTime returns the processor time of those children of a process that have ended.
func endedTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseEnded(string(text))
}

// parseEnded returns cutime and cstime in the text of /proc/PID/stat.
func parseEnded(text string) (ended time.Duration, err error) {
	// The name of the process, in parentheses, may have spaces and parentheses, so the fields are counted after it.
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return 0, errors.New("/proc/PID/stat has too few fields")
	}
	for _, field := range fields[13:15] {
		ticks, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		ended += time.Duration(ticks) * tick
	}
	return ended, nil
}
