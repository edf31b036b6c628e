package memory

import "context"

// A Storage holds the files of a [Store]. [Folder] is the usual one. Names are
// slash-separated, relative and clean, of at most 255 bytes an element; they never
// leave the storage. A Storage is safe for several goroutines, and for all
// processes that use the same files. Errors name the file; the error for a missing
// name matches [io/fs.ErrNotExist].
type Storage interface {
	// List returns the files below a folder, at any depth, in the order of their
	// names. A missing folder yields none.
	List(ctx context.Context, folder string) ([]File, error)
	// Read returns the whole content of a file.
	Read(ctx context.Context, name string) ([]byte, error)
	// Create makes a file and the folders above it. If the name is in use the error
	// matches [io/fs.ErrExist]. When the error is nil the file is on stable storage.
	// A kill leaves all of it or nothing.
	Create(ctx context.Context, name string, data []byte) error
	// Write is Create for a name that may be in use. It replaces the content atomically.
	Write(ctx context.Context, name string, data []byte) error
	// Remove removes a file, or a folder with its content, and the folders above that
	// become empty. A missing name is not an error. When the error is nil, no copy of
	// the content is left in the storage, and the name does not come back after a
	// power cut.
	Remove(ctx context.Context, name string) error
	// Lock waits for the lock of a folder that need not exist, and takes it. The
	// lock is exclusive between all goroutines and processes. It ends with unlock,
	// or with the process, even if killed. Two folders may share a lock if the
	// first elements of their names are equal. Lock removes leftovers of killed
	// writers from the folder.
	Lock(ctx context.Context, folder string) (unlock func(), err error)
}

// A File is a file of a [Storage].
type File struct {
	Name string
	// Version changes with the content.
	Version string
}
