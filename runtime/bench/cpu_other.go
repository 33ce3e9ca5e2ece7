//go:build !linux

package main

// meterOf returns nil: processor time is measured on Linux only.
func (s *site) meterOf(server) splitMeter { return nil }
