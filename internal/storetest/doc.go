// Package storetest helps to test what works on a store of package session: it opens
// stores, fills sessions and reads them back, starts child processes and kills them,
// and shows a store every state of the disk that a crash may leave. It uses nothing of
// a store but sessions, their entries and their histories, so the tests of each feature
// can use it.
package storetest
