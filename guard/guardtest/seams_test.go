package guardtest

// Raw answers with status 200 and an unchanged body.
var Raw = raw
