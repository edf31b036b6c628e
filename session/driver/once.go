package driver

// Once calls do in order, once for each session in refs, and returns its error
// at each index of the session. It is for a Delete that takes one session at a
// time.
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
