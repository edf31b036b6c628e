package driver

// Watcher is a [Driver] that can say when sessions change, so that a follower
// need not look again and again.
type Watcher interface {
	// Watch calls changed after lines were appended to a session, and after it
	// was created, replaced or deleted, by any process. A zero ref watches all
	// sessions. Changed receives the session, or a zero Ref if several may have
	// changed. One call may stand for many changes, and some calls are about
	// nothing. It must return at once and must not use the driver.
	//
	// A call with an error is the last one: the driver was closed, which
	// matches [ErrClosed], or cannot watch any longer. The error of Watch says
	// that it cannot watch at all, [errors.ErrUnsupported] for example. In both
	// cases the caller may look from time to time.
	//
	// After stop has returned, changed is not called any more. Nothing runs for
	// a driver that nobody watches.
	Watch(ref Ref, changed func(ref Ref, err error)) (stop func(), err error)
}
