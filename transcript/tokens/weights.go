package tokens

const hundred = 100

// The weights other than of classes of characters.
const (
	leadPunct  = int(classes) + iota // a word with a sign before it
	upperWord                        // a word in capitals
	mixedWord                        // capitals and then small letters
	repeated                         // a letter like the one before
	oddPairs                         // two letters that words seldom have side by side
	endVowel                         // four letters or more that end in a, i, o or u: seldom English
	long                             // the eighth letter of a word and each further
	compound                         // the most that a word without odd pairs weighs, in addition to 15 a letter
	digits                           // up to three digits
	signs                            // a run that begins with ASCII punctuation
	punctSame                        // a sign like the one before
	symbols                          // a run that begins with another symbol
	symbolSame                       // a symbol like the one before

	allWeights
)

// weights are hundredths of a token for each letter, sign or piece.
//
// Each table was fitted to 290 texts of 51 classes (prose in 25 languages, code, logs,
// JSON, base64 ...) whose tokens were counted with the vocabulary it is named after,
// so that the sum over a text is right. Ten random strings took part: words, letters
// and digits, with counts of o200k for gemini and deepseek as well, and of cl100k for
// llama, because all of them treat such strings alike; and for o200k and cl100k Han
// and Hangul. The mean absolute error of one text, in five-fold cross-validation:
// o200k 3.8 %, cl100k 4.1, gemini 4.0, deepseek 4.6, llama 3.8 %.
//
// Not fitted: the letters and symbols of two to four tokens, which follow from the
// bytes; control, latinB and punctSame, which are measured on random strings;
// indicX, from the bytes per token of Bengali and Tamil; and hangulRare, which all
// but cl100k share with o200k.
//
// The weights of gemini for the scripts of India, for Thai, Georgian and Korean follow
// the vocabulary of Gemma 3. llama4 was fitted to the same texts and to declarations in
// 24 languages. The mean absolute error over them is 4 to 5 % for each table and 5.5 %
// for qwen3.
type weights [allWeights]int

var o200k = weights{
	common: 4, rare: 80, upper: 44, latin: 86, latinA: 81, latinB: 175, latinV: 0,
	cyrillic: 27, cyrillicX: 174, greek: 41, arabic: 38, arabicX: 38, hebrew: 54, indic: 37, indicX: 39, southeast: 42, alphabet: 39,
	han: 79, hanRare: 207, kana: 67, hangul: 70, hangulRare: 234, twoLetter: 200, threeLetter: 300, fourLetter: 400,
	digit: 0, space: 100, newline: 100, punct: 22, control: 100,
	symbol: 64, cjkPunct: 92, emoji: 204, joiner: 106, two: 200, three: 300, four: 400,
	leadPunct: 69, upperWord: 0, mixedWord: 66, repeated: 12, oddPairs: 70, endVowel: 70, long: 17, compound: 230,
	digits: 100, signs: 21, punctSame: 3, symbols: 72, symbolSame: 14,
}

var cl100k = weights{
	common: 0, rare: 73, upper: 25, latin: 208, latinA: 151, latinB: 175, latinV: 140,
	cyrillic: 44, cyrillicX: 340, greek: 105, arabic: 84, arabicX: 84, hebrew: 123, indic: 140, indicX: 140, southeast: 94, alphabet: 210,
	han: 101, hanRare: 253, kana: 98, hangul: 109, hangulRare: 268, twoLetter: 200, threeLetter: 300, fourLetter: 400,
	digit: 0, space: 98, newline: 120, punct: 20, control: 100,
	symbol: 122, cjkPunct: 147, emoji: 299, joiner: 200, two: 200, three: 300, four: 400,
	leadPunct: 70, upperWord: 68, mixedWord: 107, repeated: 13, oddPairs: 88, endVowel: 103, long: 32, compound: 400,
	digits: 102, signs: 26, punctSame: 3, symbols: 21, symbolSame: 3,
}

var gemini = weights{
	common: 7, rare: 64, upper: 30, latin: 72, latinA: 87, latinB: 175, latinV: 0,
	cyrillic: 27, cyrillicX: 148, greek: 45, arabic: 41, arabicX: 41, hebrew: 58, indic: 31, indicX: 29, southeast: 34, alphabet: 50,
	han: 66, hanRare: 174, kana: 40, hangul: 73, hangulRare: 234, twoLetter: 200, threeLetter: 300, fourLetter: 400,
	digit: 100, space: 122, newline: 101, punct: 0, control: 100,
	symbol: 0, cjkPunct: 75, emoji: 136, joiner: 34, two: 200, three: 300, four: 400,
	leadPunct: 167, upperWord: 47, mixedWord: 59, repeated: 9, oddPairs: 80, endVowel: 56, long: 13, compound: 230,
	digits: 0, signs: 21, punctSame: 3, symbols: 129, symbolSame: 12,
}

var deepseek = weights{
	common: 7, rare: 57, upper: 30, latin: 167, latinA: 186, latinB: 175, latinV: 85,
	cyrillic: 31, cyrillicX: 283, greek: 53, arabic: 47, arabicX: 47, hebrew: 63, indic: 67, indicX: 60, southeast: 38, alphabet: 81,
	han: 59, hanRare: 250, kana: 63, hangul: 82, hangulRare: 234, twoLetter: 200, threeLetter: 300, fourLetter: 400,
	digit: 0, space: 90, newline: 129, punct: 12, control: 100,
	symbol: 61, cjkPunct: 112, emoji: 222, joiner: 73, two: 200, three: 300, four: 400,
	leadPunct: 115, upperWord: 78, mixedWord: 76, repeated: 13, oddPairs: 83, endVowel: 88, long: 21, compound: 320,
	digits: 101, signs: 27, punctSame: 3, symbols: 77, symbolSame: 21,
}

var llama = weights{
	common: 0, rare: 81, upper: 22, latin: 68, latinA: 41, latinB: 175, latinV: 0,
	cyrillic: 32, cyrillicX: 79, greek: 43, arabic: 43, arabicX: 43, hebrew: 124, indic: 68, indicX: 138, southeast: 50, alphabet: 211,
	han: 79, hanRare: 300, kana: 61, hangul: 76, hangulRare: 234, twoLetter: 200, threeLetter: 300, fourLetter: 400,
	digit: 0, space: 100, newline: 92, punct: 17, control: 100,
	symbol: 41, cjkPunct: 132, emoji: 334, joiner: 92, two: 200, three: 300, four: 400,
	leadPunct: 45, upperWord: 102, mixedWord: 119, repeated: 9, oddPairs: 78, endVowel: 142, long: 39, compound: 400,
	digits: 104, signs: 22, punctSame: 3, symbols: 0, symbolSame: 28,
}

// cautious was fitted to values half way between the mean and the largest of the
// counts of o200k, gemini, deepseek and llama. Over the 290 texts it is off by 14 %
// of each of the four counts, and by 3.4 % of the value that it aims at.
var cautious = weights{
	common: 7, rare: 62, upper: 40, latin: 114, latinA: 137, latinB: 175, latinV: 20,
	cyrillic: 30, cyrillicX: 222, greek: 49, arabic: 44, arabicX: 44, hebrew: 98, indic: 66, indicX: 106, southeast: 45, alphabet: 156,
	han: 75, hanRare: 282, kana: 59, hangul: 81, hangulRare: 234, twoLetter: 200, threeLetter: 300, fourLetter: 400,
	digit: 63, space: 107, newline: 110, punct: 11, control: 100,
	symbol: 71, cjkPunct: 86, emoji: 266, joiner: 101, two: 200, three: 300, four: 400,
	leadPunct: 137, upperWord: 8, mixedWord: 85, repeated: 10, oddPairs: 80, endVowel: 87, long: 22, compound: 330,
	digits: 38, signs: 21, punctSame: 3, symbols: 44, symbolSame: 17,
}

// Qwen's vocabulary is near cl100k, and Mistral's near o200k. They differ in digits, each
// of which is a token, and in letters outside of ASCII.
var qwen3 = weights{
	common: 0, rare: 73, upper: 25, latin: 145, latinA: 98, latinB: 175, latinV: 0,
	cyrillic: 31, cyrillicX: 320, greek: 107, arabic: 46, arabicX: 172, hebrew: 52, indic: 114, indicX: 125, southeast: 57, alphabet: 117,
	han: 66, hanRare: 232, kana: 62, hangul: 79, hangulRare: 234, twoLetter: 200, threeLetter: 300, fourLetter: 400,
	digit: 100, space: 98, newline: 120, punct: 20, control: 100,
	symbol: 100, cjkPunct: 118, emoji: 180, joiner: 107, two: 200, three: 300, four: 400,
	leadPunct: 70, upperWord: 68, mixedWord: 107, repeated: 13, oddPairs: 88, endVowel: 103, long: 32, compound: 400,
	digits: 0, signs: 26, punctSame: 3, symbols: 50, symbolSame: 3,
}

var tekken = weights{
	common: 4, rare: 84, upper: 54, latin: 86, latinA: 81, latinB: 175, latinV: 18,
	cyrillic: 29, cyrillicX: 184, greek: 42, arabic: 37, arabicX: 37, hebrew: 58, indic: 39, indicX: 48, southeast: 53, alphabet: 50,
	han: 96, hanRare: 250, kana: 67, hangul: 70, hangulRare: 234, twoLetter: 200, threeLetter: 300, fourLetter: 400,
	digit: 100, space: 104, newline: 104, punct: 24, control: 100,
	symbol: 90, cjkPunct: 105, emoji: 380, joiner: 200, two: 200, three: 300, four: 400,
	leadPunct: 72, upperWord: 0, mixedWord: 70, repeated: 12, oddPairs: 84, endVowel: 72, long: 18, compound: 250,
	digits: 0, signs: 23, punctSame: 3, symbols: 90, symbolSame: 20,
}

var llama4 = weights{
	common: 0, rare: 55, upper: 46, latin: 93, latinA: 90, latinB: 175, latinV: 0,
	cyrillic: 20, cyrillicX: 170, greek: 38, arabic: 40, arabicX: 40, hebrew: 57, indic: 38, indicX: 57, southeast: 32, alphabet: 45,
	han: 61, hanRare: 246, kana: 43, hangul: 58, hangulRare: 234, twoLetter: 200, threeLetter: 300, fourLetter: 400,
	digit: 6, space: 100, newline: 169, punct: 30, control: 100,
	symbol: 47, cjkPunct: 83, emoji: 262, joiner: 34, two: 200, three: 300, four: 400,
	leadPunct: 86, upperWord: 3, mixedWord: 76, repeated: 69, oddPairs: 69, endVowel: 29, long: 26, compound: 114,
	digits: 88, signs: 53, punctSame: 3, symbols: 39, symbolSame: 20,
}
