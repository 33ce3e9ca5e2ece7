package group

import "time"

// returns learns how many callers of a flight call again at once, which decides whether the next flight waits for them.
// Callers in a loop would miss it otherwise: two halves of them would take turns in flights of half the size, each of which
// costs the database as much as a dozen rows. The requests of a server come independently: then only a few flights wait, to
// see whether that has changed.
type returns struct {
	// part is the part of the callers that returned, on average over the last flights that waited. flights counts all flights.
	part    float64
	flights int
}

const (
	// maxGather is long enough for some hundred goroutines to go on, and gatherPart is the most that is added to the time of
	// a flight, as 1/gatherPart of it.
	maxGather  = 200 * time.Microsecond
	gatherPart = 16
	// maxYields bounds it where time stands still, as in tests. A yield takes a fifth of a microsecond at least.
	maxYields = 1000
	// fewReturn is the part below which only one flight of gatherEvery waits.
	fewReturn   = 0.5
	gatherEvery = 32
)

// worthLocked reports whether to wait after a flight.
func (r *returns) worthLocked() bool {
	r.flights++
	return r.part >= fewReturn || r.flights%gatherEvery == 0
}

func (r *returns) addLocked(returned, calls int64) {
	r.part += (min(1, float64(returned)/float64(calls)) - r.part) / 8
}
