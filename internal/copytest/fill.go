// Package copytest fills stores with every kind of content and compares stores, for tests
// of copies between drivers.
package copytest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// A filler makes random calls on a store, like an application.
type filler struct {
	ctx context.Context //nolint:containedctx // lives as long as the call of Fill
	st  *session.Store
	r   *rand.Rand
	n   int
}

// Grow makes n changes to a store. They only add to it: Grow makes, forks, switches and
// archives sessions of some keys. In sessions it appends messages, calls, compactions,
// commits, rewinds, pins and drafts. The seed determines the changes.
func Grow(ctx context.Context, st *session.Store, seed uint64, n int) error {
	return newFiller(ctx, st, seed).fill(n, false)
}

// Fill is like Grow, but also deletes sessions and erases entries.
func Fill(ctx context.Context, st *session.Store, seed uint64, n int) error {
	return newFiller(ctx, st, seed).fill(n, true)
}

func newFiller(ctx context.Context, st *session.Store, seed uint64) *filler {
	return &filler{ctx: ctx, st: st, r: rand.New(rand.NewPCG(seed, 7))}
}

func (f *filler) fill(n int, remove bool) error {
	steps := []func() error{
		f.talk, f.talk, f.talk, f.talk, f.call, f.call, f.create, f.create, f.fork, f.current, f.current, f.change, f.rewind, f.compact,
		f.commit, f.stand, f.draft, f.picture, f.archive, f.foreign,
	}
	if remove {
		steps = append(steps, f.remove, f.erase)
	}
	for range n {
		step := f.r.IntN(len(steps))
		err := steps[step]()
		for _, refused := range []error{compact.ErrNotSmaller, session.ErrArchived, session.ErrConflict, fs.ErrNotExist} {
			if errors.Is(err, refused) {
				err = nil // the step was not possible at this point
			}
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
	}
	return nil
}

// key returns one of six keys of two agents.
func (f *filler) key() session.Key {
	return session.Key{Agent: []string{"main", "ops"}[f.r.IntN(2)], Channel: "cli", Peer: fmt.Sprint("p", f.r.IntN(3))}
}

// any returns a session, which may be archived.
func (f *filler) any() (*session.Session, error) {
	if f.r.IntN(2) == 0 {
		return f.st.Load(f.ctx, f.key())
	}
	return f.old()
}

// old returns any session of the store.
func (f *filler) old() (*session.Session, error) {
	infos, err := f.st.List(f.ctx, &session.ListOptions{State: session.AnyState})
	if err != nil {
		return nil, err
	}
	if len(infos) == 0 {
		return f.st.Load(f.ctx, f.key())
	}
	return f.st.Get(f.ctx, infos[f.r.IntN(len(infos))].Ref)
}

// with calls do with a session.
func (f *filler) with(do func(*session.Session) error) error {
	s, err := f.any()
	if err == nil {
		err = do(s)
	}
	return err
}

// word returns a new word that occurs nowhere else.
func (f *filler) word() string {
	f.n++
	return fmt.Sprintf("w%d-%x", f.n, f.r.Uint32())
}

func (f *filler) answer(calls ...string) *transcript.Response {
	r := &transcript.Response{API: "anthropic", Model: "m", StopReason: transcript.StopEndTurn, Message: transcript.AssistantText(f.word() + " <&> \u2028é.")}
	r.Usage = transcript.Usage{Input: 10, Output: f.n}
	for _, id := range calls {
		r.StopReason = transcript.StopToolUse
		r.Message.Content = append(r.Message.Content, transcript.ToolCallBlock{ID: id, Name: "read_file", Input: json.RawMessage(`{"path": "a.go"}`)})
	}
	return r
}

func (f *filler) talk() error {
	return f.with(func(s *session.Session) error {
		cond := session.Cond{}
		if f.r.IntN(2) == 0 {
			cond.Idem = f.word()
		}
		_, err := s.AppendIf(f.ctx, cond, transcript.UserText(f.word()+" is a question."), f.answer())
		return err
	})
}

// call appends an answer with two calls, and mostly their decisions and results.
func (f *filler) call() error {
	return f.with(func(s *session.Session) error {
		a, b := f.word(), f.word()
		if _, err := s.Append(f.ctx, transcript.UserText(f.word()), f.answer(a, b)); err != nil {
			return err
		}
		pending, err := s.Pending(f.ctx)
		if err != nil {
			return err
		}
		t, err := turn.Begin(f.ctx, s)
		if err != nil {
			return err
		}
		if len(pending.Calls) > 0 {
			call := pending.Calls[0].Entry
			verdicts := []transcript.Verdict{transcript.Hold, transcript.Approve, transcript.Reject}
			if err = turn.Decide(f.ctx, s, call, verdicts[f.r.IntN(3)], "ada", "why not"); err == nil && f.r.IntN(2) == 0 {
				err = turn.Dispatch(f.ctx, s, call)
			}
		}
		if f.r.IntN(3) > 0 && (err == nil || errors.Is(err, session.ErrConflict)) {
			_, err = s.Append(f.ctx, transcript.ToolResult(a, f.word()), transcript.ToolError(b, f.word()))
		}
		return errors.Join(err, t.End())
	})
}

func (f *filler) create() error {
	_, err := f.st.Create(f.ctx, f.key(), &session.CreateOptions{Title: f.word(), Owner: "ada", Labels: []string{"a", f.word()}, TTL: 1 << 50})
	return err
}

// entry returns the ID of an entry of a session.
func (f *filler) entry(s *session.Session) (id string, err error) {
	n := 0
	for e, err := range s.Entries(f.ctx, "") {
		if err != nil {
			return "", err
		}
		if n++; transcript.IsHead(e.Type()) && f.r.IntN(n) == 0 || id == "" {
			id = e.ID
		}
	}
	return id, nil
}

// at calls do with a session and one of its entries.
func (f *filler) at(do func(s *session.Session, id string) error) error {
	return f.with(func(s *session.Session) error {
		id, err := f.entry(s)
		if err == nil {
			err = do(s, id)
		}
		return err
	})
}

func (f *filler) fork() error {
	return f.at(func(s *session.Session, id string) error {
		_, err := s.Fork(f.ctx, id, nil)
		return err
	})
}

// current makes a session the current one of its key.
func (f *filler) current() error {
	s, err := f.old()
	if err == nil {
		err = s.MakeCurrent(f.ctx)
	}
	return err
}

// change changes the metadata of a session.
func (f *filler) change() error {
	return f.with(func(s *session.Session) error {
		return s.SetMeta(f.ctx, transcript.Meta{Title: new(f.word()), Labels: []string{f.word()}, Keep: new(f.r.IntN(2) == 0)})
	})
}

func (f *filler) rewind() error {
	return f.at(func(s *session.Session, id string) error { return s.Rewind(f.ctx, id) })
}

func (f *filler) compact() error {
	return f.with(func(s *session.Session) error {
		_, err := s.Compact(f.ctx, &compact.Options{Keep: compact.Keep{Turns: 1 + f.r.IntN(3)}})
		return err
	})
}

func (f *filler) commit() error {
	return f.with(func(s *session.Session) error {
		_, err := memory.Commit(f.ctx, s, &memory.CommitOptions{KeepHistory: f.r.IntN(2) == 0})
		return err
	})
}

// stand appends state outside of the conversation: pins, values, queued texts.
func (f *filler) stand() error {
	return f.at(func(s *session.Session, id string) error {
		_, err := turn.SetValue(f.ctx, s, fmt.Sprint("name", f.r.IntN(3)), json.RawMessage(`{"a": 1}`), "")
		if err == nil {
			_, err = turn.Queue(f.ctx, s, transcript.UserText(f.word()))
		}
		if err == nil && id != s.Ref().ID {
			_ = turn.Pin(f.ctx, s, id) // some entries have no text
		}
		return err
	})
}

// draft streams a draft, and finishes half of the drafts.
func (f *filler) draft() error {
	return f.with(func(s *session.Session) error {
		t, err := turn.Begin(f.ctx, s)
		if err != nil {
			return err
		}
		d := t.Draft("anthropic", "m", transcript.Made{})
		err = errors.Join(d.Write(f.ctx, f.word()+"\n"), d.Flush(f.ctx))
		if err == nil && f.r.IntN(2) == 0 {
			_, err = d.Finish(f.ctx, f.answer())
		}
		return errors.Join(err, t.End())
	})
}

// picture appends one of four images of about 15 KB.
func (f *filler) picture() error {
	return f.with(func(s *session.Session) error {
		data := make([]byte, 15_000)
		r := rand.New(rand.NewPCG(f.r.Uint64N(4), 1))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		image := transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: base64.StdEncoding.EncodeToString(data)}}
		_, err := s.Append(f.ctx, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{image}}, f.answer())
		return err
	})
}

// archive archives a session, or restores an archived one.
func (f *filler) archive() error {
	return f.with(func(s *session.Session) error {
		info, err := s.Info(f.ctx)
		switch {
		case err != nil:
			return err
		case info.State == session.Archived:
			return f.st.SetState(f.ctx, s.Ref(), session.Live, -1)
		}
		return f.st.SetState(f.ctx, s.Ref(), session.Archived, -1)
	})
}

// remove deletes a session in one of three calls.
func (f *filler) remove() error {
	if f.r.IntN(3) > 0 {
		return nil
	}
	return f.with(func(s *session.Session) error { return f.st.Delete(f.ctx, s.Ref()) })
}

func (f *filler) erase() error {
	return f.at(func(s *session.Session, id string) error {
		if id == s.Ref().ID {
			return nil
		}
		p, err := erase.Preview(f.ctx, f.st, erase.Erasure{Entries: []erase.Selection{{Session: s.Ref(), Entries: []string{id}}}})
		if err == nil {
			_, err = erase.Run(f.ctx, f.st, p)
		}
		return err
	})
}

// foreign appends lines that this program would not write: a type of a later version, a cut
// batch, and members in another order.
func (f *filler) foreign() error {
	return f.with(func(s *session.Session) error {
		var entries []transcript.Entry
		for _, format := range []string{
			`{"type":"of-later","id":"%s","ts":"2026-01-02T03:04:05Z","x":[1,  2.50]}`,
			`{"content":"\u00e9 and \/","id":"%s","ts":"2026-01-02T03:04:05.6Z","batch":3,"part":1,"type":"user"}`,
		} {
			e, err := transcript.ParseEntry(fmt.Appendf(nil, format, f.word()))
			if err != nil {
				return err
			}
			entries = append(entries, e)
		}
		var end int64
		for rec, err := range s.Scan(f.ctx, session.ScanOptions{}) {
			if err != nil {
				return err
			}
			end = rec.End
		}
		_, err := s.AppendLines(f.ctx, end, entries...)
		return err
	})
}
