package storetest

import "strings"

// KibText makes a line of about 1 KiB.
var KibText = Sentence(910)

// Sentence is a text of about n bytes, as people and models write.
func Sentence(n int) string {
	const s = "The build fails in \"store.go\": the lock is taken twice, once in Load and once in Append.\nMove it, then run the tests again – 请再试一次. "
	return strings.Repeat(s, n/len(s)+1)[:n/len(s)*len(s)] + strings.Repeat("x", n%len(s))
}
