package tokens

import "unicode/utf8"

// A weight is the sum of the weights of a text's pieces, in hundredths of a
// token.
type weight struct {
	latin    int // words in the Latin script
	scripted int // words in other scripts
	plain    int // digits, blanks, punctuation, symbols
}

// of returns the sum of the parts, each times its percentage.
func (w weight) of(percent weight) int {
	return (w.latin*percent.latin + w.scripted*percent.scripted + w.plain*percent.plain) / 100
}

// weigh returns the weight of a text. It goes over the text once and allocates
// nothing.
//
// The text falls into pieces, as the tokenizers cut it before they look into
// their vocabulary: a word with the one blank or sign before it, up to three
// digits, a run of punctuation with the blank before and the line breaks after
// it, line breaks, blanks. A piece is at least one token. The weights decide
// how many more its content takes.
func weigh[T ~string | ~[]byte](s T, w *weights) weight {
	var sum weight
	for i := 0; i < len(s); {
		k, r, size := classAt(s, i)
		switch {
		case r == ' ' && i+1 < len(s) && asciiClass[s[i+1]] <= upper: // most words
			i = weighWord(s, i+1, 0, 0, w, &sum)
		case k.letter():
			i = weighWord(s, i, 0, 0, w, &sum)
		case k == digit:
			n := i
			for i < len(s) && asciiDigit(s[i]) {
				i++
			}
			n = i - n
			sum.plain += (n+2)/3*w[digits] + n*w[digit]
		case k == space, k == newline:
			i = weighBlank(s, i, w, &sum)
		default:
			if next := i + size; next < len(s) {
				if k2, _, _ := classAt(s, next); k2.letter() {
					lead, sign := w[leadPunct], 0
					if r >= utf8.RuneSelf {
						lead, sign = 0, w[k]
					}
					i = weighWord(s, next, sign, lead, w, &sum)
					continue
				}
			}
			i = weighSigns(s, i, w, &sum)
		}
	}
	return sum
}

func asciiDigit(c byte) bool { return c-'0' <= 9 }

// noise is the most that each letter weighs in a word of eight ASCII letters or
// more: two random letters are about one token in every vocabulary. A word in which few
// pairs are odd, such as a German compound, is made of words and weighs less, see
// compound. A further letter never makes it weigh less.
const noise = 55

// weighWord adds the word that begins at i to sum and returns where it ends. An
// upper case letter after a lower case one begins another word. The word includes
// the sign before it, whose weight is sign; lead counts for words in the Latin
// script.
func weighWord[T ~string | ~[]byte](s T, i, sign, lead int, w *weights, sum *weight) int {
	// Counted apart from n: the loop over small letters takes the most time.
	start, uppers, lowers, rares, repeats, odd := i, 0, 0, 0, 0, 0
	n, foreign, scripted := sign, 0, false
	last := byte(0)
word:
	for i < len(s) {
		c := s[i]
		switch k := asciiClass[c]; {
		case k <= rare:
			from := i
			for {
				rares += int(k)
				odd += oddPair(last, c)
				if c == last {
					repeats++
				}
				last = c
				if i++; i == len(s) {
					break
				}
				c = s[i]
				if k = asciiClass[c]; k > rare {
					break
				}
			}
			lowers += i - from
		case k == upper && lowers == 0:
			odd += oddPair(last, c)
			if c == last {
				n += w[repeated] - w[upper]
			}
			last = c
			uppers++
			i++
		case c >= utf8.RuneSelf:
			k, _, size := classAt(s, i)
			if !k.letter() {
				break word
			}
			n += w[k]
			scripted = scripted || k.scripted()
			last = 0
			i += size
			foreign += size - 1
		default:
			break word
		}
	}
	letters := i - start - foreign
	// Of the ASCII letters; n is of the others, of sign and of repeated capitals.
	own := lowers*w[common] + rares*(w[rare]-w[common]) + repeats*(w[repeated]-w[common]) + odd*w[oddPairs]
	// The words of NAMES_LIKE_THIS are in the vocabularies, their abbreviations
	// are not.
	constant := uppers > 3 && odd == 0 && lowers == 0 && (i < len(s) && s[i] == '_' || start > 0 && s[start-1] == '_')
	switch {
	case constant:
		own += (uppers - 1) * w[upper] / 3
	case uppers > 1:
		own += (uppers - 1) * w[upper]
	}
	if letters >= 8 && repeats*2 < letters { // else a run of one letter
		own += min(letters-7, uppers+lowers) * w[long]
	}
	if n := uppers + lowers; n >= 8 {
		own = min(own, n*noise, w[compound]+n*15+max(9*odd-n, 0)*15)
	}
	n += own
	if scripted {
		sum.scripted += max(n, hundred)
		return i
	}
	n += lead
	switch {
	case constant:
	case uppers > 0 && lowers == 0:
		n += w[upperWord]
	case uppers > 1:
		n += w[mixedWord]
	}
	if letters >= 4 && (last == 'a' || last == 'i' || last == 'o' || last == 'u') {
		n += w[endVowel]
	}
	sum.latin += max(n, hundred)
	if i < len(s) && s[i] == '\'' {
		i += contraction(s, i)
	}
	return i
}

// contraction returns the length of the 's, 't, 're, 've, 'm, 'll or 'd that
// begins with the apostrophe at i.
func contraction[T ~string | ~[]byte](s T, i int) int {
	if i+1 >= len(s) {
		return 0
	}
	second := byte(0)
	if i+2 < len(s) {
		second = s[i+2] | 0x20
	}
	switch c := s[i+1] | 0x20; {
	case c == 's', c == 't', c == 'm', c == 'd':
		return 2
	case (c == 'r' || c == 'v') && second == 'e', c == 'l' && second == 'l':
		return 3
	}
	return 0
}

// weighBlank adds the line breaks and blanks at i to sum and returns where they
// end. The last blank belongs to the following word or punctuation.
func weighBlank[T ~string | ~[]byte](s T, i int, w *weights, sum *weight) int {
	blanks, others, breaks := 0, 0, 0 // since the last line break; in breaks all before it
	next, tab := classes, false
	for i < len(s) {
		k, _, size := classAt(s, i)
		if k != newline && k != space {
			next = k
			break
		}
		tab = s[i] != ' '
		switch {
		case k == newline:
			breaks += blanks + others + 1
			blanks, others = 0, 0
		case tab:
			others++
		default:
			blanks++
		}
		i += size
	}
	if breaks > 0 {
		// The longest token for line breaks has sixteen of them.
		sum.plain += (breaks + 15) / 16 * w[newline]
	}
	n := blanks + others
	if n == 0 {
		return i
	}
	alone := n // blanks that are a token of their own
	switch {
	case next.letter(), next > newline && next != classes && !tab:
		alone--
	case next != classes:
		alone--
		sum.plain += w[space] // the last one is a second token
	}
	if alone > 0 {
		// Tokens have 128 blanks at most, or sixteen tabs.
		sum.plain += max((alone-others)/128+others/16, 1) * w[space]
	}
	switch {
	case next.letter():
		return weighWord(s, i, 0, 0, w, sum)
	case next > newline && next != classes && !tab:
		return weighSigns(s, i, w, sum)
	}
	return i
}

// The vocabularies hold the signs that code and prose put together. A longer run
// of different signs is noise: its further signs weigh about the same in each
// vocabulary.
const usualSigns, crowded = 6, 68

// weighSigns adds the run of punctuation and symbols at i, and the line breaks
// right after it, to sum and returns where it ends.
func weighSigns[T ~string | ~[]byte](s T, i int, w *weights, sum *weight) int {
	n, last, before, changes := 0, rune(-1), rune(-1), 0
	for i < len(s) {
		k, r, size := classAt(s, i)
		if k <= newline {
			break
		}
		switch {
		case k == punct && last < 0:
			n += w[signs]
		case k == punct && r == last:
			n += w[punctSame]
		case k == punct:
			if r != before { // else a pattern of two, as |---|---|
				changes++
			}
			before = last
			if changes > usualSigns {
				n += crowded
			} else {
				n += w[punct]
			}
		case k == control && r == last:
			n += w[control] / 2
		case k == control:
			n += w[control]
		case r == last:
			n += w[symbolSame]
		case last < 0 && k < two:
			n += w[symbols] + w[k]
		default:
			n += w[k]
		}
		last = r
		i += size
	}
	for i < len(s) && (s[i] == '\n' || s[i] == '\r') {
		i++
	}
	sum.plain += max(n, hundred)
	return i
}
