package storetest

import "context"

// Background is the context of work that has no test of its own, such as that of a child
// process, or that goes on when its test has ended.
var Background = context.Background()
