// Package tokens estimates how many tokens a model will see.
//
// A [Counter] counts a whole prompt: system text, tools and messages. The zero
// [Estimator] is one that needs no vocabulary: it goes over the text once and
// gives every character the weight of its class (lower case, digit, Han,
// emoji ...). The weights were fitted to the o200k vocabulary. On prose, code,
// logs and JSON a single text is off by some ten percent, a conversation of
// many texts by much less; other vocabularies differ by a factor, which what
// a provider reports about its own requests corrects.
//
// An estimate is not a bound. Random letters, base64 and long runs of one
// character are estimated badly, in both directions.
package tokens
