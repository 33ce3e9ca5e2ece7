package main

import (
	"syscall"
	"time"
)

// late is how long after its time the system wakes a thread.
const late = 60 * time.Microsecond

// pause sleeps for less than a millisecond. In a process without other work, [time.Sleep] would take a millisecond.
func pause(d time.Duration) {
	left := syscall.NsecToTimespec(int64(d - late))
	// A signal ends it early, which is rare.
	_ = syscall.Nanosleep(&left, nil)
}
