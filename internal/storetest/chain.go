package storetest

// Chain calls functions until one fails, none if err is not nil.
func Chain(err error, fs ...func() error) error {
	for i := 0; err == nil && i < len(fs); i++ {
		err = fs[i]()
	}
	return err
}
