package spec

import (
	"github.com/ratelimitgen/ratelimitgen/runtime"
)

// File is what a valid limits.yaml says.
type File struct {
	// Name is the file's name as it was given to [Parse], for messages.
	Name string
	// Package is the name of the Go package to generate; "" if the file does not say.
	Package string
	// Limits are in the order of the file.
	Limits []*Limit
}

// Limit is one rule of the file, with every default filled in.
type Limit struct {
	// Policy holds the effective values: Capacity is Rate when the file does not say, and so on.
	Policy runtime.Policy
	// GoName is the name of the generated method: "SendMessage" for sendMessage.
	GoName string
	// Doc is the author's text, without trailing white space; it may have several lines.
	Doc string
	// Key holds the parts of the key in their order; it is empty for one shared counter.
	Key []KeyPart
	// Pos is where the limit's name stands.
	Pos Pos
	// Given says where the value of each field stands that the file gives, by the field's name: "rate".
	Given map[string]Pos
}

// KeyPart is one named and typed part of a limit's key.
type KeyPart struct {
	// Name is a Go identifier and no keyword.
	Name string
	// Type is the type as it was written: "int64", "netip.Addr" or "example.com/ids.UserID".
	Type string
}

// Pos is a place in a file. Lines and columns count from 1; columns count runes.
type Pos struct {
	Line, Column int
}
