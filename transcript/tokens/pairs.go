package tokens

// oddPair is 1 for two ASCII letters, of either case, that words seldom have side
// by side, and 0 for all else.
func oddPair(first, second byte) int {
	return int(oddAfter[first] >> (second & 31) & 1)
}

// oddAfter has the bit of each letter that seldom comes after another one. It has
// room for every byte, which spares a check.
var oddAfter = func() (after [256]uint32) {
	for i, letters := range oddLetters {
		for _, c := range letters {
			after['a'+i] |= 1 << (c & 31)
		}
		after['A'+i] = after['a'+i]
	}
	return after
}()

// oddLetters lists, for each letter, the letters that followed it in fewer than
// one of 5,000 pairs, on average over the classes of the fitted texts, without
// base64, hexadecimal digits and minified code. They make up a hundredth of the
// pairs in English, four in Polish or Czech, and nearly half of random letters.
// The letter itself is not listed.
var oddLetters = [26]string{
	"ehq",                      // a
	"cdfghkmnpqtvwz",           // b
	"bfgnqvwx",                 // c
	"cfghjmqvwxz",              // d
	"",                         // e
	"bcghjkmnpqvwxyz",          // f
	"bcdfjkmpqvwxyz",           // g
	"bcdfgjkmpqsvwxyz",         // h
	"hjquwy",                   // i
	"bcdfghiklmnpqrtuvwxyz",    // j
	"bcdfjmpqvwxyz",            // k
	"ghjqrwxz",                 // l
	"cfghjknqrtvwxz",           // m
	"bjqwxz",                   // n
	"hjqy",                     // o
	"bfjqvwz",                  // p
	"abcdefghijklmnoprstvwxyz", // q
	"fhjqx",                    // r
	"bdjnqvx",                  // s
	"bgjkqvxz",                 // t
	"hkoqvwxz",                 // u
	"bcdfghjklnpqrstuwxyz",     // v
	"bcdfgjklmpqtuvz",          // w
	"bdfghjklmnoquvwyz",        // x
	"bdfghijkqruvwxz",          // y
	"bcdfghjklmpqrstvwx",       // z
}
