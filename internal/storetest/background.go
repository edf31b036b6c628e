package storetest

import "context"

// Background is the context of work outside of a test, such as work in a child process, and
// of work that continues after its test.
var Background = context.Background()
