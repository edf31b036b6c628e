package driver

// Once calls do once with each session that refs name, in order, and returns its
// error at every place of the session. It is for a Delete that takes one
// session at a time.
func Once(refs []Ref, do func(Ref) error) []error {
	errs := make([]error, len(refs))
	done := make(map[Ref]error, len(refs))
	for i, ref := range refs {
		if _, again := done[ref]; !again {
			done[ref] = do(ref)
		}
		errs[i] = done[ref]
	}
	return errs
}
