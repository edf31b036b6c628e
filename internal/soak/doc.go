// Package soak holds tests of a whole store with its features: of power cuts, failing
// system calls and killed writers, and of long conversations. It contains only tests.
package soak
