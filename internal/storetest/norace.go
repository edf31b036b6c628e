//go:build !race

package storetest

// Brief says that long tests do with less.
const Brief = false
