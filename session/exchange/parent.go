package exchange

import (
	"context"
	"errors"
	"io/fs"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// parents finds the sessions and calls that started helpers.
type parents struct {
	store *session.Store
	refs  map[string]session.Ref // of the sources, by dialect and ID
	last  session.Ref            // the session that calls is of
	calls map[string]string      // entries, by the IDs of their calls
}

func newParents(st *session.Store) *parents {
	return &parents{store: st, refs: map[string]session.Ref{}}
}

func (p *parents) add(s dialect.Session, ref session.Ref) {
	if name := string(s.Dialect) + "/" + s.ID; s.ID != "" && p.refs[name] == (session.Ref{}) {
		p.refs[name] = ref
	}
}

// link returns the place that a helper was started from. A parent that this import
// has not seen is the session that [Find] finds, or the one that it would become.
func (p *parents) link(ctx context.Context, s dialect.Session, agent string) (transcript.Link, error) {
	ref, ok := p.refs[string(s.Dialect)+"/"+s.Parent]
	if !ok {
		ref = session.Ref{Agent: agent, ID: s.Parent}
		found, err := Find(ctx, p.store, ref)
		switch {
		case found != nil:
			ref = found.Ref()
		case driver.CheckRef(ref) != nil:
			ref.ID = importID(dialect.Session{Dialect: s.Dialect, ID: s.Parent}, transcript.Entry{}, "", p.store.Owner())
		case !errors.Is(err, fs.ErrNotExist):
			return transcript.Link{}, err
		}
	}
	if err := p.read(ctx, ref); err != nil {
		return transcript.Link{}, err
	}
	return transcript.Link{Agent: ref.Agent, Session: ref.ID, Entry: p.calls[s.Call]}, nil
}

// read finds the calls of a session.
func (p *parents) read(ctx context.Context, ref session.Ref) error {
	if p.last == ref {
		return nil
	}
	p.last, p.calls = ref, map[string]string{}
	s, err := p.store.Get(ctx, ref)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for rec, err := range s.Scan(ctx, session.ScanOptions{}) {
		if err != nil {
			return err
		}
		if m, ok := rec.Entry.Body.(transcript.MessageLine); ok {
			for _, c := range m.Message().ToolCalls() {
				if c.ID != "" {
					p.calls[c.ID] = rec.Entry.ID
				}
			}
		}
	}
	return nil
}
