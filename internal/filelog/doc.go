// Package filelog is a durable, append-only log of lines in one file.
//
// A line is any run of bytes that ends in '\n'; the package does not interpret
// its content. [Create] makes a log, [Open] opens one, and [Log.Append] adds
// lines to its end as one unit. Any number of goroutines and processes may
// append to one file at once: a kernel lock on the file itself, which ends with
// every crash, orders them. Reading needs no lock.
//
// # Guarantees
//
// When Append returns nil, its lines are in the file, whole, next to each
// other and on lines of their own, and they survive what the [SyncPolicy]
// promises. When a write fails, the file is as it was before the call, and the
// next Append starts afresh: a full disk that gets room needs no restart.
//
// A kill or a power cut can leave a last line without its '\n'. The next
// Append ends that line before it does anything else, so that
// no record is ever glued to a fragment. The bytes stay where they are and are
// reported as a [Tail]. No byte that an earlier call committed is changed or
// removed, ever.
//
// # Limits
//
// A program that writes to the file without taking the lock is not kept out.
// The lock is not trusted across machines: see [CheckFS]. Windows and the
// systems other than Linux are compiled and vetted, not tested.
//
// # Errors
//
// Every error but [*driver.NotDurableError] and the error of a caller's own function
// is an [*Error], which names the file and the way out. The states worth
// branching on are found with [errors.Is] and [errors.AsType]:
//
//	error                    was anything written?        again?
//	ErrBusy                  no                           yes, when the holder is done
//	ErrReplaced              no                           after opening the name anew
//	driver.ErrReadOnly       no                           not with this Log
//	ErrClosed                no                           not with this Log
//	driver.ErrFragment       a part, left in the file     yes; readers see the part too
//	driver.ErrNetworkFS      no                           elsewhere, or with one process
//	*driver.NotDurableError  yes, unless Refused          after Recover; if not Refused
//	                                                      the outcome is unknown
//	fs.ErrExist              no                           under another name
//	fs.ErrNotExist           no                           after creating it
//	the context's            no                           yes
//	any other                no                           yes, once its cause is gone
//
// # A failed sync
//
// The kernel reports a failed sync once and calls the next one good, although the bytes
// may never have reached the disk. After a NotDurableError a Log therefore acknowledges
// nothing more until [Log.Recover] has copied the file to new blocks. Until then the file
// bears a mark, which outlives the process: the next Log that appends to the file, or
// flushes it, makes the copy itself. Logs of the old file then fail with ErrReplaced,
// after they have compared their acknowledged and unsynced lines with the copy. To
// compare, they wait for the copy's append lock without a limit, whatever the context:
// only the copy shows the fate of the lines.
//
// The mark is the limit: if a process is killed between the failure and the mark, or the
// disk refuses the mark, other processes call the file sound. A Log that opens the file at
// that very moment may not see the mark yet. Even then no Log wrongly acknowledges its own
// lines; it may call lines durable that their writer never did.
//
// The mark is the sticky bit of the file; on Windows it is an empty file of that
// name with ".suspect" appended.
package filelog

// Decisions:
//
// The mark of a failed sync is the sticky bit: it needs no name and no space on a
// failing disk, survives the process, and shows in the lookup that each append makes.
// The copy goes through memory, because file systems may share extents between files.
