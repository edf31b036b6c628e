package exchange

// ImportKey is the default of [ImportOptions].Key.
var ImportKey = importKey

// Programs are the dialects that [Find] tries.
var Programs = programs
