package group

import "time"

// pace is how long flights take, which decides how many calls that wait are worth another one.
//
// Another flight lets them wait half as long, and costs the database a statement, which is as much as a dozen rows. Half as
// many calls as are under way are worth that, within [few] and [most]: two flights of about the same size keep the database
// and this process busy. Fewer calls are worth one if flights take long without working, as over a network: the database is
// then idle for most of the time, and the calls wait for long.
type pace struct {
	// current and last are the shortest times of a flight in this window and in the one before, or 0. The shortest is one
	// that has not waited for the processor: a busy database must not get smaller statements.
	current, last time.Duration
	flights       int
	// took, calls and requests are the averages of the last flights, in nanoseconds, calls and the requests of these.
	took, calls, requests float64
}

const (
	few, most = 8, 32
	// cheap is how long a flight takes that hardly waits: about the work of a small statement.
	cheap = 200 * time.Microsecond
	// window is how many flights a window has.
	window = 256
	// maxPatience leaves a call most of [Timeout] for another connection.
	maxPatience = Timeout / 5
	// aRow is more than most databases work for a request, and recent is how many flights the averages are of, about.
	aRow   = 15 * time.Microsecond
	recent = 16
	// crowd is how many calls flights have, on average, where a busy database is worth a rest.
	crowd = 16
	// maxRest is the most that a busy database adds to the wait of a call.
	maxRest = 2 * time.Millisecond
)

// add adds the time of a flight that had some calls, which had some requests together.
func (p *pace) add(took time.Duration, calls, requests int) {
	p.took += (float64(took) - p.took) / recent
	p.calls += (float64(calls) - p.calls) / recent
	p.requests += (float64(requests) - p.requests) / recent
	if p.current == 0 || took < p.current {
		p.current = took
	}
	if p.flights++; p.flights == window {
		p.last, p.current, p.flights = p.current, 0, 0
	}
}

// shortest returns the shortest time of a flight lately, or 0 if there was none.
func (p *pace) shortest() time.Duration {
	if p.last == 0 || p.current > 0 && p.current < p.last {
		return p.current
	}
	return p.last
}

// busy reports whether flights of many calls take more than twice as long as the distance of the database and their requests
// explain: they wait for the statements of other hosts, for the processor or for rows. Another flight would wait too, and
// have fewer calls. Of small flights, one that takes longer than another may only have more round trips.
func (p *pace) busy() bool {
	return p.calls >= crowd && p.took > 2*(float64(p.shortest())+float64(aRow)*p.requests)
}

// rest returns how long to wait after a flight, so that the callers that have their answers join those that wait: without
// it, two halves of the callers would take turns in statements of half the size.
func (p *pace) rest() time.Duration {
	if !p.busy() {
		return 0
	}
	return min(time.Duration(p.took/8), maxRest)
}

// patience is how long calls wait for a flight that has one of their keys.
func (p *pace) patience() time.Duration { return min(max(linger, 4*p.shortest()), maxPatience) }

// enough returns how many calls that wait are worth another flight, if this number of flights, with this number of calls,
// are under way.
func (p *pace) enough(flights, calls int) int {
	worth := min(max(few, calls/2), most)
	shortest := p.shortest()
	if shortest <= cheap {
		return worth
	}
	// With the part of a flight that works, both the price of another one and the time that calls wait for the database
	// fall, so this is its square.
	working := float64(cheap) / float64(shortest)
	return max(1, min(worth, int(most*working*working*float64(flights))))
}
