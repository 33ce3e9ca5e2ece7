// Package frameworks tests package limithttp with web frameworks: the snippets of ../README.md are its source. It is a
// module of its own, so that a program with limits does not depend on any of them.
package frameworks
