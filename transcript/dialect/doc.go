// Package dialect reads the sessions of other programs, and writes sessions of
// some.
//
// A [Dialect] is one of the formats. [Detect] finds the dialect of a file from
// its records; [Dialect.Scan] yields the records of a transcript as entries for
// a fold, and treats torn lines and other damage like transcript.Scan.
// [ReadFolder] finds the sessions in a folder of such a program, even if its
// index lacks them. A [Writer] makes such a folder. Reading changes nothing.
// The log that ZyHive keeps of a channel is recognised only to be refused, see
// [ErrChannelLog].
//
// A reader turns records into entries:
//
//   - Messages, calls and results become transcript.MessageLine, the header
//     transcript.Header without a version, titles given by hand
//     transcript.Meta.
//   - Summaries that replace older messages become transcript.Compaction, whose
//     FirstKept or CoversTo is the ID of an existing entry. Dialects give it as
//     an ID, a number of a line or of a message, or by repeating messages after
//     the summary.
//   - Known records that models do not see become transcript.Custom, which keep
//     their lines. The name is branch for a branch that was left, sidechain for
//     a record outside of the conversation, of a helper for example, repeat for
//     a repeated message, omitted for one that a later record took out of the
//     history, and excluded for one that was never meant for the model. Any
//     other name is the type of the record, such as model_change. Of a tree
//     these are all rows off the path to its leaf.
//   - Rows of Claude Code that hold no words (progress, hooks, errors of the API) are
//     no part of its tree: the next message follows the nearest one above them. A
//     branch begins only where the user went back and typed. Texts that the user
//     typed while a tool ran are messages at their place, once.
//   - A record that is not understood becomes transcript.Unknown.
//
// No record is left out: each is the line of an entry, and every other byte is
// in a transcript.Damage.
//
// The flat forms of mini-claw and claw0 share one reader, which takes the
// records of either program, and variants: result texts under "output" or
// "content", content that is a string or an array of blocks, times that are ISO
// 8601 or Unix seconds, members that are missing. A tool_use block inside of an
// assistant record stays there, even if the call has a record of its own as
// well, as claw0 writes every call.
//
// Records without an ID get "@" and the byte offset of the record in decimal,
// "@113" for example: it stays the same as long as the file is only appended
// to, and differs within a file. So do rows of a tree with the ID of an earlier
// row.
//
// A time without a zone is taken for UTC, and [InZone] gives its moment in another
// zone. An entry whose time cannot be read has no time. Numbers are Unix
// seconds, those beyond 1e11 milliseconds. The order of entries is the order of
// the lines.
//
// The line of an entry is the record as it is in the file. It is not a line of
// the native format: to store the conversation in it, make new entries of the
// bodies, as Import of a store in package session does.
package dialect

// Decisions:
//
// An archive of OpenViking is a chapter: its reader makes the lines of memory.Commit, so
// numbers and usage continue. Its writer buffers a session, because later lines decide
// where a message is archived. TestOpenVikingRoundTrip compares random conversations
// byte for byte.
