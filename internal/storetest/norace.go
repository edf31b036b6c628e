//go:build !race

package storetest

// Brief is set if long tests must be shorter.
const Brief = false
