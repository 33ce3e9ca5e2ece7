package runtime

// State is what is stored of one key of a limit (of one shard of it, if it has shards). The zero State is
// that of a key never seen: full, as of now.
type State struct {
	// Value is the tokens available as of TS; negative if tokens were reserved ahead. For a
	// [SlidingWindow] it is what is left of the grant of the window that begins at TS.
	Value float64
	// TS is the instant as of which Value holds, in nanoseconds since 1970 UTC. It never moves back.
	TS int64
	// Prev is the tokens used in the window before TS; 0 but for a [SlidingWindow].
	Prev float64
	// Exists tells a stored State from that of a key never seen.
	Exists bool
}
