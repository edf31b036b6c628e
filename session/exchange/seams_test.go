package exchange

// ImportKey is the default of [ImportOptions].Key.
var ImportKey = importKey
