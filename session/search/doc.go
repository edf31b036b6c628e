// Package search finds what was said in sessions, compacted and rewound or not, and
// reads around it: [Store] and [Session] for words, [Window], [Page] and [Read] for
// entries, [ByPrefix] for the session that a person means. [RecallTools] makes tools for
// a model of them.
package search
