package runtime

import "fmt"

// Durability is what a crash of the database may lose of the counts. It is about power cuts and crashes of the
// database's machine: what a call was told is taken outlives the end of this process under each.
type Durability uint8

const (
	// DurabilityDefault is that of the database as it is set up, which is full on most servers.
	DurabilityDefault Durability = iota
	// DurabilityRelaxed does not wait until the disk has the counts. A crash may lose those of the last
	// moments, and the tokens can then be taken again; nothing else is lost.
	DurabilityRelaxed
	// DurabilityFull waits until the disk has the counts.
	DurabilityFull
)

// Durabilities lists every Durability that a limit can ask for.
func Durabilities() []Durability { return []Durability{DurabilityRelaxed, DurabilityFull} }

// String returns the word that stands in limits.yaml, "relaxed", or "default".
func (d Durability) String() string {
	switch d {
	case DurabilityDefault:
		return "default"
	case DurabilityRelaxed:
		return "relaxed"
	case DurabilityFull:
		return "full"
	}
	return fmt.Sprintf("Durability(%d)", d)
}
