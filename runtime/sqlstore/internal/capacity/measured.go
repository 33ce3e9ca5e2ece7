package capacity

// network is the round trip between two machines of one data centre, in seconds. It is assumed, not measured.
const network = 0.0005

// Postgres and Relaxed are what statements cost that take from rows of a PostgreSQL 15, the second with durability
// relaxed. They were measured by "go run . -costs" in runtime/bench, on a virtual machine with two cores and
// nothing else to do: Fixed and PerRow are the processor's times, and Commit is by how much the fixed time of a
// statement is longer than with durability relaxed.
var (
	Postgres = Costs{Fixed: 112e-6, PerRow: 9.7e-6, Commit: 130e-6, RoundTrip: network}
	Relaxed  = Costs{Fixed: 59e-6, PerRow: 10.8e-6, Commit: 0, RoundTrip: network}
)

// Cores, Lanes and Batch are those of the plans of CAPACITY.md: a database of eight cores, and the store's own
// settings.
const (
	Cores = 8
	Lanes = 2
	Batch = 1000
)
