package meter

// inFlight is the algorithm of [runtime.InFlight].
type inFlight struct{ slidingWindow }
