//go:build !race

package filelog

// brief says that long tests do with less.
const brief = false
