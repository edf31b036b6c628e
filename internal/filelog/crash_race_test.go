//go:build race

package filelog

// brief says that long tests do with less, because the race detector makes
// them many times slower.
const brief = true
