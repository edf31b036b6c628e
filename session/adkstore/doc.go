// Package adkstore keeps the sessions of the Agent Development Kit for Go (ADK) in a
// Convolog store. It is a module of its own, on google.golang.org/adk/v2.
//
//	store, err := session.Open(dir, nil)
//	r, err := runner.New(runner.Config{AppName: "travel", Agent: agent, SessionService: adkstore.New(store)})
//
// # Mapping
//
// An app is an agent of the store, and a user an owner. The key of a session is
// {Agent: app, Channel: "adk", Peer: session ID}, and its ID is made from its user and its
// session ID, see session.ForeignID. Each event is one batch: a message or an answer with the
// event as application data, and values for its state. So search, titles, export and
// erase work on these sessions, and [transcript.Entry].App holds the complete event. An
// event that is not a message is a custom entry.
//
// State without a prefix belongs to the session, as listed values: a list reads
// the transcript only if the state of a session exceeds 4 KiB. State with the prefix "user:" or
// "app:" is in a session of its own, of the user or of no owner, with the channel
// "adk-state". An erase of the user reaches it, and retention leaves it. State with the prefix
// "temp:" is not stored.
//
// # Guarantees
//
// When AppendEvent returns nil, the event and its session state are as durable as the
// store promises, and a kill leaves both or neither. Events keep the order of their
// appends, whatever their timestamps are. Several handles and processes may append to one
// session at a time: none gets an error because of the others.
//
// A second append with the ID and the content of an earlier event writes nothing. With
// other content it fails. An event without an ID is always appended.
//
// Shared state is stored before its event. A kill between the two leaves the shared state
// without the event. A retry of the event completes it, and no late retry overwrites newer
// shared state.
//
// # Limits
//
// Get returns all events since the first: a compaction, a rewind or a fork of Convolog
// changes no event. The session of ADK that a call returns is a copy in memory, and shows
// later appends only of its own. Names must be valid in the store: an app must not begin with
// '_', a key has at most 1,024 bytes, and a user at most 512.
package adkstore
