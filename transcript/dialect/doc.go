// Package dialect reads the transcripts of other programs.
//
// A [Dialect] is one of the formats. [Detect] tells which one a file is in;
// [Dialect.ScanOptions] makes transcript.Scan read it, with all that Scan does
// about torn lines and other damage. Reading changes nothing.
//
// The flat forms of mini-claw and claw0 share one reader, which takes what
// either program writes, and variants of it: result texts under "output" or
// "content", content that is a string or an array of blocks, times that are
// ISO 8601 or Unix seconds, members that are missing. What it makes of them:
//
//   - A session record becomes a transcript.Header without a version. Its
//     entry ID is the record's id, the session's.
//   - user, assistant, tool_use and tool_result records become a
//     transcript.Fragment. A tool_use block inside of an assistant record
//     stays there, even if the call has a record of its own as well, which is
//     how claw0 writes every call.
//   - A record of any other type becomes transcript.Unknown.
//
// Apart from headers, records have no IDs. Their entries get "@" and the byte
// offset of the record in decimal, "@113" for example: it stays the same as
// long as the file is only appended to, and differs within a file.
//
// A time needs a zone. One without is not taken for UTC: the entry then has no
// time, like one whose time cannot be read. Numbers are Unix seconds, those
// beyond 1e11 milliseconds. The order of entries is that of the lines.
//
// The line of an entry is the record as it is in the file, so that nothing is
// lost. It is not a line of the native format: to store the conversation in
// it, make new entries of the bodies.
package dialect
