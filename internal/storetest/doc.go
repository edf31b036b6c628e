// Package storetest helps to test features of a store of package session: it opens
// stores, fills sessions and reads them back, starts child processes and kills them,
// and shows a store every state of the disk that a crash may leave. Of a store it uses
// only sessions, their entries and their histories, so the tests of each feature can
// use it.
package storetest
