package exchange

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// programs are the dialects, and the forms of arrays, whose sessions [Find] finds by the ID
// that they had there.
var programs = []dialect.Dialect{
	dialect.Native, dialect.MiniClaw, dialect.Claw0, dialect.ZyHive, dialect.OpenViking, dialect.Pi, dialect.ClaudeCode,
	dialect.Codex, dialect.OpenCode, dialect.GeminiCLI, dialect.ChatGPT, dialect.ClaudeAI,
	"openai-chat", "anthropic", "openai-responses", "gemini", "bedrock",
}

// Find returns the session with an ID, or the one that [Import] made of a session with
// that ID in a program of package dialect, or in an array, if the ID was not valid here or
// in use. For a [Source] with a name of its own keep [Imported].Session, or take IDs that
// are valid here. It returns the errors of [session.Store.Get].
func Find(ctx context.Context, st *session.Store, ref session.Ref) (*session.Session, error) {
	if err := opened(st); err != nil {
		return nil, err
	}
	s, err := st.Get(ctx, ref)
	if s != nil || !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	for _, d := range programs {
		info := dialect.Session{Dialect: d, ID: ref.ID}
		for _, owner := range slices.Compact([]string{st.Owner(), ""}) {
			if s, other := st.Get(ctx, session.Ref{Agent: ref.Agent, ID: importID(info, transcript.Entry{}, "", owner)}); other == nil {
				return s, nil
			}
		}
	}
	return s, err
}

// importID returns the ID of the session that a source becomes if its own cannot be
// kept. It is always the same, see [session.ForeignID]. A source
// without an ID is identified by its first record. More distinguishes sources
// of the same ID.
func importID(s dialect.Session, first transcript.Entry, more, owner string) string {
	var name strings.Builder // with ':', so that it is no valid ID
	part := func(text string) { _, _ = fmt.Fprintf(&name, "%d:%s", len(text), text) }
	part(string(s.Dialect))
	part(s.ID)
	if s.ID == "" {
		part(string(first.Line()))
	}
	if s.PutAway { // if another one continues under the ID
		part(path.Base(s.Path))
	}
	part(more)
	if owner != "" { // IDs are unique among all owners
		part(owner)
	}
	return session.ForeignID(name.String())
}

// originalID returns the valid ID that an imported session had in its program, if the key
// holds it and the session could not keep it.
func originalID(info session.Info) string {
	k, err := session.ParseKey(info.Key)
	there := dialect.Session{Dialect: dialect.Dialect(k.Channel), ID: k.Peer}
	if driver.CheckRef(session.Ref{Agent: "-", ID: there.ID}) != nil {
		return "" // an import of it would not find the session
	}
	for _, owner := range []string{info.Owner, ""} {
		if err == nil && info.ID == importID(there, transcript.Entry{}, "", owner) {
			return there.ID
		}
	}
	return ""
}

// sourceIDs are the IDs that a session may get from its source.
type sourceIDs struct {
	kept    string // the ID of the source
	derived string // the ID of the session if it cannot have the one in kept
	more    string // distinguishes the source from others of its ID
	closed  bool   // an owner's session, to which a source without an owner adds nothing
}

// firstEntry returns the first entry, which identifies a source without an ID.
func (im *importing) firstEntry() (transcript.Entry, error) {
	if im.records == nil {
		return transcript.Entry{}, fmt.Errorf("a source without records: %w", fs.ErrInvalid)
	}
	for rec, err := range im.records {
		if err != nil || rec.HasEntry() {
			return rec.Entry, err
		}
	}
	return transcript.Entry{}, nil
}

// locate finds the session of the source, nil if it is missing, and sets its ID: the one
// that the source was exported from, that an earlier import has used, or the first of the
// others below that is valid and no other session's.
func (im *importing) locate(ctx context.Context) (*session.Session, error) {
	derive := func(more, owner string) string { return importID(im.Source, im.first, im.more+more, owner) }
	var free []string
	for i, id := range []string{im.Source.Origin, im.kept, im.derived, derive("", im.wanted()), derive(im.Key.String(), im.wanted())} {
		if driver.CheckRef(session.Ref{Agent: im.Session.Agent, ID: id}) != nil {
			continue
		}
		s, err := im.get(ctx, id)
		if err != nil {
			return nil, err
		}
		if s == nil {
			if i > 0 {
				free = append(free, id)
			}
			continue
		}
		if same, err := im.is(ctx, s); same || err != nil {
			im.Session.ID = id
			return s, err
		}
	}
	im.Trashed = false
	if len(free) == 0 {
		return nil, fmt.Errorf("other sessions have all of its IDs: %w", fs.ErrExist)
	}
	im.Session.ID = free[0]
	return nil, nil
}

// wanted is the owner that the source is for.
func (im *importing) wanted() string {
	h, _ := im.first.Body.(transcript.Header)
	return cmp.Or(im.store.Owner(), im.opts.For, h.Owner, im.Source.Owner)
}

// get returns a session, one in the trash as well, and nil if it is missing.
func (im *importing) get(ctx context.Context, id string) (*session.Session, error) {
	s, err := im.store.Get(ctx, session.Ref{Agent: im.Session.Agent, ID: id})
	if s != nil || errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return s, err
}

// is reports whether a session is the source's: imported for the same key, or exported
// to it, perhaps to another program.
func (im *importing) is(ctx context.Context, s *session.Session) (bool, error) {
	info, err := s.Info(ctx)
	if err != nil {
		return false, err
	}
	im.Trashed = info.State == session.Trashed
	want := im.wanted()
	if want != "" && info.Owner != "" && info.Owner != want {
		return false, nil
	}
	own, err := hasOwn(ctx, s)
	if err != nil {
		return false, err
	}
	if im.closed = want == "" && info.Owner != ""; im.closed {
		return im.contained(ctx, s)
	}
	same := info.Key == im.Key.String()
	if h, ok := im.first.Body.(transcript.Header); ok && im.Source.Dialect == dialect.Native {
		same = same && (!own || info.CreatedAt.Equal(im.Source.Created)) && (h.Owner == "" || info.Owner == want)
	}
	if same && !own || im.Source.Dialect == dialect.Native {
		return same, nil
	}
	return im.contained(ctx, s)
}

// hasOwn reports whether a session begins with a batch that no import has made.
func hasOwn(ctx context.Context, s *session.Session) (bool, error) {
	for e, err := range s.Entries(ctx, "") {
		if err != nil {
			return false, err
		}
		if transcript.IsHead(e.Type()) || strings.HasPrefix(e.Idem, importKeys) {
			return !strings.HasPrefix(e.Idem, importKeys), nil
		}
	}
	return false, nil
}

// contained reports whether the conversation of a session begins with all words of the
// source, as after an export to it, and contains its calls, results and media.
func (im *importing) contained(ctx context.Context, s *session.Session) (bool, error) {
	entries, _, err := conversation(ctx, s)
	if err != nil {
		return false, err
	}
	var here, there said
	for e, err := range exported(ctx, s, entries) {
		if err != nil {
			return false, err
		}
		here.add(e)
	}
	rest := 0 // entries of the source after its header
	for rec, err := range im.records {
		if err != nil {
			return false, err
		}
		if !rec.HasEntry() || im.isSummary(rec.Entry) {
			continue
		}
		if _, ok := rec.Entry.Body.(transcript.Header); !ok {
			rest++
		}
		there.add(rec.Entry)
	}
	wordless := rest == 0 || here.empty() || im.Source.Origin == s.Ref().ID // the source may be
	if !here.includes(there) || there.empty() && !wordless {
		return false, nil
	}
	for kind, n := range there.silent {
		if n > here.silent[kind] { // the program has continued it without words
			im.Lost[kind] = n - here.silent[kind]
		}
	}
	return true, nil
}

// isSummary reports whether an entry of Claude Code is the summary that begins its file. A
// reader makes a message of it.
func (im *importing) isSummary(e transcript.Entry) bool {
	var row struct{ IsCompactSummary bool }
	return im.Source.Dialect == dialect.ClaudeCode && json.Unmarshal(e.Line(), &row) == nil && row.IsCompactSummary
}

// said holds the words of a conversation, with a role where it changes: programs
// join and split the texts of one role. The other content is listed by kind, because
// programs order the kinds differently.
type said struct {
	strings.Builder
	role   transcript.Role
	other  map[string][]string
	silent map[string]int // the number of other blocks by kind, such as reasoning
}

func (s *said) empty() bool { return s.Len() == 0 && len(s.other) == 0 }

// includes reports whether s begins with the words of an export and has the rest of it in
// the same order. A program may lack a part of the rest, such as some of the media.
func (s *said) includes(export said) bool {
	for kind, want := range export.other {
		for _, item := range s.other[kind] {
			if len(want) > 0 && want[0] == item {
				want = want[1:]
			}
		}
		if len(want) > 0 {
			return false
		}
	}
	return strings.HasPrefix(s.String(), export.String())
}

func (s *said) add(e transcript.Entry) {
	f, _ := e.Body.(transcript.MessageLine)
	for _, b := range f.Content {
		var text string
		switch b := b.(type) {
		case transcript.TextBlock:
			text = b.Text
		case transcript.ContextBlock: // as programs without such blocks get it
			text = "[" + b.Kind + " " + b.URI + "] " + b.Abstract
		default:
			s.list(b)
		}
		for word := range strings.FieldsSeq(text) {
			if f.Role != s.role {
				s.role = f.Role
				s.WriteString("\n" + string(f.Role) + " ")
			}
			s.WriteString(word + " ")
		}
	}
}

// list adds a call, a result or media, without the IDs of calls, which programs change.
func (s *said) list(b transcript.Block) {
	add := func(item string) {
		if s.other == nil {
			s.other = map[string][]string{}
		}
		s.other[transcript.BlockType(b)] = append(s.other[transcript.BlockType(b)], item)
	}
	switch b := b.(type) {
	case transcript.ToolCallBlock:
		input := any(b.Input)
		_ = json.Unmarshal(b.Input, &input) // sorted, if it is JSON
		add(fmt.Sprint(b.Name, " ", input))
	case transcript.ToolResultBlock:
		var words []string
		for _, part := range b.Content {
			if text, ok := part.(transcript.TextBlock); ok {
				words = append(words, strings.Fields(text.Text)...)
			} else {
				s.list(part)
			}
		}
		add(strings.Join(words, " "))
	case transcript.ImageBlock:
		add(b.Source.Data + b.Source.URL)
	case transcript.DocumentBlock:
		add(b.Source.Data + b.Source.URL)
	default:
		if s.silent == nil {
			s.silent = map[string]int{}
		}
		s.silent[transcript.BlockType(b)]++
	}
}
