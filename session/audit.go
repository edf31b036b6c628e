package session

import "context"

// An Action is a change, a hand-over or a refusal of whole sessions, for [Options].Audit.
// It holds no words of a conversation.
type Action struct {
	// Name is one of these: archive, trash, restore and delete, of one session; owner, if
	// the Store itself makes a session for an owner; erase and retention, after the
	// sessions that they delete or archive; export and import; refuse, by a server.
	Name    string `json:"action"`
	Session Ref    `json:"session,omitzero"` // zero if the action is about several or none
	Owner   string `json:"owner,omitempty"`  // who acts: the owner of the [Store.Scope]; empty for the Store itself
	Err     error  `json:"-"`                // nil if it was done
}

// Audit reports an action to [Options].Audit. Features and servers call it; an application
// calls it for actions of its own.
func (st *Store) Audit(ctx context.Context, a Action) {
	if st.opts.Audit == nil {
		return
	}
	if st.owner != "" {
		a.Owner = st.owner
	}
	st.opts.Audit(ctx, a)
}
