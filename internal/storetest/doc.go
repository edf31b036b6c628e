// Package storetest helps to test features of a store of package session. It opens stores,
// fills sessions and reads them back, starts and kills child processes, and opens a store
// on every state of the disk that a crash may leave. It uses only sessions, their
// entries and their histories, so the tests of each feature can use it.
package storetest
