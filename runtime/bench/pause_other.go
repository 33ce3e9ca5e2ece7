//go:build !linux

package main

import "time"

// pause sleeps, for a millisecond at least in a process without other work.
func pause(d time.Duration) { time.Sleep(d) }
