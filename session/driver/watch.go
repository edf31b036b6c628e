package driver

// Watcher is a [Driver] that reports changes of sessions, so that followers
// need not poll.
type Watcher interface {
	// Watch calls changed after lines were appended to a session, and after it
	// was created, replaced or deleted, by any process. A zero ref watches all
	// sessions. Changed receives the session, or a zero Ref if several may have
	// changed. One call may cover many changes, and some calls have no cause.
	// It must return at once and must not use the driver.
	//
	// A call with an error is the last one: the driver was closed, which
	// matches [ErrClosed], or cannot watch any longer. An error of Watch, such
	// as [errors.ErrUnsupported], means that the driver cannot watch. In both
	// cases the caller may poll.
	//
	// After stop has returned, changed is not called any more. A driver without
	// watches runs nothing for them.
	Watch(ref Ref, changed func(ref Ref, err error)) (stop func(), err error)
}
