package memory

import "context"

// A Storage holds the files of a [Store]. [Folder] is the usual one. Names are
// slash-separated, relative and clean, of at most 255 bytes an element; they never
// leave the storage. A Storage is safe for several goroutines, and for as many
// processes as use the same files. Errors name the file; a name that is not there
// matches [io/fs.ErrNotExist].
type Storage interface {
	// List returns the files below a folder, at any depth, in the order of their
	// names. A folder that is not there has none.
	List(ctx context.Context, folder string) ([]File, error)
	// Read returns the content of a file, all of it.
	Read(ctx context.Context, name string) ([]byte, error)
	// Create makes a file and the folders that it is in. A name that is in use
	// matches [io/fs.ErrExist]. When the error is nil the file is on stable storage.
	// A kill leaves all of it or nothing.
	Create(ctx context.Context, name string, data []byte) error
	// Write is Create for a name that may be in use. Its content is replaced at once.
	Write(ctx context.Context, name string, data []byte) error
	// Remove removes a file, or a folder and all that is in it, and the folders above
	// that become empty. A name that is not there is no error. When the error is nil,
	// no copy of the content is left in the storage, and the name does not come back
	// after a power cut.
	Remove(ctx context.Context, name string) error
	// Lock waits for the lock of a folder that need not exist, and takes it. The
	// lock is exclusive between all goroutines and processes. It ends with unlock or
	// with the process, however that ends. Two folders may share a lock if the first
	// elements of their names are equal. Lock removes what killed writers have left
	// in the folder.
	Lock(ctx context.Context, folder string) (unlock func(), err error)
}

// A File is one of a [Storage].
type File struct {
	Name string
	// Version changes with the content.
	Version string
}
