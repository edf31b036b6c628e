package serve

import (
	"errors"
	"slices"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

var ownRoutes = []Route{
	onStore(Route{Method: "GET", Path: ownStore + "/sessions", Summary: "List sessions."}, (*Request).ownList),
	onStore(Route{Method: "POST", Path: ownStore + "/sessions", Summary: "Create a session."}, (*Request).ownCreate),
	onStore(Route{Method: "GET", Path: ownStore + "/usage", Summary: "Sum up the usage of models."}, (*Request).ownUsage),
	onStore(Route{Method: "GET", Path: ownStore + "/changes", Summary: "Follow changed sessions.", Media: mediaEvents}, (*Request).ownChanges),
	onStore(Route{Method: "POST", Path: ownStore + "/search", Summary: "Search conversations.", Media: mediaLines}, (*Request).ownSearch),
	onStore(Route{Method: "POST", Path: ownStore + "/retention", Summary: "Plan the archiving or deletion of sessions.", Admin: true}, (*Request).ownPlan),
	onStore(Route{Method: "POST", Path: ownStore + "/retention/apply", Audit: "retention", Summary: "Carry out a retention plan.", Admin: true}, (*Request).ownApply),
	onStore(Route{Method: "POST", Path: ownStore + "/erase", Summary: "Plan an erase.", Admin: true}, (*Request).ownPlanErase),
	onStore(Route{Method: "POST", Path: ownStore + "/erase/apply", Audit: "erase", Summary: "Carry out an erase plan.", Admin: true}, (*Request).ownErase),
	{Method: "POST", Path: ownStore + "/import", Audit: "import", Summary: "Import a transcript of this or another program.", Admin: true, In: lines{}, Out: []ownImported{}, Do: (*Request).ownImport},
	onStore(Route{Method: "GET", Path: ownStore + "/channels", Summary: "List the logs of channels.", Admin: true}, (*Request).channels),
	onStore(Route{Method: "GET", Path: ownStore + "/channels/messages", Summary: "Read a page of the log of a channel.", Admin: true}, (*Request).channelMessages),
	onStore(Route{Method: "GET", Path: ownStore + "/removed", Summary: "List deleted sessions, with the rule and the usage."}, (*Request).ownRemoved),

	onSession(Route{Method: "GET", Path: ownSession, Summary: "Describe a session."}, (*Request).ownGet),
	onSession(Route{Method: "PATCH", Path: ownSession, Summary: "Change title, labels, lifetime or pin."}, (*Request).ownMeta),
	onRef(Route{Method: "DELETE", Path: ownSession, Audit: "delete", Summary: "Delete a session, even if it is in the trash."}, (*Request).ownDelete),
	onSession(Route{Method: "GET", Path: ownSession + "/entries", Summary: "Read a page of the conversation."}, (*Request).ownPage),
	onSession(Route{Method: "POST", Path: ownSession + "/entries", Summary: "Append a message."}, (*Request).ownAppend),
	onSession(Route{Method: "POST", Path: ownSession + "/queue", Summary: "Send a message to the agent.", Answers: true}, (*Request).ownQueue),
	onSession(Route{Method: "POST", Path: ownSession + "/commit", Summary: "Close a chapter of the messages."}, (*Request).ownCommit),
	onSession(Route{Method: "GET", Path: ownSession + "/entries/{entry}", Summary: "Read the entries around an entry."}, (*Request).ownWindow),
	onSession(Route{Method: "GET", Path: ownSession + "/follow", Summary: "Follow the entries.", Media: mediaEvents}, (*Request).ownFollow),
	onSession(Route{Method: "GET", Path: ownSession + "/context", Summary: "Describe the content of the context window."}, (*Request).fills),
	onSession(Route{Method: "GET", Path: ownSession + "/health", Summary: "Look for damage."}, (*Request).ownHealth),
	onSession(Route{Method: "GET", Path: ownSession + "/export", Audit: "export", Summary: "Write the session in another form.", Media: mediaText}, (*Request).ownExport),
	onSession(Route{Method: "POST", Path: ownSession + "/search", Summary: "Search a conversation.", Media: mediaLines}, (*Request).ownSearchOne),
	onSession(Route{Method: "POST", Path: ownSession + "/fork", Summary: "Create a session that begins like this one."}, (*Request).ownFork),
	onSession(Route{Method: "POST", Path: ownSession + "/rewind", Summary: "Take back the end of the history."}, (*Request).ownRewind),
	onSession(Route{Method: "POST", Path: ownSession + "/hide", Summary: "Leave messages out of the history, or show them again."}, (*Request).ownHide),
	onSession(Route{Method: "POST", Path: ownSession + "/archive", Audit: "archive", Summary: "Compress a session."}, (*Request).ownArchive),
	onRef(Route{Method: "POST", Path: ownSession + "/trash", Audit: "trash", Summary: "Put a session into the trash."}, (*Request).ownTrash),
	onRef(Route{Method: "POST", Path: ownSession + "/restore", Audit: "restore", Summary: "Bring back an archived or trashed session."}, (*Request).ownRestore),
	onSession(Route{Method: "GET", Path: ownSession + "/pending", Summary: "Read unfinished work: calls, a missing answer, the queue."}, (*Request).ownPending),
	onSession(Route{Method: "POST", Path: ownSession + "/calls/{entry}/decision", Summary: "Decide on a call and continue the answer."}, (*Request).ownDecide),
	onSession(Route{Method: "POST", Path: ownSession + "/interrupt", Summary: "Ask the running turn to stop."}, (*Request).ownInterrupt),
	onSession(Route{Method: "GET", Path: ownSession + "/pins", Summary: "List the pinned texts."}, (*Request).ownPins),
	onSession(Route{Method: "PUT", Path: ownSession + "/pins/{entry}", Summary: "Pin a text."}, (*Request).ownPin),
	onSession(Route{Method: "DELETE", Path: ownSession + "/pins/{entry}", Summary: "Take a pin back."}, (*Request).ownUnpin),
}

type ownSessions struct {
	Sessions []session.Info `json:"sessions"`
	Next     string         `json:"next,omitempty"` // the parameter "after" of the next page
}

func (q *Request) ownList(opts session.ListOptions) (page ownSessions, err error) {
	opts.Limit = clamp(opts.Limit, 100, 1000)
	infos, err := q.Store.List(q.Context(), &opts)
	if err == nil && len(infos) > 0 && len(infos) == opts.Limit {
		page.Next = infos[len(infos)-1].Cursor
	}
	page.Sessions = []session.Info{}
	for _, i := range infos {
		if q.Principal.May(i.Agent) {
			page.Sessions = append(page.Sessions, i)
		}
	}
	return page, err
}

func (q *Request) ownUsage(opts session.ListOptions) (session.Usage, error) {
	opts.After, opts.Limit = "", 0
	if opts.State == session.AnyState {
		opts.State = session.EveryState
	}
	infos, err := q.Sessions(&opts)
	sum := session.Usage{}
	add := func(u session.Usage) {
		for model, more := range u {
			sum[model] = sum[model].Plus(more)
		}
	}
	for _, i := range infos {
		add(i.Usage)
	}
	if all := (session.ListOptions{Key: session.Key{Agent: opts.Agent}, Owner: opts.Owner, State: session.EveryState}); err == nil && opts == all {
		var removed []retain.Removal
		removed, err = q.ownRemoved(none{})
		for _, r := range removed {
			if (opts.Agent == "" || opts.Agent == r.Agent) && (opts.Owner == "" || opts.Owner == r.Owner) {
				add(r.Usage)
			}
		}
	}
	return sum, err
}

type ownDescribed struct {
	Info    session.Info    `json:"info"`
	Stats   memory.Stats    `json:"stats"`
	Pending rebuild.Pending `json:"pending"`
}

func (q *Request) ownGet(s *session.Session, _ none) (d ownDescribed, err error) {
	if d.Pending, err = s.Pending(q.Context()); err == nil {
		d.Stats, err = memory.ReadStats(q.Context(), s)
	}
	if err == nil {
		d.Info, err = s.Info(q.Context())
	}
	return d, err
}

type ownMeta struct {
	Title  *string  `json:"title,omitempty"`
	Labels []string `json:"labels,omitempty"`
	TTL    *int64   `json:"ttl,omitempty"` // seconds after the last user message; 0 means for ever
	Keep   *bool    `json:"keep,omitempty"`
}

func (q *Request) ownMeta(s *session.Session, m ownMeta) (session.Info, error) {
	err := s.SetMeta(q.Context(), transcript.Meta{Title: m.Title, Labels: m.Labels, TTL: m.TTL, Keep: m.Keep})
	return q.described(s, err)
}

func (q *Request) ownDelete(ref session.Ref) (n none, err error) {
	return n, retain.Delete(q.Context(), q.Store, ref)
}

func (q *Request) ownTrash(ref session.Ref) (n none, err error) {
	return n, retain.Trash(q.Context(), q.Store, ref)
}

func (q *Request) ownRestore(ref session.Ref) (i session.Info, err error) {
	if err := retain.Restore(q.Context(), q.Store, ref); err != nil {
		return i, err
	}
	return q.described(q.Store.Get(q.Context(), ref))
}

func (q *Request) ownRemoved(none) ([]retain.Removal, error) {
	all, err := retain.Removals(q.Context(), q.Store)
	return slices.DeleteFunc(all, func(r retain.Removal) bool { return !q.Principal.May(r.Agent) }), err
}

type ownEntries struct {
	Entries []transcript.Entry `json:"entries"`
}

func (q *Request) ownPage(s *session.Session, p struct {
	After  string `json:"after"`
	Before string `json:"before"`
	Last   bool   `json:"last"` // the last page; without After, Before and Last the first page
	Limit  int    `json:"limit"`
},
) (ownEntries, error) {
	place, n := p.After, clamp(p.Limit, 50, 500)
	if p.Before != "" || p.Last {
		place, n = p.Before, -n
	}
	entries, err := search.Page(q.Context(), s, place, n)
	return ownEntries{append([]transcript.Entry{}, entries...)}, err
}

func (q *Request) ownWindow(s *session.Session, w struct {
	Before int `json:"before"`
	After  int `json:"after"`
},
) (ownEntries, error) {
	entries, err := search.Window(q.Context(), s, q.PathValue("entry"), clamp(w.Before, 0, 250), clamp(w.After, 0, 250))
	return ownEntries{append([]transcript.Entry{}, entries...)}, err
}

func (q *Request) ownHealth(s *session.Session, _ none) (session.Health, error) {
	return s.Health(q.Context())
}

type ownForked struct {
	Entry string `json:"entry"`
	session.CreateOptions
}

func (q *Request) ownFork(s *session.Session, f ownForked) (i session.Info, err error) {
	if err := q.demand(true); err != nil {
		return i, err
	}
	return q.described(s.Fork(q.Context(), f.Entry, &f.CreateOptions))
}

func (q *Request) ownRewind(s *session.Session, r struct {
	Entry string `json:"entry,omitempty"` // the new end of the history
	Turns int    `json:"turns,omitempty"` // or the number of turns to take back
},
) (session.Info, error) {
	var err error
	switch {
	case r.Entry != "" && r.Turns == 0:
		err = s.Rewind(q.Context(), r.Entry)
	case r.Entry == "" && r.Turns > 0:
		if err = turn.Undo(q.Context(), s, r.Turns); errors.Is(err, rebuild.ErrFewTurns) {
			err = &session.InputError{Member: "turns", Reason: "the history has fewer"}
		}
	default:
		err = Invalid("give an entry, or a number of turns")
	}
	return q.described(s, err)
}

type ownHidden struct {
	Entries []string `json:"entries"` // in an answer, the changed entries
	Off     bool     `json:"off,omitempty"`
}

func (q *Request) ownHide(s *session.Session, h ownHidden) (ownHidden, error) {
	change := turn.Hide
	if h.Off {
		change = turn.Show
	}
	ids, err := change(q.Context(), s, h.Entries...)
	return ownHidden{append([]string{}, ids...), h.Off}, err
}

func (q *Request) ownArchive(s *session.Session, _ none) (session.Info, error) {
	return q.described(s, q.Store.SetState(q.Context(), s.Ref(), session.Archived, -1))
}

type ownPinned struct {
	Entry string `json:"entry"`
	Text  string `json:"text"`
}

func (q *Request) ownPins(s *session.Session, _ none) ([]ownPinned, error) {
	pins, err := turn.Pins(q.Context(), s)
	out := []ownPinned{}
	for _, p := range pins {
		out = append(out, ownPinned{p.Entry, p.Text})
	}
	return out, err
}

func (q *Request) ownPin(s *session.Session, _ none) (n none, err error) {
	return n, turn.Pin(q.Context(), s, q.PathValue("entry"))
}

func (q *Request) ownUnpin(s *session.Session, _ none) (n none, err error) {
	return n, turn.Unpin(q.Context(), s, q.PathValue("entry"))
}
