// Package transcript holds the record of a conversation: its entries, one JSON
// object per line, and the messages and blocks they are made of.
//
// A [Message] is one role-tagged item of the list that is sent to a model, a
// [Block] one element of its content. Their JSON is the shape of the Anthropic
// Messages API, string content included; members and block types that this
// package does not know are kept and written again.
//
// An [Entry] is one line of a transcript. Entries that belong to messages
// carry a [Fragment]; the others say what happened to the conversation
// ([Compaction], [Clip], [Rewind]) or describe it ([Header], [Meta], [Used]
// ...). [NewBatch] turns messages, responses and entries into the lines of one
// append; [Scan] and [ScanBackward] read lines back from an io.ReaderAt and
// report every byte that is not an entry as [Damage]; [Batcher] puts lines
// together into the batches they were written in.
//
// The package does no I/O of its own. Values are plain data: blocks, messages
// and entries are not changed once made, may be shared by goroutines, and
// slices handed in or out are not copied; do not modify them.
//
// The meaning of the lines together, which messages a model is shown, is the
// business of package rebuild. Every record type is listed in docs/FORMAT.md.
package transcript
