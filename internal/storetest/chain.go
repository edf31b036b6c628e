package storetest

// Chain calls functions until one fails. If err is not nil, it calls no function.
func Chain(err error, fs ...func() error) error {
	for i := 0; err == nil && i < len(fs); i++ {
		err = fs[i]()
	}
	return err
}
