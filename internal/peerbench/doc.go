// Package peerbench compares Convolog with other ways to store conversations in a Go
// program. Both do the same work at the same level of durability, in alternating blocks.
//
//	go test -bench .
//
// It is a module of its own, so that the library does not depend on the peers.
// Frameworks with many dependencies are in another module, testdata/frameworks, which is
// not a part of the gate.
package peerbench
