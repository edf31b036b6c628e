// Package transcript holds the record of a conversation: its entries, one JSON
// object per line, and the messages and blocks they are made of.
//
// Most programs need [UserText], [AssistantText] and [ToolResult], which make messages of
// [TextBlock] and other blocks; [Message.ToolCalls], which returns each [ToolCallBlock];
// and a client's [Request] with [Tool] definitions and [Response] with [Usage] and
// [StopReason]. A session appends each [Item] of these.
//
// A [Message] is one item with a role in the list that a model receives, and a [Block]
// one element of its content. Their JSON is the shape of the Anthropic Messages API,
// string content included. Unknown members and block types are kept and written again.
//
// An [Entry] is one line of a transcript. Entries of messages contain a [MessageLine];
// the others change the conversation ([Compaction], [Clip], [Hide], [Rewind]) or describe it
// ([Header], [Meta], [Used] ...). [NewBatch] turns items into the lines of one append,
// [NewBatchWithChecksums] ends each with a checksum. [Scan] and [ScanBackward] read lines
// from an io.ReaderAt and report all other bytes as [Damage]. [Batcher] groups lines into
// the batches they were written in.
//
// The package does no I/O of its own. Values are plain data: messages, blocks and
// entries never change once made and may be shared by goroutines. Slices passed in or
// out are not copied; do not modify them.
//
// Package rebuild decides which messages a model is shown. docs/FORMAT.md lists entry types.
package transcript

// Decisions:
//
// One kind of message line: the four line types of messages decode into a MessageLine, so
// the fold and the dialects handle one form.
//
// A checksum is the last member of its line. It can be verified without parsing. A line
// that fails it is reported as damage, and its entry is kept if it parses: dropping a
// message for one flipped letter loses more than showing it.
//
// Message.Origins names the entry and the model of each block. Renderers use it to
// return opaque blocks to their maker alone. A history reorders lines (results move to
// their calls), so Origin.Batch marks where both orders agree; compaction cuts there.
