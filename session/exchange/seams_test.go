package exchange

// Seams for tests.
var ImportKey = importKey
