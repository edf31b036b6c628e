// Package sessiontest checks storage drivers: whether a [driver.Driver] keeps
// the promises of its interface.
//
// Every sentence of the interface that can be tested belongs to a rule. [TestDriver]
// checks all rules, each on a storage of its own, and a failure quotes the
// sentences of the broken rule, with everything that was seen:
//
//	func TestDriver(t *testing.T) {
//		sessiontest.TestDriver(t, func(t *testing.T) sessiontest.Storage {
//			d := memdriver.New(nil)
//			return sessiontest.Storage{
//				Open:   func() (driver.Driver, error) { return memdriver.Reopen(d), nil },
//				Shared: true,
//			}
//		})
//	}
//
// # Requirements on a driver
//
// Run it under the race detector. Durability is not checked: a driver may be
// opened with its fastest policy. The largest session has about 10,000 lines,
// the longest line 1 MiB.
//
// A driver whose system has no turn lock returns an error that matches
// [errors.ErrUnsupported] from LockTurn; the rules about it are then skipped. So
// are rules about [driver.Watcher] and [driver.Rewriter] that the driver does not
// implement.
//
// # Beyond the checks
//
// Crashes, failing writes and syncs, and damaged lines are not checked: a
// driver needs its own tests for the failures of its storage. The driver
// decides whether a loop over a Scan sees the appends made during the loop.
package sessiontest
