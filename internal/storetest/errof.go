package storetest

// ErrOf returns the error of a call whose result does not matter.
func ErrOf[T any](_ T, err error) error { return err }
