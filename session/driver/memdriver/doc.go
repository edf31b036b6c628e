// Package memdriver keeps sessions in memory, for the tests of applications
// and of this module.
//
// The driver that [New] returns behaves like the file driver in everything that package driver
// promises, and passes the same suite, package sessiontest. Nothing outlives
// the process, nothing is written to disk, and there are no sync policies: a
// nil error is as durable as memory.
//
// # Restarts and other processes
//
// The content of a driver is not gone when it is closed. [Reopen] gives
// another driver on the same storage: after Close it is the restarted
// application, before it a second process.
//
// # Cursors
//
// The low half of a cursor counts the lines before it, so a test fails when
// code takes it for a byte offset. [transcript.Record] has them in Offset and
// End, a [transcript.Damage] in Offset.
//
// # Faults
//
// [Options.Fail] makes writes fail, so that an application can test a full
// disk. A failed write leaves the storage as it was.
package memdriver
