package storetest

import "strings"

// KibText is a text whose line has about 1 KiB.
var KibText = Sentence(910)

// Sentence returns a text of n bytes that resembles texts of people and models.
func Sentence(n int) string {
	const s = "The build fails in \"store.go\": the lock is taken twice, once in Load and once in Append.\nMove it, then run the tests again – 请再试一次. "
	return strings.Repeat(s, n/len(s)+1)[:n/len(s)*len(s)] + strings.Repeat("x", n%len(s))
}
