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
//   - Rows of Claude Code that hold no words (progress, hooks, errors of the API) do
//     not belong to its tree: the next message follows the nearest one above them. A
//     branch begins only where the user went back and typed. Texts that the user
//     typed while a tool ran are messages at their place, once. A helper whose rows are
//     in the file of its session is a session of its own in a [Folder], and set aside in
//     the other one. It is linked to the call with its first text as the prompt.
//   - A record that is not understood becomes transcript.Unknown.
//
// No record is left out: each is the line of an entry, and every other byte is
// in a transcript.Damage.
//
// Exports of ChatGPT and claude.ai, the output of opencode export and older chats of
// Gemini CLI are JSON documents. Each conversation in one is a session, and each of its
// messages a record, whose line is the message without line breaks, and without the
// list of its children. The line of the header holds the other members. A title is a
// record of its own. The records of a tree are in the order of the conversation. A later
// export may add details to a message, so the Idem of its entry is the message's ID.
// Damage to a message leaves the messages around it; a document that ends early keeps
// the messages before its end, except that a cut between two conversations goes unseen.
//
// The conversation of a Codex rollout consists of the items that its model received.
// Events that show them again are repeats. Texts that Codex itself writes to its model are
// asides with the names developer and context. Its compactions whose summary only the
// provider can read are asides as well, so the messages before them stay. Images of a
// ChatGPT export are files of their own. In a [Folder] they are read if they are below
// the folder of the document; otherwise texts name them.
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
// A [Writer] writes the forms of mini-claw, claw0, ZyHive and OpenViking, and these
// three, whose rows are messages. A history that is written and read is the same, except
// for the following:
//
//   - Pi: times are to the millisecond, in all three. The API of an answer has pi's
//     name, unless it is Anthropic's.
//   - ClaudeCode: IDs of rows are UUIDs, and IDs of calls have only the characters that
//     the API takes. The API of every answer is Anthropic's; other reasoning is lost. A
//     summary that replaces nothing becomes a text of the user.
//   - Codex: the API of every answer is OpenAI's Responses; other reasoning is lost, and
//     so are the mark of a failed call, stop reasons and IDs of requests. The input of a
//     call is an object. Answers without a message between them become one. A
//     compaction precedes the messages that it keeps.
//
// Sessions of one ID and several agents get files of several IDs in Claude Code and Codex.
//
// A helper is written as a session. Losses count the content that is lost. Of the items
// that a compaction carries, rollouts hold the texts of the user, and exchange.Export puts
// all of them into the summary. A session works in the folder "/" unless [Session.Dir]
// names another one: Claude Code and pi look for the file in a folder of that name.
//
// The line of an entry is the record as it is in a file of lines. It is not a line of
// the native format: to store the conversation in it, make new entries of the
// bodies, as exchange.Import does.
package dialect

// Decisions:
//
// An archive of OpenViking is a chapter: its reader makes the lines of memory.Commit, so
// numbers and usage continue. Its writer buffers a session, because later lines decide
// where a message is archived. TestOpenVikingRoundTrip compares random conversations
// byte for byte.
