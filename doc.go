// Package convolog is the root of a library that makes agent conversations
// survive restarts, crashes, full disks, a second process, context overflow
// and years of growth. It holds no code; the packages below it do.
//
// An application starts with session: a Store opens a folder, a Key names a
// conversation, and a Session appends to it and gives its history back. The
// parts of a Session can be used on their own:
//
//   - transcript holds entries, messages and the codec of the append-only
//     record, one JSON object per line, which is the only source of truth.
//     Below it, tokens estimates sizes, filelog keeps the record on disk and
//     dialect reads and writes the files of other programs.
//   - rebuild folds entries into the history a model is shown, and reports
//     every repair. rebuild/wire renders that history for each provider and
//     reads the answers.
//   - compact plans what of a history to summarise, and has it summarised.
//   - guard carries a call to a model through the overflow of its context
//     window. guard/guardtest is a strict model for tests.
//
// Imports point one way: transcript <- rebuild <- compact, guard <- session.
// Package session/exchange, above all of them, brings sessions of other programs
// in and out. There is no agent loop and no provider SDK here; complete programs are in
// the folder examples, and docs/README.md lists a page for each task.
package convolog
