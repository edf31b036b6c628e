// Package peerbench measures Convolog against other ways of keeping
// conversations in a Go program: the same work, at the same level of
// durability, block by block in turn.
//
//	go test -bench .
//
// It is a module of its own, so that the library depends on none of them.
// Frameworks that bring many dependencies of their own are in a further module,
// testdata/frameworks, which is not a part of the gate.
package peerbench
