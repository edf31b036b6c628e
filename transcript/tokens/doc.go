// Package tokens estimates how many tokens a model will see.
//
// A [Counter] counts a whole prompt: system text, tools and messages. The zero
// [Estimator] is one that needs no vocabulary: it cuts a text into pieces like a
// tokenizer does, words, digits, punctuation and blanks, and weighs what is in
// each. The weights were fitted to the o200k vocabulary; those of a [Family] to
// the vocabulary of its models. Single texts of a few kilobytes are off by some
// four percent on average, texts in Swedish or traditional Chinese by ten, a
// conversation of many texts by about three at most. The models of Claude, whose
// vocabulary is not public, are estimated by factors, see [Family]: what a provider reports
// about its own requests is better, and [Estimator.Factor] takes it.
//
// An estimate is not a bound. Random words of letters alone have up to 70 % more
// tokens than estimated, random Chinese characters two and random Korean syllables
// three times as many.
package tokens
