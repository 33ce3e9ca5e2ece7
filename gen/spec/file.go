// Package spec is what a limits.yaml says: a [File] of [Limit] and [Group] values with every default filled in.
package spec

// File is the content of a valid limits.yaml.
type File struct {
	// Name is the name passed to fields.Parse, for messages.
	Name string
	// Package is the name of the Go package to generate; "" if the file does not give one.
	Package string
	// Plans are in the order of the file; it is empty for a file without plans.
	Plans []Plan
	// Limits are in the order of the file.
	Limits []*Limit
	// Groups are in the order of the file.
	Groups []*Group
}

// PlanNames returns the names of the plans of the file.
func (f *File) PlanNames() []string { return PlanNames(f.Plans) }
