package storetest

import "context"

// Background is the context of work without a test of its own, as in a child process, or
// that continues after its test.
var Background = context.Background()
