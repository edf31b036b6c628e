//go:build race

package storetest

// Brief is set if long tests must be shorter: the race detector makes them many times
// slower.
const Brief = true
