// Package tokens estimates how many tokens a model will see.
//
// A [Counter] counts a whole prompt: system text, tools and messages. The zero [Estimator]
// needs no vocabulary: it cuts a text into pieces like a tokenizer does, words, digits,
// punctuation and blanks, and weighs the content of each. The default weights were fitted
// to the o200k vocabulary, and the weights of a [Family] to the vocabulary of its models.
// Single texts of a few kilobytes are off by some four percent on average, texts in Swedish
// or traditional Chinese by nine, a conversation of many texts by about three at most.
// Random letters, digits, signs, Chinese characters and Korean syllables are within a
// tenth. The models of Claude, whose vocabulary is not public, are estimated by factors,
// see [Family]: usage reported by the provider is better, and [Estimator.Factor] takes it
// into account.
//
// An estimate is not a bound. Random letters of other scripts, Cyrillic, Arabic or Thai
// for example, have up to three times as many tokens as estimated.
package tokens
