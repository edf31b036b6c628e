//go:build race

package storetest

// Brief says that long tests do with less, because the race detector makes them many
// times slower.
const Brief = true
